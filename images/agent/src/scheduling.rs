//! How the agent itself is scheduled.
//!
//! `SCHED_FIFO`, because only tasks of the fair class are scanned (`task_tick_fair` is the
//! one caller of `task_tick_numa`): the agent's own memory never shows in a counter.
//! `SCHED_RESET_ON_FORK`, so that tasks start in the fair class.
//!
//! It stays on CPU 0 for the whole run. Until the window closes no other CPU is online.
//! Afterwards all interrupts of the record port and all wake-ups of the agent stay on one
//! known CPU, so that tasks elsewhere are never disturbed, and the kernel memory that the
//! agent causes to be allocated is on one known node.

use std::io;

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::errno::{CallError, failed};
use crate::file;

/// Makes the agent a real-time task on CPU 0.
pub(crate) fn set_up() -> Result<(), CallError> {
    let mut first = CpuSet::new();
    first.set(0);
    sched_setaffinity(None, &first).map_err(failed("the agent cannot be kept on CPU 0"))?;
    let parameters = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    #[expect(
        unsafe_code,
        reason = "no safe wrapper of sched_setscheduler(2) is at hand"
    )]
    // SAFETY: `parameters` lives across the call, and 0 is the calling process.
    let result = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
    if result < 0 {
        return Err(failed("the kernel refuses SCHED_FIFO")(
            io::Error::last_os_error(),
        ));
    }
    Ok(())
}

const RT_RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// Runs `spin`, a second of real-time work, without real-time throttling, which older
/// kernels report on the console. A kernel without the tunable does not throttle; one that
/// refuses the value merely prints that line.
pub(crate) fn unthrottled(spin: impl FnOnce()) {
    let before = file::read(RT_RUNTIME).ok();
    let lifted = before.is_some() && file::write(RT_RUNTIME, "-1").is_ok();
    spin();
    if lifted && let Some(before) = before {
        // The value came from the kernel a moment ago.
        let _ = file::write(RT_RUNTIME, before.trim_end());
    }
}
