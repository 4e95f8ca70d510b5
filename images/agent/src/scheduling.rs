//! How the agent itself is scheduled.
//!
//! `SCHED_FIFO`, because only tasks of the fair class are scanned (`task_tick_fair` is the
//! one caller of `task_tick_numa`): the agent's own memory never shows in a counter.
//! `SCHED_RESET_ON_FORK`, so that tasks start in the fair class.
//!
//! It stays on CPU 0 for the whole run. Until the window closes that is required: only
//! CPU 0 is online. Afterwards it keeps every interrupt of the record port and every wake-up
//! of the agent on one known CPU, so that tasks elsewhere are never disturbed, and what
//! the agent allocates for the kernel lies on one known node.

use std::io;

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::errno;
use crate::file;

/// Why the agent could not be scheduled so.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SchedulingError {
    #[error("the kernel refuses SCHED_FIFO: {}", errno::text(.0))]
    Fifo(io::Error),
    #[error("the kernel refuses to keep the agent on CPU 0: {}", errno::text(.0))]
    Affinity(io::Error),
}

/// Makes the agent a real-time task on CPU 0.
pub(crate) fn settle() -> Result<(), SchedulingError> {
    let mut first = CpuSet::new();
    first.set(0);
    sched_setaffinity(None, &first).map_err(|errno| SchedulingError::Affinity(errno.into()))?;
    let parameters = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    #[expect(
        unsafe_code,
        reason = "no safe wrapper of sched_setscheduler(2) is at hand"
    )]
    // SAFETY: `parameters` lives across the call, and 0 is the calling process.
    let result = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
    if result < 0 {
        return Err(SchedulingError::Fifo(io::Error::last_os_error()));
    }
    Ok(())
}

const RT_RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// Runs `spin`, a second of real-time work, without the kernel's throttling of real-time
/// tasks, which would say so on the console of older kernels. A kernel without the knob does
/// not throttle; one that refuses it throttles, which costs nothing but that line.
pub(crate) fn unthrottled(spin: impl FnOnce()) {
    let before = file::read(RT_RUNTIME).ok();
    let lifted = before.is_some() && file::write(RT_RUNTIME, "-1").is_ok();
    spin();
    if lifted && let Some(before) = before {
        // The value came from the kernel a moment ago.
        let _ = file::write(RT_RUNTIME, before.trim_end());
    }
}
