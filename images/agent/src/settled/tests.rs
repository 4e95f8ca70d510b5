//! Counters are believed only when the kernel has shown that it folded them.

use std::cell::Cell;

use super::*;

const COUNT: u64 = 384;

/// A kernel that holds updates back until there are more than a threshold.
#[derive(Default)]
struct Kernel {
    threshold: i64,
    pending: Cell<i64>,
    shown: Cell<i64>,
    /// Faults that each look costs by itself.
    own: i64,
    /// In which rounds the kernel folds by itself, in their middle.
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

    fn settle(&self) -> bool {
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
fn what_was_held_back_is_shown_in_the_end() {
    let kernel = Kernel {
        threshold: 256,
        own: 3,
        ..Kernel::default()
    };
    kernel.fault(200);
    assert!(kernel.settle());
    assert_eq!(kernel.pending.get(), kernel.own);
    assert_eq!(kernel.pauses.get(), 0);
}

#[test]
fn a_kernel_that_does_not_fold_is_not_believed() {
    let kernel = Kernel {
        threshold: i64::MAX,
        ..Kernel::default()
    };
    assert!(!kernel.settle());
    assert_eq!(kernel.round.get(), ROUNDS);
    assert_eq!(kernel.pauses.get(), ROUNDS);
}

#[test]
fn a_folding_in_between_is_not_taken_for_ours() {
    // The first round shows more than its faults, though the last of them are held back.
    let kernel = Kernel {
        threshold: 256,
        folds: vec![0],
        ..Kernel::default()
    };
    kernel.fault(250);
    assert!(kernel.settle());
    assert_eq!(kernel.pending.get(), 0);
    assert!(kernel.round.get() > 2, "{}", kernel.round.get());
}

#[test]
fn no_such_file_is_no_proof() {
    let absent = rounds(COUNT, || Ok(None), || Ok(()), || ());
    assert!(!absent.unwrap());
    assert!(!settle("/nonexistent/memory.stat", 4).unwrap());
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
