//! Comparisons: the verdicts of two kernels, scenario by scenario.
//!
//! Each side is judged over several seeds and must be unanimous. Kernels of different code
//! run different instruction streams, so a counter that merely moved is never shown as the
//! patch's effect: only verdicts are compared.
//!
//! What a console says against the kernel decides before any counter is looked at, as far as
//! only the patched kernel prints it. What both print is neither's fault: where such a
//! message leaves the counters as they are, they are compared.

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
    /// `pass` before, and not so after: `fail`, or it does not build, boot or stay clean.
    Broken,
    /// No unanimous answer on one side.
    Unclear,
    /// `fail` on both.
    StillFailing,
    /// `fail`, then `pass`.
    Fixed,
    /// `pass` on both.
    Holds,
    /// `pass` on both, and no line that the patch changes ran: no proof of anything.
    NotExercised,
    /// The images are the same bytes.
    ChangesNothing,
    /// The scenario is about something that came later than one of the kernels. It was not
    /// run, and counts for nothing.
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

/// What one run says, as far as it is compared.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// What it says by itself.
    pub judgement: &'a Judgement,
    /// What its counters say, if the guest went its whole course.
    pub counters: Option<Verdict>,
    /// What its console says against the kernel.
    pub faults: &'a [Fault],
    /// The kernel's taint flags at its end.
    pub tainted: u64,
    /// Whether it ran in real time, in which a busy host can bring stalls about.
    pub live: bool,
}

/// In what the faults of two kernels differ, over all runs of one scenario.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// What the patched kernel prints in every run and the base in none.
    pub new: Vec<Fault>,
    /// What the base prints in no run, and the patched kernel in some; or which in real time
    /// a busy host can bring about.
    pub sometimes: Vec<Fault>,
    /// What the patched kernel prints more often than the base in any run, or too often to
    /// be told apart.
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

    /// Whether the patched kernel is at fault where the base is not, for certain.
    pub fn has_new(&self) -> bool {
        !self.new.is_empty() || self.tainted != 0
    }

    /// Whether the patched kernel may be at fault where the base is not.
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

/// What one run says once the faults that both kernels have are left out of account.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Judged(Verdict),
    /// The kernel's doing, and it must not be; what.
    FaultSummary(String),
    /// It is not certain whose doing it is, or that it is new.
    Doubtful,
}

impl Seen<'_> {
    /// The verdict to be compared: that of the counters, if all that is held against the
    /// kernel is on both sides and leaves them as they are.
    pub fn verdict(&self, kernel: Kernel, difference: &Difference) -> Verdict {
        match self.state(kernel, difference) {
            State::Judged(verdict) => verdict,
            State::FaultSummary(_) | State::Doubtful => self.judgement.verdict,
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
            // It did not go its whole course, which is more than a message.
            return match fault_summary {
                Some(fault_summary) if fault_summary.certain => {
                    State::FaultSummary(fault_summary.what.clone())
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
        // Other flags that say something against the kernel come with worse than a warning.
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
                    State::FaultSummary(fault_summary.what.clone())
                }
                _ => State::Doubtful,
            },
            (Kernel::Patched, Some(worst)) => {
                State::FaultSummary(format!("the kernel printed: {}", worst.said()))
            }
            (Kernel::Patched, None) if new_taint != 0 => {
                State::FaultSummary(format!("the kernel is tainted ({new_taint})"))
            }
            _ => State::Doubtful,
        }
    }
}

/// What one kernel did in all repetitions of one scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Side {
    /// Every repetition can be judged, and was judged so.
    Unanimous(Verdict),
    /// Every repetition can be judged, and they were judged differently.
    Timing,
    /// Every repetition shows something that is the kernel's doing and must not be.
    FaultSummary(String),
    /// Some repetitions were not clean, or it is not certain that it is the kernel's doing.
    Doubtful,
}

impl Side {
    /// Sums up repetitions of a kernel that is compared with no other one.
    pub fn of(judgements: &[Judgement]) -> Side {
        let states = judgements
            .iter()
            .map(|judgement| match &judgement.fault_summary {
                None => State::Judged(judgement.verdict),
                Some(fault_summary) if fault_summary.certain => {
                    State::FaultSummary(fault_summary.what.clone())
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
            Some(State::FaultSummary(what))
                if states
                    .iter()
                    .all(|state| matches!(state, State::FaultSummary(_))) =>
            {
                Side::FaultSummary(what.clone())
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

/// The word for a scenario and what differs on the consoles, from all runs of both kernels.
pub fn compare(base: &[Seen<'_>], patched: &[Seen<'_>]) -> (Change, Difference) {
    let difference = Difference::of(base, patched);
    let word = word(
        &Side::among(base, Kernel::Base, &difference),
        &Side::among(patched, Kernel::Patched, &difference),
    );
    (word, difference)
}

/// The word for a scenario, from what both kernels did.
pub fn word(base: &Side, patched: &Side) -> Change {
    use Verdict::{Fail, Pass};
    match (base, patched) {
        (Side::Unanimous(Pass), Side::Unanimous(Pass)) => Change::Holds,
        (Side::Unanimous(Pass), Side::Unanimous(Fail)) => Change::Broken,
        (Side::Unanimous(Fail), Side::Unanimous(Pass)) => Change::Fixed,
        (Side::Unanimous(Fail), Side::Unanimous(Fail)) => Change::StillFailing,
        // The base boots and stays clean, and only the patched kernel crashes, hangs or
        // warns: that decides before any counter is looked at.
        (Side::Unanimous(_) | Side::Timing, Side::FaultSummary(_)) => Change::Broken,
        _ => Change::Unclear,
    }
}

/// The word for a second pass, in which only what kernels print against themselves counts:
/// `holds` if the patched kernel prints nothing new.
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
    let word = if !whole(base) || lost(base) {
        Change::Unclear
    } else if difference.has_new() || !patched.is_empty() && patched.iter().all(certain) {
        Change::Broken
    } else if !whole(patched) || lost(patched) || difference.has_doubtful() {
        Change::Unclear
    } else {
        Change::Holds
    };
    (word, difference)
}

/// The exit code of a comparison: 1 if something is broken, else 3 if something is unclear,
/// else 0.
pub fn exit_code(words: impl IntoIterator<Item = Change>) -> u8 {
    match words
        .into_iter()
        .filter(|word| *word != Change::DoesNotApply)
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
