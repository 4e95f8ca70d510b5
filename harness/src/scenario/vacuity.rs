//! No vacuous scenario.
//!
//! An expectation that an idle or unscanned subject would satisfy proves nothing by itself:
//! it also holds on a guest with balancing switched off. It is accepted only beside a guard
//! that demands activity of the same quantity in the same run, and only of a subject that
//! touches memory. And where anything but facts of the guest is expected, something must
//! move that only a scan moves.

use std::collections::BTreeMap;

use super::claim::{Claim, Subject};
use super::steps::Measured;

/// Counters that move when pages are scanned or migrated: a control for placement.
///
/// `pgmigrate_success` is none: moving a cpuset's pages counts there as well.
const ACTIVITY: [&str; 3] = [
    "numa_pte_updates",
    "numa_hint_faults",
    "numa_pages_migrated",
];

/// What only scans, and the faults that they cause, move: values of `/proc/vmstat` and
/// `memory.stat`, then those of `/proc/PID/sched`.
const SCAN_DRIVEN: [&str; 9] = [
    "numa_pte_updates",
    "numa_huge_pte_updates",
    "numa_hint_faults",
    "numa_hint_faults_local",
    "numa_pages_migrated",
    "pgpromote_success",
    "numa_scan_seq",
    "numa_preferred_nid",
    "total_numa_faults",
];

/// The sentence to show if nothing that is claimed needs a scan to have happened.
pub(super) fn without_scan(guards: &[Claim], expectations: &[Claim]) -> Option<String> {
    let of_behaviour = |claim: &Claim| {
        !matches!(
            claim.subject,
            Subject::Fact { .. } | Subject::ExitStatus { .. }
        )
    };
    let needs_scan = |claim: &Claim| match &claim.subject {
        Subject::Probe { .. } => !claim.holds_when_idle(),
        Subject::Counter { name, .. }
        | Subject::MemoryStat { name, .. }
        | Subject::Sched { name, .. }
        | Subject::SchedChange { name, .. } => {
            !claim.holds_when_idle() && SCAN_DRIVEN.contains(&name.as_str())
        }
        _ => false,
    };
    let lacks =
        expectations.iter().any(of_behaviour) && !guards.iter().chain(expectations).any(needs_scan);
    lacks.then(|| {
        format!(
            "all of this would hold on a kernel that never scans: a guard must demand activity \
             of one of {}",
            SCAN_DRIVEN.join(", ")
        )
    })
}

/// The indices of the expectations of a subject that touches no memory, and so is never
/// scanned, whatever the kernel does; each with the sentence to show.
pub(super) fn untouched(
    expectations: &[Claim],
    measures: &BTreeMap<String, Measured>,
) -> Vec<(usize, String)> {
    let lacking = |claim: &Claim| {
        let (measure, task) = measured(&claim.subject)?;
        let touching = &measures.get(measure)?.touching;
        let touches = task.map_or(!touching.is_empty(), |task| touching.contains_key(task));
        let who = match task {
            Some(task) => format!("task {task} does not touch"),
            None => "no task touches".to_owned(),
        };
        (claim.holds_when_idle() && !touches).then(|| {
            format!(
                "in measurement {measure:?} {who} memory: a subject that does nothing is not \
                 scanned by any kernel"
            )
        })
    };
    expectations
        .iter()
        .enumerate()
        .filter_map(|(index, claim)| Some((index, lacking(claim)?)))
        .collect()
}

/// The indices of the expectations that lack a control, each with the sentence to show.
///
/// A control that runs longer than its subject is none: a kernel scans only after a delay,
/// and what is measured for less than that is never scanned.
pub(super) fn uncontrolled(
    guards: &[Claim],
    expectations: &[Claim],
    measures: &BTreeMap<String, Measured>,
) -> Vec<(usize, String)> {
    let control = |guard: &Claim, claim: &Claim| {
        controls(guard, claim) && no_longer(&guard.subject, &claim.subject, measures)
    };
    let lacking = |claim: &Claim| {
        claim.holds_when_idle() && !guards.iter().any(|guard| control(guard, claim))
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
                 demand activity of {control} in the same run, touching `for` no longer a time",
                claim.subject, claim.bound
            );
            (index, sentence)
        })
        .collect()
}

// The measurement and the task of a subject that is measured.
fn measured(subject: &Subject) -> Option<(&String, Option<&String>)> {
    match subject {
        Subject::Counter { measure, .. } => Some((measure, None)),
        Subject::MemoryStat { measure, task, .. }
        | Subject::Sched { measure, task, .. }
        | Subject::SchedChange { measure, task, .. } => Some((measure, Some(task))),
        _ => None,
    }
}

// Whether a control touches for no longer than its subject, by the text.
fn no_longer(guard: &Subject, claim: &Subject, measures: &BTreeMap<String, Measured>) -> bool {
    let time = |subject: &Subject| -> Option<u64> {
        let (measure, task) = measured(subject)?;
        let touching = &measures.get(measure)?.touching;
        match task {
            Some(task) => *touching.get(task)?,
            None => touching.values().copied().max()?,
        }
    };
    match (measured(guard), measured(claim)) {
        (Some(_), Some(_)) => match (time(guard), time(claim)) {
            (Some(guard), Some(claim)) => guard <= claim,
            _ => false,
        },
        // Probes and placements are not of one measurement.
        _ => true,
    }
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
        // memory.stat may lag behind vmstat, so it needs a control of its own kind.
        Subject::MemoryStat { name, .. } => {
            matches!(&guard.subject, Subject::MemoryStat { name: other, .. } if other == name)
        }
        // A probe's control is another probe, in whatever unit.
        subject => guard.subject.idle().is_some() && guard.subject.quantity() == subject.quantity(),
    }
}
