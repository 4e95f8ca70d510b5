//! Verdicts: what one run says of one kernel.
//!
//! Only a guest that told everything, with every guard held and a clean console, can give
//! `pass`. What cannot be known is `inconclusive`, with the reason.

pub mod compare;
pub mod fault;
pub mod observe;

pub(crate) mod fault_summary;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::scenario::{Assertion, Scenario};
use crate::verdict::observe::Observations;

/// How a reason begins that the guest gives for not going on.
pub(crate) const GAVE_UP: &str = "the guest gave up";

/// What one run says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The kernel does what the scenario expects.
    Pass,
    /// The run says something, and the kernel does not do what the scenario expects.
    Fail,
    /// The run says nothing.
    Inconclusive,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Pass => "pass",
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
    /// Whether the kernel did not boot, hung, crashed or printed a warning. Whatever else
    /// holds, such a run is never `pass`.
    pub fault_summary: Option<FaultSummary>,
    /// The guards.
    pub guards: Vec<AssertionResult>,
    /// The expectations.
    pub expectations: Vec<AssertionResult>,
}

impl Judgement {
    /// Takes the verdict back: something shows that the run cannot be relied on.
    pub(crate) fn doubt(&mut self, what: String) {
        self.verdict = Verdict::Inconclusive;
        self.reasons.insert(0, what.clone());
        self.fault_summary = Some(FaultSummary {
            certain: false,
            what,
        });
    }
}

/// What a kernel did that it must not do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultSummary {
    /// Whether this is the kernel's doing beyond doubt (a panic, a warning on the console),
    /// or could be the host's or the harness' (a lost record, a deadline).
    pub certain: bool,
    /// What happened, in one sentence.
    pub what: String,
}

/// A assertion with the value that was seen.
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
            Ok(value) => write!(f, "{observable} is {value} (wanted {bound})"),
            Err(missing) => write!(f, "{observable} is not known: {missing} (wanted {bound})"),
        }
    }
}

/// What the counters of a whole run say by themselves, whatever the console and the taint
/// flags say: `inconclusive` unless every step was carried out. Only for comparing kernels
/// that are at fault in the same way; a kernel alone is judged by [`judge`].
pub fn counters(scenario: &Scenario, seen: &Observations) -> Verdict {
    judge_as(scenario, seen, None).verdict
}

/// Judges a run by what was seen of it. `unclean` is what the machine and the console say.
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
    if let Some(console_fault) = &seen.console_fault {
        reasons.push(format!("{GAVE_UP}: {console_fault}"));
    } else if seen.end.is_none() && fault_summary.is_none() {
        reasons.push("the guest ended without its last record".into());
    } else if !complete && fault_summary.is_none() {
        reasons.push("the guest did not carry out every step".into());
    }
    // A run that broke off, whose guards fail, or whose values are missing says nothing.
    if !complete && let Some(fault_summary) = &fault_summary {
        reasons.push(fault_summary.what.clone());
    }
    for guard in guards.iter().filter(|guard| guard.holds() != Some(true)) {
        reasons.push(format!("guard: {guard}, {}", guard.assertion.because));
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
        // A host that stalls the guest can spoil its numbers as well.
        reasons.extend(failed.iter().map(ToString::to_string));
        Verdict::Inconclusive
    } else if !failed.is_empty() {
        reasons.extend(
            failed
                .iter()
                .map(|assertion| format!("{assertion}: {}", assertion.assertion.because)),
        );
        Verdict::Fail
    } else if !unknown.is_empty() || expectations.is_empty() {
        reasons.extend(unknown.iter().map(ToString::to_string));
        Verdict::Inconclusive
    } else if fault_summary.is_some() {
        Verdict::Inconclusive
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

/// The taint flags that a kernel sets when it finds fault with itself
/// (`Documentation/admin-guide/tainted-kernels.rst`): MCE, bad page, died, warned, lockup.
const FAULTS: [(u32, &str); 5] = [
    (4, "a machine check"),
    (5, "a bad page"),
    (7, "an oops"),
    (9, "a warning"),
    (14, "a soft lockup"),
];

/// What taint flags say, as far as a kernel sets them because it finds fault with itself.
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
