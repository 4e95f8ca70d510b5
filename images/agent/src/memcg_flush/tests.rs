//! The counters count as flushed only when the kernel confirms it.

use std::cell::Cell;

use super::*;

const COUNT: u64 = 384;

/// A kernel that keeps updates pending up to a threshold.
#[derive(Default)]
struct Kernel {
    threshold: i64,
    pending: Cell<i64>,
    shown: Cell<i64>,
    /// Faults that each reading causes itself.
    own: i64,
    /// The rounds in the middle of which the kernel flushes by itself.
    folds: Vec<u32>,
    round: Cell<u32>,
    pauses: Cell<u32>,
}

impl Kernel {
    fn fold(&self) {
        self.shown.set(self.shown.get() + self.pending.take());
    }

    fn fault(&self, count: i64) {
        self.pending.set(self.pending.get() + count);
    }

    fn flush(&self) -> bool {
        let shown = || {
            if self.pending.get() > self.threshold {
                self.fold();
            }
            self.fault(self.own);
            Ok(Some(self.shown.get()))
        };
        let fault = || {
            let half = COUNT as i64 / 2;
            self.fault(half);
            if self.folds.contains(&self.round.get()) {
                self.fold();
            }
            self.fault(half);
            self.round.set(self.round.get() + 1);
            Ok(())
        };
        let pause = || self.pauses.set(self.pauses.get() + 1);
        rounds(COUNT, shown, fault, pause).unwrap()
    }
}

#[test]
fn pending_updates_are_flushed() {
    let kernel = Kernel {
        threshold: 256,
        own: 3,
        ..Kernel::default()
    };
    kernel.fault(200);
    assert!(kernel.flush());
    assert_eq!(kernel.pending.get(), kernel.own);
    assert_eq!(kernel.pauses.get(), 0);
}

#[test]
fn a_kernel_that_does_not_flush_is_detected() {
    let kernel = Kernel {
        threshold: i64::MAX,
        ..Kernel::default()
    };
    assert!(!kernel.flush());
    assert_eq!(kernel.round.get(), ROUNDS);
    assert_eq!(kernel.pauses.get(), ROUNDS);
}

#[test]
fn a_flush_of_the_kernels_own_does_not_count() {
    // The first round shows more than its faults, though the last of them are pending.
    let kernel = Kernel {
        threshold: 256,
        folds: vec![0],
        ..Kernel::default()
    };
    kernel.fault(250);
    assert!(kernel.flush());
    assert_eq!(kernel.pending.get(), 0);
    assert!(kernel.round.get() > 2, "{}", kernel.round.get());
}

#[test]
fn a_missing_file_confirms_nothing() {
    let absent = rounds(COUNT, || Ok(None), || Ok(()), || ());
    assert!(!absent.unwrap());
    assert!(!flush("/nonexistent/memory.stat", 4).unwrap());
}

#[test]
fn each_page_is_a_fault() {
    let faults = || {
        let text = file::read("/proc/thread-self/stat").unwrap();
        let mut fields = text.rsplit_once(')').unwrap().1.split_ascii_whitespace();
        fields.nth(7).unwrap().parse::<u64>().unwrap()
    };
    let scratch = Scratch::map().unwrap();
    let before = faults();
    scratch.fault(COUNT).unwrap();
    assert!(faults() - before >= COUNT);
}
