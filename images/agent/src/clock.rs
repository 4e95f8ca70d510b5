//! Guest time: reading it, and spinning.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of a millisecond.
pub(crate) const MS: u64 = 1_000_000;

/// Steps between two readings of the clock in short spins: some microseconds of guest time.
pub(crate) const FINE: u32 = 256;

/// Steps between two readings of the clock in long spins: about a millisecond of guest time.
pub(crate) const COARSE: u32 = 16_384;

/// Nanoseconds of guest time since boot (`CLOCK_MONOTONIC` starts at 0, and a guest is
/// never suspended).
pub(crate) fn uptime_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds * 1000 * MS + nanoseconds
}

/// Spins until a moment.
///
/// Reading the clock executes `rdtsc`, which ends a translation block of QEMU and makes it
/// compute the guest's time; arithmetic between two readings makes a spin cheap for the host.
pub(crate) fn spin_until(moment_ns: u64, steps: u32) {
    let mut state = moment_ns;
    while uptime_ns() < moment_ns {
        state = work(state, steps);
    }
}

/// Arithmetic to spend time with: five instructions per step, from one state to the next.
pub(crate) fn work(mut state: u64, steps: u32) -> u64 {
    for _ in 0..steps {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .rotate_left(17)
            ^ 0x9e37;
    }
    black_box(state)
}

/// Leaves every CPU idle for a moment.
///
/// While a CPU runs, QEMU switches between the CPUs of a guest by a timer of its own. Its
/// phase depends on when it was started, so it differs between a restored and a cold guest.
/// The timer stops when all CPUs are idle, and starts again, in guest time, when one of them
/// wakes (`rr_wait_io_event`, `rr_start_kick_timer`). This has to happen once before a second
/// CPU runs; otherwise the restored guest switches CPUs at other moments than the cold one.
/// Linux 7.2 shows this: it brings a CPU online without being idle in between.
pub(crate) fn rest() {
    std::thread::sleep(Duration::from_nanos(2 * MS));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spin_ends_after_its_moment() {
        let moment = uptime_ns() + 2 * MS;
        spin_until(moment, FINE);
        assert!(uptime_ns() >= moment);
        spin_until(0, COARSE);
    }
}
