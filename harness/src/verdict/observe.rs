//! Observations: what the records of one run say.
//!
//! A value that was not recorded is missing, with the reason, and never zero.

mod course;
#[cfg(test)]
mod tests;
mod value;

use std::collections::BTreeMap;

use numalab_protocol::plan::Plan;
use numalab_protocol::record::{Edge, ExitStatus, Record, TaskState, Values};

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
    pub gave_up: Option<String>,
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
    /// count as a guest that gave up.
    pub fn new(plan: &Plan, records: &[Record]) -> Observations {
        let mut seen = Observations::gather(records);
        if let Some(strange) = course::strange(plan, records) {
            seen.gave_up.get_or_insert(strange);
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
                measured => seen.add(measured),
            }
        }
        seen
    }

    /// Adds what a record says of the kernel or of the tasks.
    fn add(&mut self, record: &Record) {
        match record {
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
                let measurement = self.measures.entry(measure.clone()).or_default();
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
                self.probes.insert(key, (faults.clone(), *pages_per_vma));
            }
            Record::Placement {
                task,
                region,
                nodes,
                absent,
                ..
            } => {
                let key = (task.clone(), region.clone());
                self.placements.insert(key, (nodes.clone(), *absent));
            }
            Record::GaveUp {
                step,
                task,
                what,
                seen,
                wanted,
            } => {
                self.gave_up.get_or_insert(format!(
                    "step {step}: {what} of task {task} stayed at {seen}, waiting for {wanted}"
                ));
            }
            Record::Exited { task, status } => {
                self.exits.insert(task.clone(), *status);
            }
            Record::Error { stage, message } => {
                self.gave_up.get_or_insert(format!("{stage}: {message}"));
            }
            // Times are read above, and what was watched besides the counters elsewhere.
            _ => {}
        }
    }
}
