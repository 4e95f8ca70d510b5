//! The addresses of regions.
//!
//! They are fixed, and far from everything that the kernel places itself, so that no region
//! merges with a neighbour and inherits its scan state. The seed shifts each region by a
//! multiple of 2 MiB, which changes page tables and walks, but not the alignment.

use super::TaskError;
use crate::plan_check::HUGE_PAGE_SIZE;
use crate::seed::Stream;

/// The first address.
const START: u64 = 0x1000_0000_0000;

/// Below the stack and the kernel's own mappings in an address space of 47 bits.
const END: u64 = 0x7000_0000_0000;

/// A region is shifted by less than this many huge pages.
const SHIFTS: u64 = 64;

/// Hands out addresses.
#[derive(Debug)]
pub(crate) struct Layout {
    next: u64,
    stream: Stream,
}

impl Layout {
    /// The layout of one task.
    pub(crate) fn new(seed: u64, task: &str) -> Self {
        Layout {
            next: START,
            stream: Stream::new(seed, &format!("layout of {task}")),
        }
    }

    /// An address for this many bytes. No address is used twice, and at least 2 MiB between
    /// two regions stay free.
    pub(crate) fn place(&mut self, bytes: u64) -> Result<u64, TaskError> {
        let shift = self.stream.below(SHIFTS) * HUGE_PAGE_SIZE;
        let start = self.next + shift;
        let end = start
            .checked_add(bytes)
            .and_then(|end| end.checked_next_multiple_of(HUGE_PAGE_SIZE))
            .filter(|end| *end <= END)
            .ok_or(TaskError::NoAddress(bytes))?;
        self.next = end + HUGE_PAGE_SIZE;
        Ok(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_aligned_and_apart() {
        let mut layout = Layout::new(1, "a");
        let mut end = 0;
        for bytes in [4096, 3 << 20, 1 << 30, 4096] {
            let start = layout.place(bytes).unwrap();
            assert_eq!(start % HUGE_PAGE_SIZE, 0);
            assert!(start >= end + HUGE_PAGE_SIZE);
            end = start + bytes;
        }
    }

    #[test]
    fn the_layout_depends_on_seed_and_task_only() {
        let places = |seed, task| {
            let mut layout = Layout::new(seed, task);
            [0; 4].map(|_: i32| layout.place(4096).unwrap())
        };
        assert_eq!(places(1, "a"), places(1, "a"));
        assert_ne!(places(1, "a"), places(2, "a"));
        assert_ne!(places(1, "a"), places(1, "b"));
    }

    #[test]
    fn a_region_that_does_not_fit_is_refused() {
        let mut layout = Layout::new(1, "a");
        for bytes in [u64::MAX, END] {
            assert!(matches!(layout.place(bytes), Err(TaskError::NoAddress(_))));
        }
        layout.place(4096).unwrap();
    }
}
