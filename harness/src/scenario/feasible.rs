//! Assertions that no guest can satisfy, or every one: found before a guest runs.

use std::collections::BTreeMap;

use numalab_protocol::plan::{Actor, Command, Setting, Step, Tunable, Until};

use super::assertion::{Assertion, Bound, Observable, Unit};
use super::problems::Problems;
use super::spelling;
use super::steps::Measured;
use super::vacuity::{measured, needs_scan};
use crate::guest::topology::Machine;

/// `sysctl_numa_balancing_scan_delay` unless it is set.
const SCAN_DELAY_MS: u64 = 1000;

/// The most memory that is mapped in no time worth mentioning.
const QUICKLY_MAPPED: u64 = 64 << 20;

/// What a guest's values depend on.
#[derive(Debug)]
pub(super) struct Feasibility<'a> {
    pub(super) machine: &'a Machine,
    pub(super) settings: &'a [Setting],
    pub(super) steps: &'a [Step],
    pub(super) measures: &'a BTreeMap<String, Measured>,
}

impl Feasibility<'_> {
    /// Checks the assertions of a list.
    pub(super) fn check(&self, list: &str, assertions: &[Assertion], problems: &mut Problems) {
        for (index, assertion) in assertions.iter().enumerate() {
            let (key, _) = bound(assertion.bound);
            let path = format!("{list}[{index}].{key}");
            if let Some(message) = self.out_of_range(assertion) {
                problems.add(path, message);
            } else if let Some(message) = needs_scan(assertion)
                .then(|| self.never_scans(assertion))
                .flatten()
            {
                problems.add(path, message);
            }
        }
    }

    fn out_of_range(&self, assertion: &Assertion) -> Option<String> {
        let (least, most) = self.range(&assertion.observable)?;
        let observable = &assertion.observable;
        let (_, value) = bound(assertion.bound);
        let range = match most {
            i64::MAX => format!("is never less than {least}"),
            most => format!("is always between {least} and {most}"),
        };
        let impossible = match assertion.bound {
            Bound::Equals(_) => !(least..=most).contains(&value),
            Bound::AtLeast(_) => value > most,
            Bound::AtMost(_) => value < least,
        };
        if impossible {
            return Some(format!("no run can satisfy this: `{observable}` {range}"));
        }
        let says_nothing = matches!(assertion.bound, Bound::AtLeast(_)) && value < least;
        says_nothing.then(|| format!("every run satisfies this: `{observable}` {range}"))
    }

    /// The values that an observable can have, where that is known.
    fn range(&self, observable: &Observable) -> Option<(i64, i64)> {
        match observable {
            Observable::Sched { name, .. } if name == "numa_preferred_nid" => {
                let nodes = i64::try_from(self.machine.nodes().len()).ok()?;
                Some((-1, nodes - 1))
            }
            Observable::Sched { name, .. } | Observable::SchedChange { name, .. } => {
                (name == "numa_scan_seq").then_some((0, i64::MAX))
            }
            Observable::Counter { name, .. } | Observable::MemoryStat { name, .. } => {
                spelling::counts_events(name).then_some((0, i64::MAX))
            }
            Observable::Probe { unit, .. } | Observable::Placement { unit, .. } => {
                Some(match unit {
                    Unit::Vmas | Unit::Pages => (0, i64::MAX),
                    Unit::PercentOfVmas | Unit::PercentOfPages => (0, 100),
                })
            }
            Observable::ExitStatus { .. } => Some((0, 255)),
            Observable::Fact { .. } => Some((0, i64::MAX)),
        }
    }

    /// Why no scan can happen that the assertion needs.
    fn never_scans(&self, assertion: &Assertion) -> Option<String> {
        let modes = self.values(Tunable::NumaBalancing);
        if self.machine.nodes().len() == 1 && modes.is_empty() {
            return Some(
                "on a machine with one node the kernel does not enable NUMA balancing by itself: \
                 use more nodes, or set `balancing: { mode: 1 }`"
                    .to_owned(),
            );
        }
        if !modes.is_empty() && modes.iter().all(|mode| *mode == 0) {
            return Some("the scenario switches NUMA balancing off (mode 0)".to_owned());
        }
        let delay = match self.values(Tunable::ScanDelayMs)[..] {
            [] => SCAN_DELAY_MS,
            [delay] => u64::try_from(delay).ok()?,
            // Which one counts depends on when it is written.
            _ => return None,
        };
        let (measure, task) = measured(&assertion.observable)?;
        let alive = &self.measures.get(measure)?.alive;
        let tasks = alive
            .iter()
            .filter(|name| task.is_none_or(|task| *name == task));
        let lives: Option<Vec<u64>> = tasks.map(|task| self.life(task, measure)).collect();
        let longest = lives?.into_iter().max()?;
        (longest < delay).then(|| {
            format!(
                "a task is scanned after the scan delay of {delay} ms at the earliest, and when \
                 measurement {measure:?} ends, no task of it has run for more than {longest} ms: \
                 touch memory for longer, or set `balancing: {{ scan-delay: ... }}`"
            )
        })
    }

    /// All values that are written to a tunable.
    fn values(&self, tunable: Tunable) -> Vec<i64> {
        let lanes = self
            .steps
            .iter()
            .flat_map(|step| step.prepare.iter().chain(&step.actors));
        let later = lanes
            .flat_map(|lane| &lane.commands)
            .filter_map(|command| match command {
                Command::Set(setting) => Some(setting),
                _ => None,
            });
        let all = self.settings.iter().chain(later);
        let own = all.filter(|setting| setting.tunable == tunable);
        own.map(|setting| setting.value).collect()
    }

    /// For how many milliseconds a task has lived at the end of a measurement, if the text
    /// says so.
    fn life(&self, task: &str, measure: &str) -> Option<u64> {
        let used = |step: &Step| {
            let mut lanes = step.prepare.iter().chain(&step.actors);
            lanes.any(|lane| lane.task.as_deref() == Some(task))
        };
        let first = self.steps.iter().position(used)?;
        let is_it = |step: &Step| step.measure.as_deref() == Some(measure);
        let last = self.steps.iter().position(is_it)?;
        let lived = self.steps.get(first..=last)?.iter().map(|step| {
            let longest = |lanes: &[Actor]| -> Option<u64> {
                let times: Option<Vec<u64>> = lanes.iter().map(actor_ms).collect();
                Some(times?.into_iter().max().unwrap_or_default())
            };
            Some(longest(&step.prepare)?.saturating_add(longest(&step.actors)?))
        });
        lived.sum()
    }
}

/// How long the commands of an actor take, if the text says so.
fn actor_ms(lane: &Actor) -> Option<u64> {
    let times = lane.commands.iter().map(|command| match command {
        Command::Sleep { ms } => Some(*ms),
        Command::Touch { until, .. } => match until {
            Until::Elapsed { ms } => Some(*ms),
            Until::Passes { .. } | Until::ScanSeq { .. } => None,
        },
        Command::Map(region) => {
            let bytes = region.size.saturating_mul(u64::from(region.count));
            (bytes <= QUICKLY_MAPPED).then_some(0)
        }
        _ => Some(0),
    });
    times.sum()
}

fn bound(bound: Bound) -> (&'static str, i64) {
    match bound {
        Bound::Equals(value) => ("equals", value),
        Bound::AtLeast(value) => ("at-least", value),
        Bound::AtMost(value) => ("at-most", value),
    }
}
