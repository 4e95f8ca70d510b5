//! Making the kernel fold what its CPUs have counted for control groups into `memory.stat`.
//!
//! Reading `memory.stat` does so only if the group has seen more than 64 updates a CPU since
//! the last time (`memcg_vmstats_needs_flush` of `mm/memcontrol.c`; older kernels have one
//! such number for all groups), and no file asks for it without that condition: `cpu.stat`
//! did before Linux 6.16, since when each controller is folded by itself. But the condition
//! can be met: the agent sits in the root group, its own page faults are updates of that
//! group, and reading the root's `memory.stat` then folds the counters of the whole tree.
//!
//! Whether it did is seen in the root's `pgfault`, and is not taken for granted: where it
//! does not show, `memory.stat` is not read at all.

use std::ffi::c_void;
use std::io;
use std::ptr;
use std::time::Duration;

use numalab_protocol::procfs;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::coherence::PAGE_SIZE;
use crate::errno;
use crate::file::{self, FileError};

/// `MEMCG_CHARGE_BATCH` of `include/linux/memcontrol.h`.
const BATCH: u64 = 64;

/// Rounds before it is given up.
const ROUNDS: u32 = 20;

/// The kernel's own folding, every two seconds, keeps ours off in some versions, and needs
/// the CPU to come to its end.
const PAUSE: Duration = Duration::from_millis(10);

/// Pages that are faulted in at once.
const PAGES: usize = 64;

/// Folds the counters of all control groups; no task may run meanwhile. Returns whether the
/// kernel has shown that it did. `root_stat` is the root's `memory.stat`.
pub(crate) fn settle(root_stat: &str, cpus: usize) -> Result<bool, SettleError> {
    let scratch = Scratch::map()?;
    let shown = || {
        let text = file::read_optional(root_stat)?;
        let stat = text.map(|text| procfs::name_value_lines(&text));
        Ok(stat.and_then(|stat| stat.get("pgfault").copied()))
    };
    // Each fault is at least one update, and the agent's CPU holds back less than a batch.
    let cpus = u64::try_from(cpus).unwrap_or(u64::MAX);
    let count = BATCH.saturating_mul(cpus.saturating_add(2));
    let fault = || scratch.fault(count);
    rounds(count, shown, fault, || std::thread::sleep(PAUSE))
}

/// Faults `count` pages and looks, until two rounds in a row have shown the same number of
/// faults, and no less. What was shown first may lag behind; a folding of the kernel's own
/// can end within a round and account for a part of it; but none comes twice so soon.
fn rounds(
    count: u64,
    mut shown: impl FnMut() -> Result<Option<i64>, SettleError>,
    mut fault: impl FnMut() -> Result<(), SettleError>,
    mut pause: impl FnMut(),
) -> Result<bool, SettleError> {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let Some(mut before) = shown()? else {
        return Ok(false);
    };
    let mut last = None;
    for _ in 0..ROUNDS {
        fault()?;
        let Some(after) = shown()? else {
            return Ok(false);
        };
        let more = after.saturating_sub(before);
        before = after;
        if more < count {
            pause();
        } else if last == Some(more) {
            return Ok(true);
        }
        last = Some(more);
    }
    Ok(false)
}

/// Why there can be no faults.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettleError {
    #[error("the agent cannot {call} its scratch memory: {}", errno::text(.cause))]
    Memory {
        call: &'static str,
        cause: io::Error,
    },
    #[error(transparent)]
    File(#[from] FileError),
}

impl SettleError {
    fn call(call: &'static str) -> impl Fn(rustix::io::Errno) -> SettleError {
        move |errno| SettleError::Memory {
            call,
            cause: errno.into(),
        }
    }
}

/// Memory that is faulted in and given back, over and over.
struct Scratch(*mut c_void);

impl Scratch {
    const SIZE: usize = PAGES * PAGE_SIZE as usize;

    fn map() -> Result<Self, SettleError> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        #[expect(unsafe_code, reason = "mapping memory")]
        // SAFETY: a mapping of its own, at an address of the kernel's choice.
        let mapped =
            unsafe { mmap_anonymous(ptr::null_mut(), Self::SIZE, protection, MapFlags::PRIVATE) };
        mapped.map(Scratch).map_err(SettleError::call("map"))
    }

    /// Faults `count` pages, or somewhat more.
    fn fault(&self, count: u64) -> Result<(), SettleError> {
        for _ in 0..count.div_ceil(PAGES as u64) {
            for page in 0..PAGES {
                #[expect(unsafe_code, reason = "writing mapped memory")]
                // SAFETY: within the mapping, which is writable and nobody else's.
                unsafe {
                    self.0
                        .cast::<u8>()
                        .add(page * PAGE_SIZE as usize)
                        .write_volatile(1);
                }
            }
            #[expect(unsafe_code, reason = "advice on mapped memory")]
            // SAFETY: the whole mapping, whose contents nobody needs.
            unsafe { madvise(self.0, Self::SIZE, Advice::LinuxDontNeed) }
                .map_err(SettleError::call("give back"))?;
        }
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "unmapping mapped memory")]
        // SAFETY: the whole mapping, which nobody uses any more.
        let unmapped = unsafe { munmap(self.0, Self::SIZE) };
        // It was mapped so; and 256 KiB less would harm nobody.
        let _ = unmapped;
    }
}

#[cfg(test)]
#[path = "settled/tests.rs"]
mod tests;
