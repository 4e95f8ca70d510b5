//! Touching pages: the work of a task.
//!
//! A touch writes one byte of a page and reads it back. It writes first, so that it faults as
//! a write everywhere: reading first would map the zero page into an untouched page, and the
//! huge zero page where a huge page was wanted. One instruction that does both would not
//! do: QEMU carries it out as a load and a store, so it faults as a read under TCG and as a
//! write under KVM. In a region that is only readable a touch is a read.

use std::hint::black_box;
use std::ptr;

use numalab_protocol::plan::{Access, Until};

use super::TaskError;
use super::counters::{ScanSeq, minor_faults};
use super::region::Region;
use crate::clock::{self, MS};
use crate::coherence::PAGE_SIZE;

/// Pages touched between two pauses, after each of which the clock is looked at.
const BATCH: usize = 64;

/// The pause, in steps of [`clock::work`]: about eighty instructions for each page.
///
/// Under TCG a touch of a page that QEMU's TLB does not know costs the host a hundred times
/// what an instruction does. A scan marks pages far more seldom than the pauses make them
/// be touched, so that hint faults come as before, and the guest's seconds pass sooner.
const PAUSE: u32 = 1024;

/// How often the scan sequence is looked at, in nanoseconds of guest time: reading it costs
/// a walk through `/proc`, in which the task is not scanned.
const LOOK_NS: u64 = 10 * MS;

/// How touching has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touched {
    /// As asked.
    Done,
    /// The time was over before the scan sequence was reached.
    GaveUp { seen: i64, wanted: i64 },
}

#[expect(unsafe_code, reason = "touching memory that no reference points to")]
fn change(address: usize, pages: usize) {
    for page in 0..pages {
        let byte: *mut u8 = ptr::with_exposed_provenance_mut(address + page * PAGE_SIZE as usize);
        // SAFETY: the page is mapped readable and writable: `pages` of a VMA of a region
        // whose access was checked. No reference points to it, and one thread touches it.
        // Volatile, so that both accesses happen, in this order.
        black_box(unsafe {
            byte.write_volatile(1);
            byte.read_volatile()
        });
    }
}

#[expect(unsafe_code, reason = "touching memory that no reference points to")]
fn look(address: usize, pages: usize) {
    for page in 0..pages {
        let byte: *const u8 = ptr::with_exposed_provenance(address + page * PAGE_SIZE as usize);
        // SAFETY: the page is mapped readable: `pages` of a VMA of a region whose access was
        // checked. Volatile, so that it is not left out.
        black_box(unsafe { byte.read_volatile() });
    }
}

/// How a region's pages can be touched.
fn way(region: &Region) -> Result<fn(usize, usize), TaskError> {
    match region.access() {
        Access::ReadWrite => Ok(change),
        Access::Read => Ok(look),
        Access::None => Err(TaskError::Inaccessible),
    }
}

/// Writes once to each page of a region that is mapped readable and writable.
pub(crate) fn write_once(region: &Region) {
    for vma in 0..region.count() {
        change(region.vma(vma), region.pages());
    }
}

/// A place in a region, which moves on for ever.
struct Sweep<'r> {
    region: &'r Region,
    way: fn(usize, usize),
    vma: usize,
    page: usize,
}

impl Sweep<'_> {
    /// Touches the next pages.
    fn batch(&mut self) {
        let mut left = BATCH;
        while left > 0 {
            let pages = left.min(self.region.pages() - self.page);
            let address = self.region.vma(self.vma) + self.page * PAGE_SIZE as usize;
            (self.way)(address, pages);
            left -= pages;
            self.page += pages;
            if self.page == self.region.pages() {
                self.page = 0;
                self.vma = (self.vma + 1) % self.region.count();
            }
        }
        clock::work(0, PAUSE);
    }
}

/// Touches a region over and over.
pub(crate) fn run(region: &Region, until: &Until) -> Result<Touched, TaskError> {
    let way = way(region)?;
    let mut sweep = Sweep {
        region,
        way,
        vma: 0,
        page: 0,
    };
    match until {
        Until::Passes { count } => {
            for _ in 0..*count {
                for vma in 0..region.count() {
                    way(region.vma(vma), region.pages());
                }
            }
            Ok(Touched::Done)
        }
        Until::Elapsed { ms } => {
            let end = clock::uptime_ns().saturating_add(ms.saturating_mul(MS));
            while clock::uptime_ns() < end {
                sweep.batch();
            }
            Ok(Touched::Done)
        }
        Until::ScanSeq {
            at_least,
            within_ms,
        } => until_scanned(&mut sweep, *at_least, *within_ms),
    }
}

fn until_scanned(sweep: &mut Sweep<'_>, wanted: i64, ms: u64) -> Result<Touched, TaskError> {
    let mut counter = ScanSeq::open()?;
    let mut now = clock::uptime_ns();
    let end = now.saturating_add(ms.saturating_mul(MS));
    loop {
        let seen = counter.read()?;
        if seen >= wanted {
            return Ok(Touched::Done);
        }
        if now >= end {
            return Ok(Touched::GaveUp { seen, wanted });
        }
        let pause = end.min(now.saturating_add(LOOK_NS));
        while now < pause {
            sweep.batch();
            now = clock::uptime_ns();
        }
    }
}

/// Touches each page once and counts the minor faults of each VMA.
pub(crate) fn probe(region: &Region) -> Result<Vec<u64>, TaskError> {
    let way = way(region)?;
    // Written here, so that the list's own first faults are not among those counted.
    let mut faults = vec![u64::MAX; region.count()];
    for (vma, counted) in faults.iter_mut().enumerate() {
        let before = minor_faults()?;
        way(region.vma(vma), region.pages());
        *counted = minor_faults()? - before;
    }
    Ok(faults)
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
