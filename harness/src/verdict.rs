//! Verdicts: what one run says of one kernel.
//!
//! Only a guest that told everything, with every guard held and a clean console, can give
//! `pass`. What cannot be known is `inconclusive`, with the reason.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::observe::Observations;
use crate::scenario::{Claim, Scenario};

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
    pub unclean: Option<Unclean>,
    /// The guards.
    pub guards: Vec<Checked>,
    /// The expectations.
    pub expectations: Vec<Checked>,
}

impl Judgement {
    /// Takes the verdict back: something shows that the run cannot be relied on.
    pub(crate) fn doubt(&mut self, what: String) {
        self.verdict = Verdict::Inconclusive;
        self.reasons.insert(0, what.clone());
        self.unclean = Some(Unclean {
            certain: false,
            what,
        });
    }
}

/// What a kernel did that it must not do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unclean {
    /// Whether this is the kernel's doing beyond doubt (a panic, a warning on the console),
    /// or could be the host's or the harness' (a lost record, a deadline).
    pub certain: bool,
    /// What happened, in one sentence.
    pub what: String,
}

/// A claim with the value that was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// The claim.
    pub claim: Claim,
    /// The value, or why there is none.
    pub value: Result<i64, String>,
}

impl Checked {
    fn new(claim: &Claim, seen: &Observations) -> Checked {
        let value = seen.value(claim).map_err(|missing| missing.to_string());
        Checked {
            claim: claim.clone(),
            value,
        }
    }

    /// Whether the claim holds; `None` if that is not known.
    pub fn holds(&self) -> Option<bool> {
        self.value
            .as_ref()
            .ok()
            .map(|value| self.claim.bound.holds(*value))
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Claim { subject, bound, .. } = &self.claim;
        match &self.value {
            Ok(value) => write!(f, "{subject} is {value} (wanted {bound})"),
            Err(missing) => write!(f, "{subject} is not known: {missing} (wanted {bound})"),
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
pub fn judge(scenario: &Scenario, seen: &Observations, unclean: Option<Unclean>) -> Judgement {
    let unclean = match (unclean, tainted(seen)) {
        (Some(unclean), Some(tainted)) => Some(Unclean {
            certain: true,
            what: format!("{}; {}", unclean.what, tainted.what),
        }),
        (unclean, tainted) => unclean.or(tainted),
    };
    judge_as(scenario, seen, unclean)
}

fn judge_as(scenario: &Scenario, seen: &Observations, unclean: Option<Unclean>) -> Judgement {
    let check = |claims: &[Claim]| -> Vec<Checked> {
        claims
            .iter()
            .map(|claim| Checked::new(claim, seen))
            .collect()
    };
    let guards = check(&scenario.guards);
    let expectations = check(&scenario.expectations);
    let mut reasons = Vec::new();

    let complete = seen.end.is_some_and(|end| end.complete);
    if let Some(trouble) = &seen.trouble {
        reasons.push(format!("{GAVE_UP}: {trouble}"));
    } else if seen.end.is_none() && unclean.is_none() {
        reasons.push("the guest ended without its last record".into());
    } else if !complete && unclean.is_none() {
        reasons.push("the guest did not carry out every step".into());
    }
    // A run that broke off, whose guards fail, or whose values are missing says nothing.
    if !complete && let Some(unclean) = &unclean {
        reasons.push(unclean.what.clone());
    }
    for guard in guards.iter().filter(|guard| guard.holds() != Some(true)) {
        reasons.push(format!("guard: {guard}, {}", guard.claim.because));
    }
    let says_nothing = !reasons.is_empty();
    let failed: Vec<&Checked> = expectations
        .iter()
        .filter(|claim| claim.holds() == Some(false))
        .collect();
    let unknown: Vec<&Checked> = expectations
        .iter()
        .filter(|claim| claim.holds().is_none())
        .collect();
    let verdict = if says_nothing {
        Verdict::Inconclusive
    } else if !failed.is_empty() && unclean.as_ref().is_some_and(|unclean| !unclean.certain) {
        // A host that stalls the guest can spoil its numbers as well.
        reasons.extend(failed.iter().map(ToString::to_string));
        Verdict::Inconclusive
    } else if !failed.is_empty() {
        reasons.extend(
            failed
                .iter()
                .map(|claim| format!("{claim}: {}", claim.claim.because)),
        );
        Verdict::Fail
    } else if !unknown.is_empty() || expectations.is_empty() {
        reasons.extend(unknown.iter().map(ToString::to_string));
        Verdict::Inconclusive
    } else if unclean.is_some() {
        Verdict::Inconclusive
    } else {
        Verdict::Pass
    };
    if complete && let Some(unclean) = &unclean {
        reasons.push(unclean.what.clone());
    }
    Judgement {
        verdict,
        reasons,
        unclean,
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

fn tainted(seen: &Observations) -> Option<Unclean> {
    let tainted = seen.end?.tainted;
    let faults: Vec<&str> = taints(tainted).collect();
    if faults.is_empty() {
        return None;
    }
    let what = format!("the kernel is tainted ({tainted}) by {}", faults.join(", "));
    Some(Unclean {
        certain: true,
        what,
    })
}
