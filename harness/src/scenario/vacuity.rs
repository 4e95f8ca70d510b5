//! No vacuous scenario.
//!
//! An expectation that an idle or unscanned subject would satisfy proves nothing by itself:
//! it also holds on a guest with balancing switched off. It is accepted only beside a guard
//! that demands activity of the same quantity in the same run.

use super::claim::{Claim, Subject};

/// Counters that move when pages are scanned or migrated: a control for placement.
const ACTIVITY: [&str; 4] = [
    "numa_pte_updates",
    "numa_hint_faults",
    "numa_pages_migrated",
    "pgmigrate_success",
];

/// The indices of the expectations that lack a control, each with the sentence to show.
pub(super) fn uncontrolled(guards: &[Claim], expectations: &[Claim]) -> Vec<(usize, String)> {
    let lacking = |claim: &Claim| {
        claim.holds_when_idle() && !guards.iter().any(|guard| controls(guard, claim))
    };
    let lacking = expectations
        .iter()
        .enumerate()
        .filter(|(_, claim)| lacking(claim));
    lacking
        .map(|(index, claim)| {
            let control = match &claim.subject {
                Subject::Placement { .. } => "numa_pages_migrated or numa_hint_faults".to_owned(),
                subject => subject.quantity(),
            };
            let sentence = format!(
                "a subject that is idle or never scanned would satisfy `{} {}`: a guard must \
                 demand activity of {control} in the same run",
                claim.subject, claim.bound
            );
            (index, sentence)
        })
        .collect()
}

fn controls(guard: &Claim, claim: &Claim) -> bool {
    if guard.holds_when_idle() {
        return false;
    }
    match &claim.subject {
        Subject::Placement { .. } => {
            matches!(&guard.subject, Subject::Counter { name, .. } | Subject::MemoryStat { name, .. }
                if ACTIVITY.contains(&name.as_str()))
        }
        // A probe's control is another probe, in whatever unit.
        subject => guard.subject.idle().is_some() && guard.subject.quantity() == subject.quantity(),
    }
}
