//! Guest time: reading it, and using it up on the CPU.

use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of a millisecond.
pub(crate) const MS: u64 = 1_000_000;

/// Steps between two looks at the clock for short spins: some microseconds of guest time.
pub(crate) const FINE: u32 = 256;

/// Steps between two looks at the clock for long spins: about a millisecond of guest time.
pub(crate) const COARSE: u32 = 16_384;

/// Nanoseconds of guest time since boot (`CLOCK_MONOTONIC` starts at 0, and a guest is
/// never suspended).
pub(crate) fn uptime_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds * 1000 * MS + nanoseconds
}

/// Keeps the CPU busy until a moment. Never sleeps.
///
/// Reading the clock executes `rdtsc`, which ends QEMU's translation blocks and makes it
/// compute the guest's time; arithmetic between two readings keeps a spin cheap for the host.
pub(crate) fn spin_until(moment_ns: u64, steps: u32) {
    let mut state = moment_ns;
    while uptime_ns() < moment_ns {
        for _ in 0..steps {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .rotate_left(17)
                ^ 0x9e37;
        }
        state = black_box(state);
    }
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
