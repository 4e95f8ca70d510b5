//! No vacuous scenario.
//!
//! An expectation that an idle or unscanned task would satisfy proves nothing by itself: it
//! also holds in a guest with balancing switched off. It is accepted only beside a guard that
//! requires activity of the same quantity in the same run, and only of a task that touches
//! memory. And where anything but facts of the guest is expected, something must have a value
//! that it has in no guest in which nothing happens.

use std::collections::BTreeMap;

use super::assertion::{Assertion, Observable};
use super::home::Homes;
use super::problems::Problems;
use super::steps::Measured;

/// Counters that change when pages are scanned or migrated: a control for placement.
///
/// `pgmigrate_success` is not one of them: moving a cpuset's pages counts there, too.
const ACTIVITY: [&str; 3] = [
    "numa_pte_updates",
    "numa_hint_faults",
    "numa_pages_migrated",
];

/// What only scans, and the faults that they cause, change: values of `/proc/vmstat` and
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

/// The assertions of a scenario, and what their values are in a guest in which nothing happens.
#[derive(Debug)]
pub(super) struct Vacuity<'a> {
    pub(super) guards: &'a [Assertion],
    pub(super) expectations: &'a [Assertion],
    pub(super) measures: &'a BTreeMap<String, Measured>,
    pub(super) homes: &'a Homes,
}

/// Whether an assertion holds only if a scan has happened.
pub(super) fn needs_scan(assertion: &Assertion) -> bool {
    let scan_driven = match &assertion.observable {
        Observable::Probe { .. } => true,
        Observable::Counter { name, .. }
        | Observable::MemoryStat { name, .. }
        | Observable::Sched { name, .. }
        | Observable::SchedChange { name, .. } => SCAN_DRIVEN.contains(&name.as_str()),
        _ => false,
    };
    scan_driven && !assertion.holds_when_idle()
}

impl Vacuity<'_> {
    /// Refuses what a guest in which nothing happens would satisfy.
    pub(super) fn check(&self, problems: &mut Problems) {
        let mut vacuous = false;
        for (index, expectation) in self.expectations.iter().enumerate() {
            let path = format!("expect[{index}]");
            if let Some(message) = self.untouched(expectation) {
                problems.add(&path, message);
                vacuous = true;
            }
            if !self.is_controlled(expectation) {
                let message = format!(
                    "a task that is idle or never scanned would also satisfy `{} {}`: a guard \
                     must require activity of {} in the same run",
                    expectation.observable,
                    expectation.bound,
                    control_of(&expectation.observable)
                );
                problems.add_with_help(path, message, self.advice(expectation));
                vacuous = true;
            }
        }
        let is_behavior = |assertion: &Assertion| {
            !matches!(
                assertion.observable,
                Observable::Fact { .. } | Observable::ExitStatus { .. }
            )
        };
        let all = || self.guards.iter().chain(self.expectations);
        let moved = |assertion: &Assertion| {
            let placed = matches!(assertion.observable, Observable::Placement { .. });
            needs_scan(assertion) || placed && !self.holds_when_idle(assertion)
        };
        if !vacuous && self.expectations.iter().any(is_behavior) && !all().any(moved) {
            let message = "all of this would also hold on a kernel that never scans: a guard must \
                           require activity of something that only scans change";
            let names = SCAN_DRIVEN.join(", ");
            problems.add_with_help("expect", message, format!("one of: {names}"));
        }
    }

    /// Pages that nobody moves stay where they are.
    fn holds_when_idle(&self, assertion: &Assertion) -> bool {
        match self.homes.idle(&assertion.observable) {
            Some(idle) => assertion.bound.holds(idle),
            None => assertion.holds_when_idle(),
        }
    }

    fn is_controlled(&self, expectation: &Assertion) -> bool {
        !self.holds_when_idle(expectation)
            || self
                .guards
                .iter()
                .any(|guard| self.rejection(guard, expectation).is_none())
            || self
                .expectations
                .iter()
                .any(|other| self.places(other, expectation))
    }

    /// Whether an assertion shows that the pages of the expectation's region are where they
    /// would not be if nothing had happened.
    fn places(&self, other: &Assertion, expectation: &Assertion) -> bool {
        let region = |observable: &Observable| match observable {
            Observable::Placement { task, region, .. } => Some((task.clone(), region.clone())),
            _ => None,
        };
        let own = region(&expectation.observable);
        own.is_some() && own == region(&other.observable) && !self.holds_when_idle(other)
    }

    /// Why a guard is no control of an expectation; `None` if it is one.
    ///
    /// A control that runs longer than its expectation is none: a kernel scans only after a
    /// delay, and what is measured for less than that is never scanned.
    fn rejection(&self, guard: &Assertion, expectation: &Assertion) -> Option<String> {
        if self.places(guard, expectation) {
            return None;
        }
        if self.holds_when_idle(guard) {
            return Some("an idle task satisfies it, too".to_owned());
        }
        let (own, other) = (&expectation.observable, &guard.observable);
        let fits = match own {
            Observable::Placement { .. } => {
                matches!(other, Observable::Counter { name, .. } | Observable::MemoryStat { name, .. }
                    if ACTIVITY.contains(&name.as_str()))
            }
            // memory.stat may lag behind vmstat, so it needs a control of its own kind.
            Observable::MemoryStat { name, .. } => {
                matches!(other, Observable::MemoryStat { name: other, .. } if other == name)
            }
            // A probe's control is another probe, in whatever unit.
            _ => other.idle().is_some() && other.quantity() == own.quantity(),
        };
        if !fits {
            return Some(format!("it is not about {}", control_of(own)));
        }
        // Probes and placements are not of one measurement.
        measured(own).and(measured(other))?;
        match (self.time(other), self.time(own)) {
            (Some(guard), Some(expectation)) if guard <= expectation => None,
            (Some(guard), Some(expectation)) => Some(format!(
                "its task touches memory for {guard} ms, longer than the {expectation} ms of the \
                 expectation"
            )),
            _ => Some(
                "how long both tasks touch memory must be known, so both need `touch` with `for`"
                    .to_owned(),
            ),
        }
    }

    /// For how many milliseconds the task of an observable touches memory, by the text.
    fn time(&self, observable: &Observable) -> Option<u64> {
        let (measure, task) = measured(observable)?;
        let touching = &self.measures.get(measure)?.touching;
        match task {
            Some(task) => *touching.get(task)?,
            None => touching.values().copied().max()?,
        }
    }

    /// A guard to add, and why those that are there do not count.
    fn advice(&self, expectation: &Assertion) -> String {
        let mut help = match self.example(expectation) {
            Some(line) => format!("add to `guards`, for example:\n{line}"),
            None => format!(
                "add a measurement in which another task touches memory for no longer than the \
                 expectation's, and a guard that requires activity of {} in it",
                control_of(&expectation.observable)
            ),
        };
        for (index, guard) in self.guards.iter().enumerate() {
            if let Some(reason) = self.rejection(guard, expectation) {
                let Assertion {
                    observable, bound, ..
                } = guard;
                help +=
                    &format!("\nguards[{index}] (`{observable} {bound}`) does not count: {reason}");
            }
        }
        help
    }

    /// The line of a guard that would be a control.
    fn example(&self, expectation: &Assertion) -> Option<String> {
        let own = &expectation.observable;
        let own_measure = measured(own).map(|(measure, _)| measure);
        let limit = self.time(own);
        let fits = |time: &Option<u64>| {
            own_measure.is_none() || time.zip(limit).is_some_and(|(time, limit)| time <= limit)
        };
        let candidates = self.measures.iter().flat_map(|(measure, measured)| {
            let touching = measured.touching.iter().filter(|(_, time)| fits(time));
            touching.map(move |(task, _)| (measure, task))
        });
        let mut candidates = candidates.filter(|(measure, _)| own_measure != Some(measure));
        let (measure, task) = candidates.next()?;
        let what = match own {
            Observable::Counter { name, .. } => format!("counter: {name}"),
            Observable::MemoryStat { name, .. } => format!("task: {task}, memory-stat: {name}"),
            Observable::Sched { name, .. } => format!("task: {task}, sched: {name}"),
            Observable::SchedChange { name, .. } => format!("task: {task}, sched-change: {name}"),
            Observable::Placement { .. } => "counter: numa_pages_migrated".to_owned(),
            _ => return None,
        };
        let least = own.idle().unwrap_or_default() + 1;
        Some(format!(
            "  - {{ measure: {measure}, {what}, at-least: {least}, because: balancing is on }}"
        ))
    }

    /// Why a task that touches no memory is never scanned, whatever the kernel does.
    fn untouched(&self, expectation: &Assertion) -> Option<String> {
        let (measure, task) = measured(&expectation.observable)?;
        let touching = &self.measures.get(measure)?.touching;
        let touches = task.map_or(!touching.is_empty(), |task| touching.contains_key(task));
        let who = match task {
            Some(task) => format!("task {task} does not touch"),
            None => "no task touches".to_owned(),
        };
        (expectation.holds_when_idle() && !touches).then(|| {
            format!(
                "in measurement {measure:?} {who} memory: no kernel scans a task that does \
                 nothing"
            )
        })
    }
}

/// What a control of an observable must be about.
fn control_of(observable: &Observable) -> String {
    match observable {
        Observable::Placement { .. } => ACTIVITY.join(" or "),
        Observable::MemoryStat { name, .. } => format!("{name} of a memory.stat"),
        Observable::Probe { .. } => "another probe".to_owned(),
        other => other.quantity(),
    }
}

/// The measurement and the task of an observable that is measured.
pub(super) fn measured(observable: &Observable) -> Option<(&String, Option<&String>)> {
    match observable {
        Observable::Counter { measure, .. } => Some((measure, None)),
        Observable::MemoryStat { measure, task, .. }
        | Observable::Sched { measure, task, .. }
        | Observable::SchedChange { measure, task, .. } => Some((measure, Some(task))),
        _ => None,
    }
}
