//! Verdicts: what one run says of one kernel.
//!
//! Only a guest that reported everything, with every guard satisfied and a clean console, can
//! give `pass`. What cannot be known is `inconclusive`, with the reason.

pub mod compare;
pub mod fault;
pub mod observe;

pub(crate) mod fault_summary;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::scenario::{Assertion, Scenario};
use crate::verdict::observe::Observations;

/// The beginning of the reason why a guest did not carry on.
pub(crate) const GAVE_UP: &str = "the guest gave up";

/// What one run says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The kernel does what the scenario expects.
    Pass,
    /// The scenario expects nothing: the run was whole, and its values were measured.
    Measured,
    /// The run says something, and the kernel does not do what the scenario expects.
    Fail,
    /// The run says nothing.
    Inconclusive,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Pass => "pass",
            Verdict::Measured => "measured",
            Verdict::Fail => "fail",
            Verdict::Inconclusive => "inconclusive",
        })
    }
}

/// A verdict with what it rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Why, in sentences; what decided stands first. Empty for `pass`.
    pub reasons: Vec<String>,
    /// Set if the kernel did not boot, hung, crashed or reported a fault. Such a run is never
    /// `pass`.
    pub fault_summary: Option<FaultSummary>,
    /// The guards.
    pub guards: Vec<AssertionResult>,
    /// The expectations.
    pub expectations: Vec<AssertionResult>,
}

impl Judgement {
    /// Withdraws the verdict, because the run cannot be relied on.
    pub(crate) fn doubt(&mut self, what: String) {
        self.verdict = Verdict::Inconclusive;
        self.reasons.insert(0, what.clone());
        self.fault_summary = Some(FaultSummary {
            certain: false,
            what,
        });
    }
}

/// What counts against a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultSummary {
    /// Whether the kernel certainly caused it (a panic, a warning on the console), or the host
    /// or numalab may have (a lost record, a deadline).
    pub certain: bool,
    /// What happened, in one sentence.
    pub what: String,
}

/// An assertion with the value that was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssertionResult {
    /// The assertion.
    pub assertion: Assertion,
    /// The value, or why there is none.
    pub value: Result<i64, String>,
}

impl AssertionResult {
    fn new(assertion: &Assertion, seen: &Observations) -> AssertionResult {
        let value = seen.value(assertion).map_err(|missing| missing.to_string());
        AssertionResult {
            assertion: assertion.clone(),
            value,
        }
    }

    /// The assertion, its value and its reason.
    pub(crate) fn explained(&self) -> String {
        format!("{self} ({})", self.assertion.because)
    }

    /// Whether the assertion holds; `None` if that is not known.
    pub fn holds(&self) -> Option<bool> {
        self.value
            .as_ref()
            .ok()
            .map(|value| self.assertion.bound.holds(*value))
    }
}

impl fmt::Display for AssertionResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Assertion {
            observable, bound, ..
        } = &self.assertion;
        match &self.value {
            Ok(value) => write!(f, "{observable} is {value}, wanted {bound}"),
            Err(missing) => write!(f, "{observable} is not known: {missing}; wanted {bound}"),
        }
    }
}

/// The verdict of a run's counters alone, regardless of the console and the taint flags;
/// `inconclusive` unless every step was carried out. Only for comparing kernels that report the
/// same faults; [`judge`] judges a single kernel.
pub fn counters(scenario: &Scenario, seen: &Observations) -> Verdict {
    judge_as(scenario, seen, None).verdict
}

/// Judges a run by its observations and by what the guest's end and its console say.
pub fn judge(
    scenario: &Scenario,
    seen: &Observations,
    fault_summary: Option<FaultSummary>,
) -> Judgement {
    let fault_summary = match (fault_summary, tainted(seen)) {
        (Some(fault_summary), Some(tainted)) => Some(FaultSummary {
            certain: true,
            what: format!("{}; {}", fault_summary.what, tainted.what),
        }),
        (fault_summary, tainted) => fault_summary.or(tainted),
    };
    judge_as(scenario, seen, fault_summary)
}

fn judge_as(
    scenario: &Scenario,
    seen: &Observations,
    fault_summary: Option<FaultSummary>,
) -> Judgement {
    let check = |assertions: &[Assertion]| -> Vec<AssertionResult> {
        assertions
            .iter()
            .map(|assertion| AssertionResult::new(assertion, seen))
            .collect()
    };
    let guards = check(&scenario.guards);
    let expectations = check(&scenario.expectations);
    let mut reasons = Vec::new();

    let complete = seen.end.is_some_and(|end| end.complete);
    if let Some(gave_up) = &seen.gave_up {
        reasons.push(format!("{GAVE_UP}: {gave_up}"));
    } else if seen.end.is_none() && fault_summary.is_none() {
        reasons.push("the guest ended before its last record".into());
    } else if !complete && fault_summary.is_none() {
        reasons.push("the guest did not carry out every step".into());
    }
    // A run that ended early, whose guards fail, or whose values are missing says nothing.
    if !complete && let Some(fault_summary) = &fault_summary {
        reasons.push(fault_summary.what.clone());
    }
    for guard in guards.iter().filter(|guard| guard.holds() != Some(true)) {
        reasons.push(format!("guard: {}", guard.explained()));
    }
    let says_nothing = !reasons.is_empty();
    let failed: Vec<&AssertionResult> = expectations
        .iter()
        .filter(|assertion| assertion.holds() == Some(false))
        .collect();
    let unknown: Vec<&AssertionResult> = expectations
        .iter()
        .filter(|assertion| assertion.holds().is_none())
        .collect();
    let verdict = if says_nothing {
        Verdict::Inconclusive
    } else if !failed.is_empty()
        && fault_summary
            .as_ref()
            .is_some_and(|fault_summary| !fault_summary.certain)
    {
        // A host that stalls the guest can spoil its numbers, too.
        reasons.extend(failed.iter().map(ToString::to_string));
        Verdict::Inconclusive
    } else if !failed.is_empty() {
        reasons.extend(failed.iter().map(|result| result.explained()));
        Verdict::Fail
    } else if !unknown.is_empty() {
        reasons.extend(unknown.iter().map(ToString::to_string));
        Verdict::Inconclusive
    } else if fault_summary.is_some() {
        Verdict::Inconclusive
    } else if expectations.is_empty() {
        Verdict::Measured
    } else {
        Verdict::Pass
    };
    if complete && let Some(fault_summary) = &fault_summary {
        reasons.push(fault_summary.what.clone());
    }
    Judgement {
        verdict,
        reasons,
        fault_summary,
        guards,
        expectations,
    }
}

/// The taint flags that a kernel sets when it detects a fault
/// (`Documentation/admin-guide/tainted-kernels.rst`): MCE, bad page, died, warned, lockup.
const FAULTS: [(u32, &str); 5] = [
    (4, "a machine check"),
    (5, "a bad page"),
    (7, "an oops"),
    (9, "a warning"),
    (14, "a soft lockup"),
];

/// The faults that taint flags stand for.
pub fn taints(flags: u64) -> impl Iterator<Item = &'static str> {
    let set = move |bit: &u32| flags >> bit & 1 == 1;
    FAULTS
        .iter()
        .filter(move |(bit, _)| set(bit))
        .map(|(_, name)| *name)
}

fn tainted(seen: &Observations) -> Option<FaultSummary> {
    let tainted = seen.end?.tainted;
    let faults: Vec<&str> = taints(tainted).collect();
    if faults.is_empty() {
        return None;
    }
    let what = format!("the kernel is tainted ({tainted}) by {}", faults.join(", "));
    Some(FaultSummary {
        certain: true,
        what,
    })
}
