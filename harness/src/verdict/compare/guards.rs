//! What a scenario loses by a patch: why the runs of the patched kernel are inconclusive where
//! those of the base are not.

use super::Seen;
use crate::verdict::{AssertionResult, GAVE_UP};

/// What happens in every run of the patched kernel and in none of the base.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lost {
    /// The guards that fail, and why the guest gave up, from the first of these runs.
    pub reasons: Vec<String>,
    /// Whether a guard that fails saw no activity at all.
    pub idle: bool,
}

impl Lost {
    /// Compares the runs of two kernels.
    ///
    /// This is no verdict: a patch that disables scanning, and one that merely changes the
    /// workload so that the scenario no longer measures it, look the same.
    pub fn of(base: &[Seen<'_>], patched: &[Seen<'_>]) -> Lost {
        let mut lost = Lost::default();
        let Some(first) = patched.first().filter(|_| !base.is_empty()) else {
            return lost;
        };
        for (index, guard) in first.judgement.guards.iter().enumerate() {
            let holds = |run: &Seen<'_>| {
                run.judgement
                    .guards
                    .get(index)
                    .and_then(AssertionResult::holds)
            };
            let kept = base.iter().all(|run| holds(run) == Some(true));
            if kept && patched.iter().all(|run| holds(run) == Some(false)) {
                lost.reasons.push(format!("guard: {}", guard.explained()));
                lost.idle |= guard.value == Ok(0);
            }
        }
        let gave_up = |run: &Seen<'_>| {
            let mut reasons = run.judgement.reasons.iter();
            reasons.find(|reason| reason.starts_with(GAVE_UP)).cloned()
        };
        if patched.iter().all(|run| gave_up(run).is_some())
            && base.iter().all(|run| gave_up(run).is_none())
        {
            lost.reasons.extend(gave_up(first));
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Assertion;
    use crate::scenario::{Bound, Observable};
    use crate::verdict::{AssertionResult, Judgement, Verdict};

    /// A run whose only guard, "at least 1", sees this value.
    fn judgement(value: Result<i64, String>) -> Judgement {
        let assertion = Assertion {
            observable: Observable::Counter {
                measure: "work".into(),
                name: "numa_pte_updates".into(),
            },
            bound: Bound::AtLeast(1),
            because: "the task is scanned".into(),
        };
        Judgement {
            verdict: Verdict::Inconclusive,
            reasons: vec![],
            fault_summary: None,
            guards: vec![AssertionResult { assertion, value }],
            expectations: vec![],
        }
    }

    fn lost_of(base: &[Judgement], patched: &[Judgement]) -> Lost {
        let [base, patched] = [base, patched].map(|judgements| {
            let seen = judgements.iter().map(|judgement| Seen {
                judgement,
                counters: None,
                faults: &[],
                tainted: 0,
                live: false,
            });
            seen.collect::<Vec<_>>()
        });
        Lost::of(&base, &patched)
    }

    #[test]
    fn a_guard_is_lost_if_all_runs_say_so() {
        let (held, broken) = (judgement(Ok(5)), judgement(Ok(0)));
        let unknown = judgement(Err("no such counter".into()));
        let two = |one: &Judgement, other: &Judgement| [one.clone(), other.clone()];
        let lost = lost_of(&two(&held, &held), &two(&broken, &broken));
        let said = "guard: work: numa_pte_updates is 0, wanted >= 1 (the task is scanned)";
        assert_eq!(
            (&lost.reasons[..], lost.idle),
            (&[said.to_owned()][..], true)
        );
        let none = Lost::default();
        assert_eq!(lost_of(&two(&held, &held), &two(&broken, &held)), none);
        assert_eq!(lost_of(&two(&held, &broken), &two(&broken, &broken)), none);
        assert_eq!(lost_of(&two(&held, &held), &two(&broken, &unknown)), none);
        assert_eq!(lost_of(&[], &two(&broken, &broken)), none);
        assert_eq!(lost_of(&two(&held, &held), &[]), none);
    }

    #[test]
    fn a_guest_that_always_gives_up_is_reported() {
        let held = judgement(Ok(5));
        let mut stuck = judgement(Err("not recorded".into()));
        stuck.reasons = vec![format!("{GAVE_UP}: step 0: the sequence stayed at 0")];
        let lost = lost_of(
            &[held.clone(), held.clone()],
            &[stuck.clone(), stuck.clone()],
        );
        assert_eq!((lost.reasons, lost.idle), (stuck.reasons.clone(), false));
        let one = lost_of(
            &[held.clone(), stuck.clone()],
            &[stuck.clone(), stuck.clone()],
        );
        assert_eq!(one, Lost::default());
        assert_eq!(
            lost_of(&[held.clone(), held.clone()], &[stuck, held]),
            Lost::default()
        );
    }
}
