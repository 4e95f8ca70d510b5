//! Makes the kernel flush the per-CPU counters of control groups into `memory.stat`.
//!
//! Reading `memory.stat` flushes only if the group has seen more than 64 updates per CPU
//! since the last flush (`memcg_vmstats_needs_flush` of `mm/memcontrol.c`; older kernels
//! count them for all groups together). No file flushes unconditionally: `cpu.stat` did
//! before Linux 6.16, which flushes each controller by itself. But the agent can meet the
//! condition: it is in the root group, its own page faults are updates of that group, and
//! reading the root's `memory.stat` then flushes the whole tree.
//!
//! The root's `pgfault` shows whether the flush happened. Where it does not, `memory.stat`
//! is not read at all.

use std::ffi::c_void;
use std::ptr;
use std::time::Duration;

use numalab_protocol::procfs;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::errno::{CallError, failed};
use crate::file::{self, FileError};
use crate::plan_check::PAGE_SIZE;

/// `MEMCG_CHARGE_BATCH` of `include/linux/memcontrol.h`.
const BATCH: u64 = 64;

/// Rounds before giving up.
const ROUNDS: u32 = 20;

/// In some versions the kernel's own flush, every two seconds, prevents ours while it runs,
/// and needs the CPU to finish.
const PAUSE: Duration = Duration::from_millis(10);

/// Pages of the scratch memory.
const PAGES: usize = 64;

/// Flushes the counters of all control groups; no task may run meanwhile. Returns whether
/// the kernel confirms the flush. `root_stat` is the root's `memory.stat`.
pub(crate) fn flush(root_stat: &str, cpus: usize) -> Result<bool, FlushError> {
    let scratch = Scratch::map()?;
    let shown = || {
        let text = file::read_optional(root_stat)?;
        let stat = text.map(|text| procfs::name_value_lines(&text));
        Ok(stat.and_then(|stat| stat.get("pgfault").copied()))
    };
    // Each fault is at least one update, and a CPU keeps less than a batch pending.
    let cpus = u64::try_from(cpus).unwrap_or(u64::MAX);
    let count = BATCH.saturating_mul(cpus.saturating_add(2));
    let fault = || scratch.fault(count);
    rounds(count, shown, fault, || std::thread::sleep(PAUSE))
}

/// Faults `count` pages and reads the counter, until two rounds in a row show the same
/// number of faults, at least `count`. The first reading may lag behind, and a flush of the
/// kernel's own can account for a part of one round, but not for two rounds in a row.
fn rounds(
    count: u64,
    mut shown: impl FnMut() -> Result<Option<i64>, FlushError>,
    mut fault: impl FnMut() -> Result<(), FlushError>,
    mut pause: impl FnMut(),
) -> Result<bool, FlushError> {
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

/// Why the counters cannot be flushed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FlushError {
    #[error(transparent)]
    Memory(#[from] CallError),
    #[error(transparent)]
    File(#[from] FileError),
}

/// Memory that is faulted in and given back, over and over.
struct Scratch(*mut c_void);

impl Scratch {
    const SIZE: usize = PAGES * PAGE_SIZE as usize;

    fn map() -> Result<Self, CallError> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        #[expect(unsafe_code, reason = "mapping memory")]
        // SAFETY: a new private mapping at an address that the kernel chooses.
        let mapped =
            unsafe { mmap_anonymous(ptr::null_mut(), Self::SIZE, protection, MapFlags::PRIVATE) };
        mapped
            .map(Scratch)
            .map_err(failed("the agent cannot map scratch memory"))
    }

    /// Faults `count` pages, rounded up to whole rounds of [`PAGES`].
    fn fault(&self, count: u64) -> Result<(), FlushError> {
        for _ in 0..count.div_ceil(PAGES as u64) {
            for page in 0..PAGES {
                #[expect(unsafe_code, reason = "writing mapped memory")]
                // SAFETY: within the mapping, which is writable and not shared.
                unsafe {
                    self.0
                        .cast::<u8>()
                        .add(page * PAGE_SIZE as usize)
                        .write_volatile(1);
                }
            }
            #[expect(unsafe_code, reason = "advice on mapped memory")]
            // SAFETY: the whole mapping, whose contents are not needed.
            unsafe { madvise(self.0, Self::SIZE, Advice::LinuxDontNeed) }
                .map_err(failed("the agent cannot give back its scratch memory"))?;
        }
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "unmapping mapped memory")]
        // SAFETY: the whole mapping, which is not used any more.
        let unmapped = unsafe { munmap(self.0, Self::SIZE) };
        // A failure would merely leak 256 KiB.
        let _ = unmapped;
    }
}

#[cfg(test)]
#[path = "memcg_flush/tests.rs"]
mod tests;
