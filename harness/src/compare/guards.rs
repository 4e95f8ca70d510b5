//! Guards that a patch loses: why the counters of a patched kernel say nothing, where those
//! of the base do.

use super::Seen;

/// The guards that hold in every run of the base and are broken in every run of the patched
/// kernel, with what was seen of them in its first run.
///
/// That is no verdict: a patch that switches scanning off, and one that merely moves the
/// workload out of the scenario's reach, look the same.
pub fn lost(base: &[Seen<'_>], patched: &[Seen<'_>]) -> Vec<String> {
    let Some(first) = patched.first() else {
        return Vec::new();
    };
    let always = |runs: &[Seen<'_>], index: usize, wanted: bool| {
        let holds = |run: &Seen<'_>| run.judgement.guards.get(index)?.holds();
        !runs.is_empty() && runs.iter().all(|run| holds(run) == Some(wanted))
    };
    let guards = first.judgement.guards.iter().enumerate();
    guards
        .filter(|(index, _)| always(base, *index, true) && always(patched, *index, false))
        .map(|(_, guard)| format!("{guard}, {}", guard.claim.because))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Claim;
    use crate::scenario::{Bound, Subject};
    use crate::verdict::{Checked, Judgement, Verdict};

    /// A run whose only guard, "at least 1", sees this value.
    fn judgement(value: Result<i64, String>) -> Judgement {
        let claim = Claim {
            subject: Subject::Counter {
                measure: "work".into(),
                name: "numa_pte_updates".into(),
            },
            bound: Bound::AtLeast(1),
            because: "the task is scanned".into(),
        };
        Judgement {
            verdict: Verdict::Inconclusive,
            reasons: vec![],
            unclean: None,
            guards: vec![Checked { claim, value }],
            expectations: vec![],
        }
    }

    fn lost_of(base: &[Judgement], patched: &[Judgement]) -> Vec<String> {
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
        lost(&base, &patched)
    }

    #[test]
    fn a_guard_is_lost_if_all_runs_say_so() {
        let (held, broken) = (judgement(Ok(5)), judgement(Ok(0)));
        let unknown = judgement(Err("no such counter".into()));
        let two = |one: &Judgement, other: &Judgement| [one.clone(), other.clone()];
        let lost = lost_of(&two(&held, &held), &two(&broken, &broken));
        assert_eq!(
            lost,
            ["work: numa_pte_updates is 0 (wanted >= 1), the task is scanned"]
        );
        let none: [String; 0] = [];
        assert_eq!(lost_of(&two(&held, &held), &two(&broken, &held)), none);
        assert_eq!(lost_of(&two(&held, &broken), &two(&broken, &broken)), none);
        assert_eq!(lost_of(&two(&held, &held), &two(&broken, &unknown)), none);
        assert_eq!(lost_of(&[], &two(&broken, &broken)), none);
        assert_eq!(lost_of(&two(&held, &held), &[]), none);
    }
}
