//! From the verdicts of a commit's runs to its mark.

use super::confidence::{Decision, RepetitionPlan};
use super::step::Mark;
use crate::verdict::compare::Side;
use crate::verdict::{Judgement, Verdict};

/// The mark that all seeds agree on, and why.
pub(super) fn unanimous(judgements: &[Judgement], broken_is_bad: bool) -> (Mark, String) {
    let reason = || {
        let mut all = judgements.iter().flat_map(|judgement| &judgement.reasons);
        all.next().cloned().unwrap_or_default()
    };
    match Side::of(judgements) {
        Side::Unanimous(Verdict::Pass) => (Mark::Good, "every seed passes".to_owned()),
        Side::Unanimous(Verdict::Fail) => (Mark::Bad, reason()),
        Side::Unanimous(Verdict::Measured) => {
            (Mark::Skip, "the scenario has no `expect`".to_owned())
        }
        Side::Unanimous(Verdict::Inconclusive) => (Mark::Skip, reason()),
        Side::Timing => {
            let said: Vec<String> = judgements
                .iter()
                .map(|judgement| judgement.verdict.to_string())
                .collect();
            let why = format!("the seeds disagree ({})", said.join(", "));
            (Mark::Skip, why)
        }
        Side::Faulty(what) if broken_is_bad => (Mark::Bad, what.to_owned()),
        Side::Faulty(what) => (
            Mark::Skip,
            format!("it fails in another way than the scenario expects: {what}"),
        ),
        Side::Doubtful => (
            Mark::Skip,
            format!("not every guest completed its run: {}", reason()),
        ),
    }
}

/// How many runs are clean and have a verdict, and how many of these fail.
pub(super) fn counted<'a>(judgements: impl Iterator<Item = &'a Judgement>) -> (u32, u32) {
    let clean = judgements.filter(|judgement| judgement.fault_summary.is_none());
    clean.fold((0, 0), |(clean, failures), judgement| {
        match judgement.verdict {
            Verdict::Pass => (clean + 1, failures),
            Verdict::Fail => (clean + 1, failures + 1),
            Verdict::Measured | Verdict::Inconclusive => (clean, failures),
        }
    })
}

/// The mark that repeated live runs give by a plan, and why.
pub(super) fn by_plan(
    plan: RepetitionPlan,
    judgements: &[Judgement],
    broken_is_bad: bool,
) -> (Mark, String) {
    let (clean, failures) = counted(judgements.iter());
    let mut fault_summary = judgements
        .iter()
        .filter_map(|one| one.fault_summary.as_ref());
    if broken_is_bad
        && let Some(fault_summary) = fault_summary.find(|fault_summary| fault_summary.certain)
    {
        return (Mark::Bad, fault_summary.what.clone());
    }
    let why = format!(
        "{failures} of {clean} runs fail ({} tolerated in {})",
        plan.tolerated, plan.runs
    );
    match plan.decide(clean, failures) {
        Decision::Good => (Mark::Good, why),
        Decision::Bad => (Mark::Bad, why),
        Decision::More(_) => {
            let why = format!(
                "only {clean} of {} runs have a verdict, and {} are needed",
                judgements.len(),
                plan.runs
            );
            (Mark::Skip, why)
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
    fn only_a_failed_expectation_on_every_seed_is_bad() {
        use Verdict::{Fail, Inconclusive, Pass};
        for (runs, answer, broken_is_bad) in [
            (vec![(Pass, None); 3], Mark::Good, Mark::Good),
            (vec![(Fail, None); 3], Mark::Bad, Mark::Bad),
            (vec![(Inconclusive, None); 3], Mark::Skip, Mark::Skip),
            (
                vec![(Fail, None), (Pass, None), (Fail, None)],
                Mark::Skip,
                Mark::Skip,
            ),
            // A crash, a warning beside a failed expectation, and a stalled host.
            (vec![(Inconclusive, Some(true)); 3], Mark::Skip, Mark::Bad),
            (vec![(Fail, Some(true)); 3], Mark::Skip, Mark::Bad),
            (vec![(Inconclusive, Some(false)); 3], Mark::Skip, Mark::Skip),
            (
                vec![(Fail, None), (Fail, None), (Inconclusive, Some(true))],
                Mark::Skip,
                Mark::Skip,
            ),
            (Vec::new(), Mark::Skip, Mark::Skip),
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
    fn live_runs_without_a_verdict_do_not_count() {
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
        assert_eq!(say(&[(Pass, None); 4], false).0, Mark::Good);
        assert_eq!(say(&[(Pass, None); 3], false).0, Mark::Skip);
        assert_eq!(say(&[(Pass, None), (Fail, None)], false).0, Mark::Bad);
        let stalled = [
            (Pass, None),
            (Pass, None),
            (Pass, None),
            (Inconclusive, Some(false)),
            (Fail, Some(false)),
        ];
        let (answer, why) = say(&stalled, true);
        assert_eq!(answer, Mark::Skip);
        assert_eq!(why, "only 3 of 5 runs have a verdict, and 4 are needed");
        let crashed = [(Pass, None), (Inconclusive, Some(true))];
        assert_eq!(say(&crashed, false).0, Mark::Skip);
        assert_eq!(say(&crashed, true).0, Mark::Bad);
    }
}
