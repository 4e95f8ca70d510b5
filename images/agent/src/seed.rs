//! The plan's seed: random numbers of the agent, and of the kernel.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;

use crate::clock::{self, MS};
use crate::errno::{CallError, failed};

/// The splitmix64 generator: small, and the same on every machine.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    state: u64,
}

impl Stream {
    /// The stream of a seed for one purpose, so that purposes do not share numbers.
    pub(crate) fn new(seed: u64, purpose: &str) -> Self {
        // FNV-1a of the name.
        let name = purpose
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        let mut stream = Stream { state: seed };
        stream.state = stream.next() ^ name;
        stream
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = self.state;
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which is small and not 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Nanoseconds of a pause before a step: 0.2 to 3.2 ms, so that the steps of different
    /// seeds begin at different points between two timer ticks (1 ms or 4 ms apart).
    pub(crate) fn jitter_ns(&mut self) -> u64 {
        MS / 5 + self.below(3 * MS)
    }

    /// Spins for [`Stream::jitter_ns`].
    pub(crate) fn jitter(&mut self) {
        let until = clock::uptime_ns() + self.jitter_ns();
        clock::spin_until(until, clock::FINE);
    }
}

/// `RNDADDENTROPY` of `include/uapi/linux/random.h`: `_IOW('R', 3, int[2])`.
const RNDADDENTROPY: libc::c_ulong = 0x4008_5203;
/// `RNDRESEEDCRNG` of `include/uapi/linux/random.h`: `_IO('R', 7)`.
const RNDRESEEDCRNG: libc::c_ulong = 0x5207;

/// Words of the seed's stream that are mixed in: 64 bytes, one block of the input pool.
const WORDS: usize = 8;

/// `struct rand_pool_info` of `include/uapi/linux/random.h`.
#[repr(C)]
struct PoolInfo {
    entropy_count: libc::c_int,
    buf_size: libc::c_int,
    buf: [u64; WORDS],
}

/// Mixes the seed into the kernel's random number generator and reseeds it.
///
/// `RNDADDENTROPY` mixes into the input pool and credits it, which initializes the generator
/// (`_credit_init_bits`); before that `RNDRESEEDCRNG` fails with `ENODATA`, and a plain write
/// would only take effect at the next reseeding. `RNDRESEEDCRNG` then draws a new key from
/// the pool (`crng_reseed`) and increments the generation, so that all CPUs also draw new
/// keys and batches.
pub(crate) fn mix(seed: u64) -> Result<(), CallError> {
    let device = OpenOptions::new()
        .write(true)
        .open("/dev/urandom")
        .map_err(failed("/dev/urandom cannot be opened"))?;
    let mut stream = Stream::new(seed, "kernel");
    let info = PoolInfo {
        entropy_count: 8 * size_of::<[u64; WORDS]>() as libc::c_int,
        buf_size: size_of::<[u64; WORDS]>() as libc::c_int,
        buf: std::array::from_fn(|_| stream.next()),
    };
    #[expect(
        unsafe_code,
        reason = "ioctl(2) of the random device has no safe wrapper"
    )]
    // SAFETY: the descriptor is open, and `info` is a `struct rand_pool_info` followed by
    // the `buf_size` bytes that the kernel reads from it.
    let added = unsafe { libc::ioctl(device.as_raw_fd(), RNDADDENTROPY, &raw const info) };
    refused("RNDADDENTROPY", added)?;
    #[expect(
        unsafe_code,
        reason = "ioctl(2) of the random device has no safe wrapper"
    )]
    // SAFETY: the descriptor is open, and this request takes no argument.
    let reseeded = unsafe { libc::ioctl(device.as_raw_fd(), RNDRESEEDCRNG) };
    refused("RNDRESEEDCRNG", reseeded)
}

fn refused(call: &'static str, result: libc::c_int) -> Result<(), CallError> {
    if result < 0 {
        let what = format!("the kernel refuses {call} on /dev/urandom");
        return Err(failed(what)(io::Error::last_os_error()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_splitmix64() {
        // The first numbers of state 0, as published with the algorithm.
        let mut stream = Stream { state: 0 };
        assert_eq!(stream.next(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(stream.next(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn seeds_and_purposes_have_streams_of_their_own() {
        let first = |seed, purpose| Stream::new(seed, purpose).next();
        assert_eq!(first(1, "a"), first(1, "a"));
        assert_ne!(first(1, "a"), first(2, "a"));
        assert_ne!(first(1, "a"), first(1, "b"));
    }

    #[test]
    fn a_pause_is_short_and_differs() {
        let mut stream = Stream::new(7, "steps");
        let pauses: Vec<u64> = (0..100).map(|_| stream.jitter_ns()).collect();
        assert!(pauses.iter().all(|ns| (MS / 5..16 * MS / 5).contains(ns)));
        assert_ne!(pauses[0], pauses[1]);
    }

    #[test]
    fn the_pool_info_has_the_kernels_layout() {
        assert_eq!(size_of::<PoolInfo>(), 8 + 64);
        assert_eq!(std::mem::offset_of!(PoolInfo, buf), 8);
    }
}
