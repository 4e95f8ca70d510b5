//! Observations: what the records of one run say.
//!
//! A value that was not recorded is missing, with the reason, and never zero.

mod course;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use numalab_protocol::plan::Plan;
use numalab_protocol::record::{Edge, ExitStatus, Record, TaskState, Values};

use crate::scenario::{Assertion, Bound, Observable, Unit};

/// What the records of one run say.
#[derive(Debug, Clone, Default)]
pub struct Observations {
    /// `uname -r` of the guest.
    pub release: Option<String>,
    /// What the guest found at its start.
    pub facts: Values,
    /// The measurements by name.
    pub measures: BTreeMap<String, Measurement>,
    /// Faults of each VMA, and pages of one, by task and region.
    pub probes: BTreeMap<(String, String), (Vec<u64>, u64)>,
    /// Pages on each node, and pages nowhere, by task and region.
    pub placements: BTreeMap<(String, String), (Vec<u64>, u64)>,
    /// How tasks ended.
    pub exits: BTreeMap<String, ExitStatus>,
    /// Why the guest gave up, in words; the first reason.
    pub console_fault: Option<String>,
    /// The end record.
    pub end: Option<End>,
    /// Guest time from the first step to the end of the last one, in nanoseconds.
    pub work_ns: u64,
}

/// What the end record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Whether every step was carried out.
    pub complete: bool,
    /// The kernel's taint flags.
    pub tainted: u64,
    /// Guest time since boot, in nanoseconds.
    pub uptime_ns: u64,
}

/// Counters before and after.
#[derive(Debug, Clone, Default)]
pub struct Measurement {
    begin: Option<Reading>,
    end: Option<Reading>,
}

#[derive(Debug, Clone)]
struct Reading {
    vmstat: Values,
    tasks: BTreeMap<String, TaskState>,
}

/// Why a value is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Missing(pub String);

impl Measurement {
    /// The differences of all counters of `/proc/vmstat` that were read at both edges.
    pub fn vmstat(&self) -> Values {
        match (&self.begin, &self.end) {
            (Some(begin), Some(end)) => difference(&begin.vmstat, &end.vmstat),
            _ => Values::new(),
        }
    }

    fn edges(&self, measure: &str) -> Result<(&Reading, &Reading), Missing> {
        match (&self.begin, &self.end) {
            (Some(begin), Some(end)) => Ok((begin, end)),
            _ => Err(Missing(format!("measurement {measure} was not finished"))),
        }
    }
}

fn difference(begin: &Values, end: &Values) -> Values {
    let pairs = end
        .iter()
        .filter_map(|(name, end)| Some((name.clone(), end.checked_sub(*begin.get(name)?)?)));
    pairs.collect()
}

impl Observations {
    /// Gathers what the records of a run of `plan` say. Records that are not of such a run
    /// are trouble.
    pub fn new(plan: &Plan, records: &[Record]) -> Observations {
        let mut seen = Observations::gather(records);
        if let Some(strange) = course::strange(plan, records) {
            seen.console_fault.get_or_insert(strange);
        }
        seen
    }

    fn gather(records: &[Record]) -> Observations {
        let mut seen = Observations::default();
        let mut began = None;
        for record in records {
            match record {
                Record::Ready { release, .. } => seen.release = Some(release.clone()),
                Record::Start { facts, .. } => seen.facts = facts.clone(),
                Record::Step { uptime_ns, .. } => {
                    began.get_or_insert(*uptime_ns);
                }
                Record::StepEnd { uptime_ns, .. } => {
                    seen.work_ns = uptime_ns.saturating_sub(began.unwrap_or(*uptime_ns));
                }
                Record::Snapshot {
                    measure,
                    edge,
                    vmstat,
                    tasks,
                    ..
                } => {
                    let reading = Reading {
                        vmstat: vmstat.clone(),
                        tasks: tasks.clone(),
                    };
                    let measurement = seen.measures.entry(measure.clone()).or_default();
                    match edge {
                        Edge::Begin => measurement.begin = Some(reading),
                        Edge::End => measurement.end = Some(reading),
                    }
                }
                Record::Probe {
                    task,
                    region,
                    faults,
                    pages_per_vma,
                    ..
                } => {
                    let key = (task.clone(), region.clone());
                    seen.probes.insert(key, (faults.clone(), *pages_per_vma));
                }
                Record::Placement {
                    task,
                    region,
                    nodes,
                    absent,
                    ..
                } => {
                    let key = (task.clone(), region.clone());
                    seen.placements.insert(key, (nodes.clone(), *absent));
                }
                Record::GaveUp {
                    step,
                    task,
                    what,
                    seen: last,
                    wanted,
                } => {
                    seen.console_fault.get_or_insert(format!(
                        "step {step}: {what} of task {task} stayed at {last}, and {wanted} was \
                         waited for"
                    ));
                }
                Record::Exited { task, status } => {
                    seen.exits.insert(task.clone(), *status);
                }
                Record::Error { stage, message } => {
                    seen.console_fault
                        .get_or_insert(format!("{stage}: {message}"));
                }
                Record::End {
                    complete,
                    tainted,
                    uptime_ns,
                } => {
                    seen.end = Some(End {
                        complete: *complete,
                        tainted: *tainted,
                        uptime_ns: *uptime_ns,
                    });
                }
                // What was watched besides is read elsewhere.
                Record::Window { .. }
                | Record::Started { .. }
                | Record::Trace { .. }
                | Record::TraceEvents { .. }
                | Record::Coverage { .. }
                | Record::CoverageEnd { .. } => {}
            }
        }
        seen
    }

    /// The value of a assertion's subject. A share is rounded away from what its bound demands:
    /// 94.9 % are not 95, and 0.1 % is not 0.
    ///
    /// # Errors
    /// It was not recorded, or this kernel has no such counter.
    pub fn value(&self, assertion: &Assertion) -> Result<i64, Missing> {
        match &assertion.observable {
            Observable::Counter { measure, name } => {
                let (begin, end) = self.measure(measure)?.edges(measure)?;
                change(&begin.vmstat, &end.vmstat, name, "/proc/vmstat")
            }
            Observable::MemoryStat {
                measure,
                task,
                name,
            } => {
                let (begin, end) = self.task(measure, task)?;
                change(&begin.memory_stat, &end.memory_stat, name, "memory.stat")
            }
            Observable::SchedChange {
                measure,
                task,
                name,
            } => {
                let (begin, end) = self.task(measure, task)?;
                change(&begin.sched, &end.sched, name, "/proc/PID/sched")
            }
            Observable::Sched {
                measure,
                task,
                name,
            } => {
                let (_, end) = self.task(measure, task)?;
                end.sched
                    .get(name)
                    .copied()
                    .ok_or_else(|| absent(name, "/proc/PID/sched"))
            }
            Observable::Probe { task, region, unit } => {
                let (faults, pages_per_vma) = find(&self.probes, task, region, "probed")?;
                let vmas = faults.len() as u64;
                let faulted = faults.iter().filter(|faults| **faults > 0).count() as u64;
                let pages = sum(faults.iter().copied())?;
                let all = vmas.checked_mul(*pages_per_vma).ok_or_else(out_of_range)?;
                let (part, all) = match unit {
                    Unit::Vmas | Unit::PercentOfVmas => (faulted, vmas),
                    Unit::Pages | Unit::PercentOfPages => (pages, all),
                };
                share(*unit, part, all, assertion.bound)
            }
            Observable::Placement {
                task,
                region,
                node,
                unit,
            } => {
                let (nodes, absent) = find(&self.placements, task, region, "asked for")?;
                let on_node = nodes.get(*node as usize).copied();
                let on_node =
                    on_node.ok_or_else(|| Missing(format!("the guest has no node {node}")))?;
                let all = sum(nodes.iter().copied().chain([*absent]))?;
                share(*unit, on_node, all, assertion.bound)
            }
            Observable::ExitStatus { task } => match self.exits.get(task) {
                Some(ExitStatus::Code(code)) => Ok(i64::from(*code)),
                Some(ExitStatus::Signal(signal)) => {
                    Err(Missing(format!("task {task} was ended by signal {signal}")))
                }
                None => Err(Missing(format!("task {task} has not exited"))),
            },
            Observable::Fact { name } => self
                .facts
                .get(name)
                .copied()
                .ok_or_else(|| Missing(format!("the guest did not tell {name}"))),
        }
    }

    fn measure(&self, name: &str) -> Result<&Measurement, Missing> {
        self.measures
            .get(name)
            .ok_or_else(|| Missing(format!("measurement {name} was not begun")))
    }

    fn task(&self, measure: &str, task: &str) -> Result<(&TaskState, &TaskState), Missing> {
        let (begin, end) = self.measure(measure)?.edges(measure)?;
        match (begin.tasks.get(task), end.tasks.get(task)) {
            (Some(begin), Some(end)) => Ok((begin, end)),
            _ => Err(Missing(format!(
                "task {task} did not live through measurement {measure}"
            ))),
        }
    }
}

fn absent(name: &str, place: &str) -> Missing {
    Missing(format!("this kernel does not show {name} in {place}"))
}

fn change(begin: &Values, end: &Values, name: &str, place: &str) -> Result<i64, Missing> {
    match (begin.get(name), end.get(name)) {
        (Some(begin), Some(end)) => end
            .checked_sub(*begin)
            .ok_or_else(|| Missing(format!("{name} is out of range: {begin}, then {end}"))),
        _ => Err(absent(name, place)),
    }
}

fn find<'a, T>(
    map: &'a BTreeMap<(String, String), T>,
    task: &str,
    region: &str,
    what: &str,
) -> Result<&'a T, Missing> {
    map.get(&(task.to_owned(), region.to_owned()))
        .ok_or_else(|| Missing(format!("region {region} of task {task} was not {what}")))
}

fn out_of_range() -> Missing {
    Missing("the guest's numbers are out of range".into())
}

// The guest's numbers are not trusted: they may be anything.
fn sum(mut numbers: impl Iterator<Item = u64>) -> Result<u64, Missing> {
    numbers
        .try_fold(0_u64, u64::checked_add)
        .ok_or_else(out_of_range)
}

fn share(unit: Unit, part: u64, all: u64, bound: Bound) -> Result<i64, Missing> {
    let value = match unit {
        Unit::Vmas | Unit::Pages => part,
        Unit::PercentOfVmas | Unit::PercentOfPages => {
            if all == 0 {
                return Err(Missing("the region has no page".into()));
            }
            let hundredfold = part.checked_mul(100).ok_or_else(out_of_range)?;
            let (down, up) = (hundredfold / all, hundredfold.div_ceil(all));
            match bound {
                Bound::AtLeast(_) => down,
                Bound::AtMost(_) => up,
                // A share between two whole numbers equals neither.
                Bound::Equals(bound) if i64::try_from(down) == Ok(bound) => up,
                Bound::Equals(_) => down,
            }
        }
    };
    i64::try_from(value).map_err(|_| out_of_range())
}
