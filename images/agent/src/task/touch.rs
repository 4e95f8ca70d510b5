//! Touches pages: the work of a task.
//!
//! A touch writes one byte of a page and reads it back. The write comes first, so that the
//! fault is always a write fault: a read of an untouched page would map the zero page, or the
//! huge zero page where a huge page was wanted. A single read-modify-write instruction is not
//! an option: TCG executes it as a load and a store, so it causes a read fault under TCG and
//! a write fault under KVM. In a read-only region a touch is a read.

use std::hint::black_box;
use std::ptr;

use numalab_protocol::plan::{Access, Until};

use super::TaskError;
use super::counters::{ScanSeq, minor_faults};
use super::region::Region;
use crate::clock::{self, MS};
use crate::plan_check::PAGE_SIZE;

/// Pages touched between two pauses. The clock is read after each pause.
const BATCH: usize = 64;

/// The pause, in steps of [`clock::work`]: about eighty instructions per page.
///
/// Under TCG a touch that misses QEMU's TLB costs the host a hundred times as much as an
/// instruction. Even with the pauses, pages are touched far more often than scans mark them,
/// so that there are as many hint faults, and guest time passes faster.
const PAUSE: u32 = 1024;

/// Nanoseconds of guest time between two readings of the scan sequence: during the walk
/// through `/proc` that each costs, the task is not scanned.
const READ_INTERVAL_NS: u64 = 10 * MS;

/// How touching ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touched {
    /// As asked.
    Done,
    /// The time ended before the scan sequence was reached.
    GaveUp { seen: i64, wanted: i64 },
}

#[expect(unsafe_code, reason = "touching memory that no reference points to")]
fn write(address: usize, pages: usize) {
    for page in 0..pages {
        let byte: *mut u8 = ptr::with_exposed_provenance_mut(address + page * PAGE_SIZE as usize);
        // SAFETY: the page is mapped readable and writable: it belongs to a VMA of a region
        // whose access was checked. No reference points to it, and one thread touches it.
        // Volatile, so that both accesses happen, in this order.
        black_box(unsafe {
            byte.write_volatile(1);
            byte.read_volatile()
        });
    }
}

#[expect(unsafe_code, reason = "touching memory that no reference points to")]
fn read(address: usize, pages: usize) {
    for page in 0..pages {
        let byte: *const u8 = ptr::with_exposed_provenance(address + page * PAGE_SIZE as usize);
        // SAFETY: the page is mapped readable: it belongs to a VMA of a region whose access
        // was checked. Volatile, so that the access is not optimized away.
        black_box(unsafe { byte.read_volatile() });
    }
}

/// How the pages of a region can be touched.
fn access_of(region: &Region) -> Result<fn(usize, usize), TaskError> {
    match region.access() {
        Access::ReadWrite => Ok(write),
        Access::Read => Ok(read),
        Access::None => Err(TaskError::Inaccessible),
    }
}

/// Writes once to each page of a region that is mapped readable and writable.
pub(crate) fn write_once(region: &Region) {
    for vma in 0..region.count() {
        write(region.vma(vma), region.pages());
    }
}

/// An endless walk over the pages of a region.
struct Sweep<'r> {
    region: &'r Region,
    touch: fn(usize, usize),
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
            (self.touch)(address, pages);
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

/// Touches a region repeatedly.
pub(crate) fn run(region: &Region, until: &Until) -> Result<Touched, TaskError> {
    let touch = access_of(region)?;
    let mut sweep = Sweep {
        region,
        touch,
        vma: 0,
        page: 0,
    };
    match until {
        Until::Passes { count } => {
            for _ in 0..*count {
                for vma in 0..region.count() {
                    touch(region.vma(vma), region.pages());
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
        let pause = end.min(now.saturating_add(READ_INTERVAL_NS));
        while now < pause {
            sweep.batch();
            now = clock::uptime_ns();
        }
    }
}

/// Touches each page once and counts the minor faults of each VMA.
pub(crate) fn probe(region: &Region) -> Result<Vec<u64>, TaskError> {
    let touch = access_of(region)?;
    // Written here, so that the faults of the list itself are not counted.
    let mut faults = vec![u64::MAX; region.count()];
    for (vma, counted) in faults.iter_mut().enumerate() {
        let before = minor_faults()?;
        touch(region.vma(vma), region.pages());
        *counted = minor_faults()? - before;
    }
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use numalab_protocol::plan::{self, PageKind, Populate, Sharing};

    use super::*;
    use crate::task::layout::Layout;

    #[test]
    fn a_batch_wraps_around_the_region() {
        let asked = plan::Region {
            name: "swept".into(),
            size: 4 * PAGE_SIZE,
            count: 3,
            gap: PAGE_SIZE,
            pages: PageKind::Base,
            sharing: Sharing::Private,
            access: Access::ReadWrite,
            populate: Populate::No,
        };
        let mut layout = Layout::new(1, "swept");
        let region = Region::map(&asked, &mut layout, Access::ReadWrite).unwrap();
        let mut sweep = Sweep {
            region: &region,
            touch: write,
            vma: 0,
            page: 0,
        };
        sweep.batch();
        // 64 pages are 5 rounds of 12 and 4 more: one VMA.
        assert_eq!((sweep.vma, sweep.page), (1, 0));
        assert_eq!(probe(&region).unwrap(), [0, 0, 0]);
    }
}
