//! Compares the verdicts of two kernels, scenario by scenario.
//!
//! Each side is judged over several seeds and must be unanimous. Two kernels execute different
//! instructions, so a counter that merely changed is never reported as an effect of the patch:
//! only verdicts are compared.
//!
//! A fault that only the patched kernel reports decides before any counter does. Faults that
//! both report are ignored: where they leave the counters valid, these are compared.

mod guards;

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::verdict::fault::{Fault, Sign};
use crate::verdict::{Judgement, Verdict, taints};
pub use guards::Lost;

/// What a patch does to a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// `pass`, then `fail`, or a kernel that does not build, does not boot or reports a fault.
    Broken,
    /// One side has no unanimous answer.
    Unclear,
    /// `fail` on both.
    StillFailing,
    /// `fail`, then `pass`.
    Fixed,
    /// `pass` on both.
    Holds,
    /// `pass` on both, but no line that the patch changes was executed, which proves nothing.
    NotExercised,
    /// The images are the same bytes.
    ChangesNothing,
    /// The scenario is about something that a later release introduced. It was skipped, and
    /// does not count.
    DoesNotApply,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Change::Broken => "broken",
            Change::Unclear => "unclear",
            Change::StillFailing => "still failing",
            Change::Fixed => "fixed",
            Change::Holds => "holds",
            Change::NotExercised => "not exercised",
            Change::ChangesNothing => "changes nothing",
            Change::DoesNotApply => "does not apply",
        })
    }
}

/// What a comparison needs of a run.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The judgement of the run alone.
    pub judgement: &'a Judgement,
    /// The verdict of its counters, if the guest carried out every step.
    pub counters: Option<Verdict>,
    /// The faults that its console reports.
    pub faults: &'a [Fault],
    /// The kernel's taint flags at its end.
    pub tainted: u64,
    /// Whether it ran in real time, where a busy host can cause stalls.
    pub live: bool,
}

/// How the faults of two kernels differ, over all runs of one scenario.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// What the patched kernel prints in every run and the base in none.
    pub new: Vec<Fault>,
    /// What the base prints in no run and the patched kernel in some, or what a busy host can
    /// cause in real time, or what hides other faults.
    pub sometimes: Vec<Fault>,
    /// What the patched kernel prints more often than the base in any run, or too often to
    /// compare.
    pub more: Vec<Fault>,
    /// What both print, the patched kernel no more often.
    pub both: Vec<Fault>,
    /// What only the base prints.
    pub gone: Vec<Fault>,
    /// Taint flags that the patched kernel has in every run and the base in none.
    pub tainted: u64,
}

/// `TAINT_WARN`, which every `WARN` sets.
const TAINT_WARN: u64 = 1 << 9;

impl Difference {
    /// Compares the faults of all runs of two kernels.
    pub fn of(base: &[Seen<'_>], patched: &[Seen<'_>]) -> Difference {
        let mut difference = Difference::default();
        for fault in distinct(patched) {
            let before = counts(base, &fault.sign);
            let after = counts(patched, &fault.sign);
            let most_before = before.iter().max().copied().unwrap_or_default();
            let most_after = after.iter().max().copied().unwrap_or_default();
            // A busy host may cause it, or it may hide no fault at all.
            let hosts = patched.iter().any(|run| run.live) && fault.sign.kind.may_be_the_hosts();
            let always =
                !hosts && !fault.sign.kind.is_doubtful() && after.iter().all(|count| *count > 0);
            let place = if fault.sign.is_uncounted() {
                &mut difference.more
            } else if most_before == 0 && always {
                &mut difference.new
            } else if most_before == 0 {
                &mut difference.sometimes
            } else if most_after > most_before {
                &mut difference.more
            } else {
                &mut difference.both
            };
            place.push(fault.clone());
        }
        let after: BTreeSet<&Sign> = patched.iter().flat_map(signs).collect();
        let gone = distinct(base).into_iter();
        difference.gone = gone
            .filter(|fault| !after.contains(&fault.sign))
            .cloned()
            .collect();
        let before = base.iter().fold(0, |flags, run| flags | run.tainted);
        let after = patched.iter().map(|run| run.tainted);
        difference.tainted = after.reduce(|all, flags| all & flags).unwrap_or_default() & !before;
        difference
    }

    /// Whether the patched kernel certainly has a fault that the base lacks.
    pub fn has_new(&self) -> bool {
        !self.new.is_empty() || self.tainted != 0
    }

    /// Whether the patched kernel may have a fault that the base lacks.
    pub fn has_doubtful(&self) -> bool {
        !self.sometimes.is_empty() || !self.more.is_empty()
    }
}

fn signs<'a>(run: &Seen<'a>) -> impl Iterator<Item = &'a Sign> + use<'a> {
    run.faults.iter().map(|fault| &fault.sign)
}

/// The first fault of each sign.
fn distinct<'a>(runs: &[Seen<'a>]) -> Vec<&'a Fault> {
    let mut known = BTreeSet::new();
    let faults = runs.iter().flat_map(|run| run.faults);
    faults.filter(|fault| known.insert(&fault.sign)).collect()
}

fn counts(runs: &[Seen<'_>], sign: &Sign) -> Vec<u64> {
    let count = |run: &Seen<'_>| {
        let alike = run.faults.iter().filter(|fault| fault.sign == *sign);
        alike.map(|fault| fault.count).sum()
    };
    runs.iter().map(count).collect()
}

/// Which kernel a run is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// The one without the change.
    Base,
    /// The one with it.
    Patched,
}

/// What a run shows when the faults of both kernels are ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Judged(Verdict),
    /// The kernel has a fault.
    Faulty(String),
    /// There may be a fault, or it may not be new.
    Doubtful,
}

impl Seen<'_> {
    /// The verdict to compare: that of the counters, if both kernels report the same faults and
    /// these leave the counters valid.
    pub fn verdict(&self, kernel: Kernel, difference: &Difference) -> Verdict {
        match self.state(kernel, difference) {
            State::Judged(verdict) => verdict,
            State::Faulty(_) | State::Doubtful => self.judgement.verdict,
        }
    }

    fn state(&self, kernel: Kernel, difference: &Difference) -> State {
        let fault_summary = self.judgement.fault_summary.as_ref();
        let is_new = |fault: &&Fault| difference.new.iter().any(|new| new.sign == fault.sign);
        let new_taint = match kernel {
            Kernel::Base => 0,
            Kernel::Patched => self.tainted & difference.tainted,
        };
        let Some(counters) = self.counters else {
            // That it did not carry out every step counts for more than a message.
            return match fault_summary {
                Some(fault_summary) if fault_summary.certain => {
                    State::Faulty(fault_summary.what.clone())
                }
                Some(_) => State::Doubtful,
                None => State::Judged(self.judgement.verdict),
            };
        };
        let known = |fault: &Fault| match kernel {
            Kernel::Base => true,
            Kernel::Patched => difference.both.iter().any(|both| both.sign == fault.sign),
        };
        let excused = |fault: &&Fault| fault.sign.kind.leaves_counters() && known(fault);
        let left: Vec<&Fault> = self.faults.iter().filter(|fault| !excused(fault)).collect();
        // The other flags of faults come with worse than a warning.
        let harmless = taints(self.tainted & !TAINT_WARN).count() == 0;
        let explained = !self.faults.is_empty() || self.tainted & TAINT_WARN != 0;
        match fault_summary {
            None if left.is_empty() && new_taint == 0 => {
                return State::Judged(self.judgement.verdict);
            }
            Some(_) if left.is_empty() && new_taint == 0 && harmless && explained => {
                return State::Judged(counters);
            }
            _ => {}
        }
        let new: Vec<&Fault> = left.iter().copied().filter(is_new).collect();
        let worst = new.iter().max_by_key(|fault| {
            let is_first = std::cmp::Reverse(fault.line);
            (fault.severity, is_first)
        });
        match (kernel, worst) {
            (Kernel::Base, _) => match fault_summary {
                Some(fault_summary) if fault_summary.certain => {
                    State::Faulty(fault_summary.what.clone())
                }
                _ => State::Doubtful,
            },
            (Kernel::Patched, Some(worst)) => {
                State::Faulty(format!("the kernel printed: {}", worst.said()))
            }
            (Kernel::Patched, None) if new_taint != 0 => {
                State::Faulty(format!("the kernel is tainted ({new_taint})"))
            }
            _ => State::Doubtful,
        }
    }
}

/// What one kernel did in all repetitions of one scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Side {
    /// Every repetition can be judged, with this verdict.
    Unanimous(Verdict),
    /// Every repetition can be judged, with different verdicts.
    Timing,
    /// Every repetition shows a fault of the kernel.
    Faulty(String),
    /// Some repetitions show a fault, or it is not certain that the kernel caused it.
    Doubtful,
}

impl Side {
    /// Sums up repetitions of a single kernel.
    pub fn of(judgements: &[Judgement]) -> Side {
        let states = judgements
            .iter()
            .map(|judgement| match &judgement.fault_summary {
                None => State::Judged(judgement.verdict),
                Some(fault_summary) if fault_summary.certain => {
                    State::Faulty(fault_summary.what.clone())
                }
                Some(_) => State::Doubtful,
            });
        Side::sum(&states.collect::<Vec<_>>())
    }

    /// Sums up repetitions of one of two kernels.
    pub fn among(runs: &[Seen<'_>], kernel: Kernel, difference: &Difference) -> Side {
        let states = runs.iter().map(|run| run.state(kernel, difference));
        Side::sum(&states.collect::<Vec<_>>())
    }

    fn sum(states: &[State]) -> Side {
        match states.first() {
            None => Side::Doubtful,
            Some(State::Faulty(what))
                if states.iter().all(|state| matches!(state, State::Faulty(_))) =>
            {
                Side::Faulty(what.clone())
            }
            Some(_) if !states.iter().all(|state| matches!(state, State::Judged(_))) => {
                Side::Doubtful
            }
            Some(State::Judged(verdict)) if states.iter().all(|state| *state == states[0]) => {
                Side::Unanimous(*verdict)
            }
            Some(_) => Side::Timing,
        }
    }
}

/// How a scenario changes, and how the faults differ, from all runs of both kernels.
pub fn compare(base: &[Seen<'_>], patched: &[Seen<'_>]) -> (Change, Difference) {
    let difference = Difference::of(base, patched);
    let change = change(
        &Side::among(base, Kernel::Base, &difference),
        &Side::among(patched, Kernel::Patched, &difference),
    );
    (change, difference)
}

/// How a scenario changes, from what both kernels did.
pub fn change(base: &Side, patched: &Side) -> Change {
    use Verdict::{Fail, Pass};
    match (base, patched) {
        (Side::Unanimous(Pass), Side::Unanimous(Pass)) => Change::Holds,
        (Side::Unanimous(Pass), Side::Unanimous(Fail)) => Change::Broken,
        (Side::Unanimous(Fail), Side::Unanimous(Pass)) => Change::Fixed,
        (Side::Unanimous(Fail), Side::Unanimous(Fail)) => Change::StillFailing,
        // Only the patched kernel crashes, hangs or warns: that decides before any counter.
        (Side::Unanimous(_) | Side::Timing, Side::Faulty(_)) => Change::Broken,
        _ => Change::Unclear,
    }
}

/// How a scenario changes in a pass in which only faults count: `holds` if the patched kernel
/// reports no new ones.
pub fn cleanliness(base: &[Seen<'_>], patched: &[Seen<'_>]) -> (Change, Difference) {
    let difference = Difference::of(base, patched);
    let whole =
        |runs: &[Seen<'_>]| !runs.is_empty() && runs.iter().all(|run| run.counters.is_some());
    let certain = |run: &Seen<'_>| {
        let fault_summary = run.judgement.fault_summary.as_ref();
        run.counters.is_none() && fault_summary.is_some_and(|fault_summary| fault_summary.certain)
    };
    // Faults that were lost may be new, or may not be.
    let lost = |runs: &[Seen<'_>]| {
        let mut faults = runs.iter().flat_map(|run| run.faults);
        faults.any(|fault| fault.sign.kind.is_doubtful())
    };
    let change = if !whole(base) || lost(base) {
        Change::Unclear
    } else if difference.has_new() || !patched.is_empty() && patched.iter().all(certain) {
        Change::Broken
    } else if !whole(patched) || lost(patched) || difference.has_doubtful() {
        Change::Unclear
    } else {
        Change::Holds
    };
    (change, difference)
}

/// The exit code of a comparison: 1 if something is broken, else 3 if something is unclear,
/// else 0.
pub fn exit_code(changes: impl IntoIterator<Item = Change>) -> u8 {
    let changes = changes.into_iter();
    match changes
        .filter(|change| *change != Change::DoesNotApply)
        .min()
    {
        Some(Change::Broken) => 1,
        Some(Change::Unclear) => 3,
        // Nothing was compared: nothing is known.
        None => 3,
        Some(_) => 0,
    }
}

#[cfg(test)]
mod tests;
