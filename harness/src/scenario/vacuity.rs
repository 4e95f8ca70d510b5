//! No vacuous scenario.
//!
//! An expectation that an idle or unscanned subject would satisfy proves nothing by itself:
//! it also holds on a guest with balancing switched off. It is accepted only beside a guard
//! that demands activity of the same quantity in the same run, and only of a subject that
//! touches memory. And where anything but facts of the guest is expected, something must
//! move that only a scan moves.

use std::collections::BTreeMap;

use super::assertion::{Assertion, Observable};
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
pub(super) fn without_scan(guards: &[Assertion], expectations: &[Assertion]) -> Option<String> {
    let of_behaviour = |assertion: &Assertion| {
        !matches!(
            assertion.subject,
            Observable::Fact { .. } | Observable::ExitStatus { .. }
        )
    };
    let needs_scan = |assertion: &Assertion| match &assertion.subject {
        Observable::Probe { .. } => !assertion.holds_when_idle(),
        Observable::Counter { name, .. }
        | Observable::MemoryStat { name, .. }
        | Observable::Sched { name, .. }
        | Observable::SchedChange { name, .. } => {
            !assertion.holds_when_idle() && SCAN_DRIVEN.contains(&name.as_str())
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
    expectations: &[Assertion],
    measures: &BTreeMap<String, Measured>,
) -> Vec<(usize, String)> {
    let lacking = |assertion: &Assertion| {
        let (measure, task) = measured(&assertion.subject)?;
        let touching = &measures.get(measure)?.touching;
        let touches = task.map_or(!touching.is_empty(), |task| touching.contains_key(task));
        let who = match task {
            Some(task) => format!("task {task} does not touch"),
            None => "no task touches".to_owned(),
        };
        (assertion.holds_when_idle() && !touches).then(|| {
            format!(
                "in measurement {measure:?} {who} memory: a subject that does nothing is not \
                 scanned by any kernel"
            )
        })
    };
    expectations
        .iter()
        .enumerate()
        .filter_map(|(index, assertion)| Some((index, lacking(assertion)?)))
        .collect()
}

/// The indices of the expectations that lack a control, each with the sentence to show.
///
/// A control that runs longer than its subject is none: a kernel scans only after a delay,
/// and what is measured for less than that is never scanned.
pub(super) fn uncontrolled(
    guards: &[Assertion],
    expectations: &[Assertion],
    measures: &BTreeMap<String, Measured>,
) -> Vec<(usize, String)> {
    let control = |guard: &Assertion, assertion: &Assertion| {
        controls(guard, assertion) && no_longer(&guard.subject, &assertion.subject, measures)
    };
    let lacking = |assertion: &Assertion| {
        assertion.holds_when_idle() && !guards.iter().any(|guard| control(guard, assertion))
    };
    let lacking = expectations
        .iter()
        .enumerate()
        .filter(|(_, assertion)| lacking(assertion));
    lacking
        .map(|(index, assertion)| {
            let control = match &assertion.subject {
                Observable::Placement { .. } => {
                    "numa_pages_migrated or numa_hint_faults".to_owned()
                }
                subject => subject.quantity(),
            };
            let sentence = format!(
                "a subject that is idle or never scanned would satisfy `{} {}`: a guard must \
                 demand activity of {control} in the same run, touching `for` no longer a time",
                assertion.subject, assertion.bound
            );
            (index, sentence)
        })
        .collect()
}

// The measurement and the task of a subject that is measured.
fn measured(subject: &Observable) -> Option<(&String, Option<&String>)> {
    match subject {
        Observable::Counter { measure, .. } => Some((measure, None)),
        Observable::MemoryStat { measure, task, .. }
        | Observable::Sched { measure, task, .. }
        | Observable::SchedChange { measure, task, .. } => Some((measure, Some(task))),
        _ => None,
    }
}

// Whether a control touches for no longer than its subject, by the text.
fn no_longer(
    guard: &Observable,
    assertion: &Observable,
    measures: &BTreeMap<String, Measured>,
) -> bool {
    let time = |subject: &Observable| -> Option<u64> {
        let (measure, task) = measured(subject)?;
        let touching = &measures.get(measure)?.touching;
        match task {
            Some(task) => *touching.get(task)?,
            None => touching.values().copied().max()?,
        }
    };
    match (measured(guard), measured(assertion)) {
        (Some(_), Some(_)) => match (time(guard), time(assertion)) {
            (Some(guard), Some(assertion)) => guard <= assertion,
            _ => false,
        },
        // Probes and placements are not of one measurement.
        _ => true,
    }
}

fn controls(guard: &Assertion, assertion: &Assertion) -> bool {
    if guard.holds_when_idle() {
        return false;
    }
    match &assertion.subject {
        Observable::Placement { .. } => {
            matches!(&guard.subject, Observable::Counter { name, .. } | Observable::MemoryStat { name, .. }
                if ACTIVITY.contains(&name.as_str()))
        }
        // memory.stat may lag behind vmstat, so it needs a control of its own kind.
        Observable::MemoryStat { name, .. } => {
            matches!(&guard.subject, Observable::MemoryStat { name: other, .. } if other == name)
        }
        // A probe's control is another probe, in whatever unit.
        subject => guard.subject.idle().is_some() && guard.subject.quantity() == subject.quantity(),
    }
}
