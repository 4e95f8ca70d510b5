//! From the judgements of one kernel's runs to good, bad, or neither.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::confidence::{Decision, RepetitionPlan};
use crate::verdict::compare::Side;
use crate::verdict::{Judgement, Verdict};

/// What a step says of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The scenario passes.
    Good,
    /// It fails.
    Bad,
    /// Neither is known.
    CannotJudge,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Answer::Good => "good",
            Answer::Bad => "bad",
            Answer::CannotJudge => "cannot judge",
        })
    }
}

/// What the seeds say, if they say the same.
pub(super) fn unanimous(judgements: &[Judgement], broken_is_bad: bool) -> (Answer, String) {
    let reason = || {
        let all = judgements.iter().flat_map(|judgement| &judgement.reasons);
        all.clone().next().cloned().unwrap_or_default()
    };
    match Side::of(judgements) {
        Side::Unanimous(Verdict::Pass) => (Answer::Good, "every seed passes".to_owned()),
        Side::Unanimous(Verdict::Fail) => (Answer::Bad, reason()),
        Side::Unanimous(Verdict::Inconclusive) => (Answer::CannotJudge, reason()),
        Side::Timing => {
            let said: Vec<String> = judgements
                .iter()
                .map(|judgement| judgement.verdict.to_string())
                .collect();
            let why = format!("the seeds disagree ({})", said.join(", "));
            (Answer::CannotJudge, why)
        }
        Side::FaultSummary(what) if broken_is_bad => (Answer::Bad, what.to_owned()),
        Side::FaultSummary(what) => (
            Answer::CannotJudge,
            format!("another failure than the scenario's: {what}"),
        ),
        Side::Doubtful => (
            Answer::CannotJudge,
            format!("not every guest ended well: {}", reason()),
        ),
    }
}

/// The clean runs that say something, and how many of them fail.
pub(super) fn counted<'a>(judgements: impl Iterator<Item = &'a Judgement>) -> (u32, u32) {
    let clean = judgements.filter(|judgement| judgement.fault_summary.is_none());
    clean.fold((0, 0), |(clean, failures), judgement| {
        match judgement.verdict {
            Verdict::Pass => (clean + 1, failures),
            Verdict::Fail => (clean + 1, failures + 1),
            Verdict::Inconclusive => (clean, failures),
        }
    })
}

/// What repeated live runs say by a plan.
pub(super) fn by_plan(
    plan: RepetitionPlan,
    judgements: &[Judgement],
    broken_is_bad: bool,
) -> (Answer, String) {
    let (clean, failures) = counted(judgements.iter());
    let mut fault_summary = judgements
        .iter()
        .filter_map(|one| one.fault_summary.as_ref());
    if broken_is_bad
        && let Some(fault_summary) = fault_summary.find(|fault_summary| fault_summary.certain)
    {
        return (Answer::Bad, fault_summary.what.clone());
    }
    let said = format!(
        "{failures} of {clean} runs fail ({} tolerated in {})",
        plan.tolerated, plan.runs
    );
    match plan.decide(clean, failures) {
        Decision::Good => (Answer::Good, said),
        Decision::Bad => (Answer::Bad, said),
        Decision::More(_) => {
            let said = format!(
                "only {clean} of {} runs say anything, and {} are needed",
                judgements.len(),
                plan.runs
            );
            (Answer::CannotJudge, said)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::bisect::confidence::ConfidenceTarget;
    use crate::verdict::FaultSummary;

    fn judged(verdict: Verdict, fault_summary: Option<bool>) -> Judgement {
        Judgement {
            verdict,
            reasons: vec!["a reason".to_owned()],
            fault_summary: fault_summary.map(|certain| FaultSummary {
                certain,
                what: "a panic".to_owned(),
            }),
            guards: Vec::new(),
            expectations: Vec::new(),
        }
    }

    #[test]
    fn only_the_scenario_s_own_failure_on_every_seed_is_bad() {
        use Verdict::{Fail, Inconclusive, Pass};
        for (runs, answer, broken_is_bad) in [
            (vec![(Pass, None); 3], Answer::Good, Answer::Good),
            (vec![(Fail, None); 3], Answer::Bad, Answer::Bad),
            (
                vec![(Inconclusive, None); 3],
                Answer::CannotJudge,
                Answer::CannotJudge,
            ),
            (
                vec![(Fail, None), (Pass, None), (Fail, None)],
                Answer::CannotJudge,
                Answer::CannotJudge,
            ),
            // A crash, a warning beside a failed expectation, and a host that stalls.
            (
                vec![(Inconclusive, Some(true)); 3],
                Answer::CannotJudge,
                Answer::Bad,
            ),
            (
                vec![(Fail, Some(true)); 3],
                Answer::CannotJudge,
                Answer::Bad,
            ),
            (
                vec![(Inconclusive, Some(false)); 3],
                Answer::CannotJudge,
                Answer::CannotJudge,
            ),
            (
                vec![(Fail, None), (Fail, None), (Inconclusive, Some(true))],
                Answer::CannotJudge,
                Answer::CannotJudge,
            ),
            (Vec::new(), Answer::CannotJudge, Answer::CannotJudge),
        ] {
            let judgements: Vec<Judgement> = runs
                .iter()
                .map(|(verdict, fault_summary)| judged(*verdict, *fault_summary))
                .collect();
            assert_eq!(unanimous(&judgements, false).0, answer, "{runs:?}");
            assert_eq!(unanimous(&judgements, true).0, broken_is_bad, "{runs:?}");
        }
    }

    #[test]
    fn live_runs_are_counted_and_what_says_nothing_does_not_count() {
        use Verdict::{Fail, Inconclusive, Pass};
        let plan = ConfidenceTarget {
            rate: 0.5,
            noise: 0.0,
            confidence: 0.9,
        }
        .plan()
        .unwrap();
        assert_eq!(plan.runs, 4);
        let say = |runs: &[(Verdict, Option<bool>)], broken_is_bad| {
            let judgements: Vec<Judgement> = runs
                .iter()
                .map(|(verdict, fault_summary)| judged(*verdict, *fault_summary))
                .collect();
            by_plan(plan, &judgements, broken_is_bad)
        };
        assert_eq!(say(&[(Pass, None); 4], false).0, Answer::Good);
        assert_eq!(say(&[(Pass, None); 3], false).0, Answer::CannotJudge);
        assert_eq!(say(&[(Pass, None), (Fail, None)], false).0, Answer::Bad);
        let stalled = [
            (Pass, None),
            (Pass, None),
            (Pass, None),
            (Inconclusive, Some(false)),
            (Fail, Some(false)),
        ];
        let (answer, why) = say(&stalled, true);
        assert_eq!(answer, Answer::CannotJudge);
        assert_eq!(why, "only 3 of 5 runs say anything, and 4 are needed");
        let crashed = [(Pass, None), (Inconclusive, Some(true))];
        assert_eq!(say(&crashed, false).0, Answer::CannotJudge);
        assert_eq!(say(&crashed, true).0, Answer::Bad);
    }
}
