//! How soon QEMU's first thread runs once it wakes, on a busy host.
//!
//! Exact mode needs it. While the vCPUs' thread works, QEMU's first thread wakes at each
//! deadline, looks whether all CPUs are idle, and if so moves the guest's clock on to the
//! next deadline (`icount_start_warp_timer`). A CPU is marked idle (`do_hlt`) a moment
//! before the instructions that it has executed are counted (`icount_process_data`). A first
//! thread that comes late, by about a fifth of a millisecond, can meet that moment, and moves
//! the clock too far.

use std::mem::size_of;

/// The shortest time slice that Linux accepts (`__setparam_fair()`), in nanoseconds.
const SHORT_SLICE: u64 = 100_000;

/// What a host allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QemuPriority {
    /// `SCHED_FIFO`: it runs as soon as it wakes, before all usual work. It takes
    /// `CAP_SYS_NICE` or a limit `RLIMIT_RTPRIO`.
    RealTime,
    /// `SCHED_OTHER` with a short slice, which anybody may ask for: it mostly interrupts
    /// what has a longer one (`PREEMPT_SHORT`, since Linux 6.12).
    ShortSlice,
    /// As any other thread.
    None,
}

/// Gives a process' first thread the best priority that the host allows. Threads and processes
/// that it starts later do not inherit it.
pub fn give(pid: u32) -> QemuPriority {
    let Ok(pid) = i32::try_from(pid) else {
        return QemuPriority::None;
    };
    if real_time(pid) {
        QemuPriority::RealTime
    } else if short_slice(pid) {
        QemuPriority::ShortSlice
    } else {
        QemuPriority::None
    }
}

/// The priority that this host allows, tried on a process that is ended at once.
pub fn of_host() -> QemuPriority {
    use std::process::{Command, Stdio};
    // It ends with us in any case, when the pipe is closed.
    let child = Command::new("cat").stdin(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        return QemuPriority::None;
    };
    let qemu_priority = give(child.id());
    child.kill().ok();
    child.wait().ok();
    qemu_priority
}

#[expect(unsafe_code, reason = "sched_setscheduler(2) has no safe wrapper")]
fn real_time(pid: i32) -> bool {
    let lowest = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the parameter outlives the call, which reads nothing else.
    let result = unsafe { libc::sched_setscheduler(pid, policy, &raw const lowest) };
    result == 0
}

/// Asks for a short slice; whether the process has one now. Linux before 6.12 accepts the
/// request and ignores it.
fn short_slice(pid: i32) -> bool {
    let Some(now) = attributes(pid) else {
        return false;
    };
    if now.sched_policy != libc::SCHED_OTHER as u32 {
        return false;
    }
    let wanted = libc::sched_attr {
        sched_flags: libc::SCHED_FLAG_RESET_ON_FORK as u64,
        sched_runtime: SHORT_SLICE,
        ..now
    };
    set_attributes(pid, &wanted);
    attributes(pid).is_some_and(|then| then.sched_runtime == SHORT_SLICE)
}

#[expect(unsafe_code, reason = "sched_getattr(2) has no safe wrapper")]
fn attributes(pid: i32) -> Option<libc::sched_attr> {
    let size = size_of::<libc::sched_attr>();
    // SAFETY: all zeroes are a value of it.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes no more than `size` bytes there.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_getattr, pid, &raw mut attributes, size, 0) };
    (result == 0).then_some(attributes)
}

#[expect(unsafe_code, reason = "sched_setattr(2) has no safe wrapper")]
fn set_attributes(pid: i32, attributes: &libc::sched_attr) {
    // SAFETY: it outlives the call, which reads as much as its `size` says. Whether it was
    // heeded is read afterwards.
    unsafe {
        libc::syscall(libc::SYS_sched_setattr, pid, &raw const *attributes, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that does nothing, ended with the test.
    struct Sleeper(std::process::Child);

    impl Drop for Sleeper {
        fn drop(&mut self) {
            self.0.kill().ok();
            self.0.wait().ok();
        }
    }

    fn sleeper() -> (Sleeper, i32) {
        let child = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        (Sleeper(child), pid)
    }

    #[test]
    fn a_short_slice_is_what_the_kernel_says_it_is() {
        let (_sleeper, pid) = sleeper();
        let given = short_slice(pid);
        let now = attributes(pid).unwrap();
        assert_eq!(given, now.sched_runtime == SHORT_SLICE);
        assert_eq!(now.sched_policy, libc::SCHED_OTHER as u32);
        assert_ne!(now.sched_flags & libc::SCHED_FLAG_RESET_ON_FORK as u64, 0);
    }

    #[test]
    fn a_host_gives_what_it_gives_a_process() {
        let (_sleeper, pid) = sleeper();
        assert_eq!(of_host(), give(pid as u32));
    }

    #[test]
    fn what_is_no_process_gets_nothing() {
        assert_eq!(give(u32::MAX), QemuPriority::None);
        // More than any number of a process.
        assert_eq!(give(i32::MAX as u32), QemuPriority::None);
    }
}
