//! The values of what assertions are about, from the observations of a run.

use std::collections::BTreeMap;

use numalab_protocol::record::{ExitStatus, TaskState, Values};

use super::{Measurement, Missing, Observations};
use crate::scenario::{Assertion, Bound, Observable, Unit, is_known_counter};

const SCHED: &str = "/proc/PID/sched";

impl Observations {
    /// The value of an assertion's observable. A percentage is rounded away from what the
    /// bound demands: 94.9 % is not 95 %, and 0.1 % is not 0 %.
    ///
    /// # Errors
    /// It was not recorded, or this kernel has no such counter.
    pub fn value(&self, assertion: &Assertion) -> Result<i64, Missing> {
        match &assertion.observable {
            Observable::Counter { measure, name } => {
                let (begin, end) = self.measure(measure)?.edges(measure)?;
                change(name, "/proc/vmstat", &begin.vmstat, &end.vmstat)
            }
            Observable::MemoryStat {
                measure,
                task,
                name,
            } => {
                let (begin, end) = self.task(measure, task)?;
                change(name, "memory.stat", &begin.memory_stat, &end.memory_stat)
            }
            Observable::SchedChange {
                measure,
                task,
                name,
            } => {
                let (begin, end) = self.task(measure, task)?;
                change(name, SCHED, &begin.sched, &end.sched)
            }
            Observable::Sched {
                measure,
                task,
                name,
            } => value(name, SCHED, &self.task(measure, task)?.1.sched),
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
            Observable::Fact { name } => {
                let value = self.facts.get(name).copied();
                value.ok_or_else(|| Missing(format!("the guest did not report {name}")))
            }
        }
    }

    /// Everything that was measured, as assertions can refer to it: what is not zero, and the
    /// counters of NUMA balancing.
    pub fn values(&self) -> Vec<(Observable, i64)> {
        let mut all = Vec::new();
        for (measure, measurement) in &self.measures {
            let Ok((begin, end)) = measurement.edges(measure) else {
                continue;
            };
            for name in end.vmstat.keys() {
                let measure = measure.clone();
                let name = name.clone();
                all.push(Observable::Counter { measure, name });
            }
            for (task, state) in &end.tasks {
                if !begin.tasks.contains_key(task) {
                    continue;
                }
                let parts = |name: &String| (measure.clone(), task.clone(), name.clone());
                for name in state.memory_stat.keys() {
                    let (measure, task, name) = parts(name);
                    all.push(Observable::MemoryStat {
                        measure,
                        task,
                        name,
                    });
                }
                for shown in state.sched.keys() {
                    let (measure, task, name) = parts(shown);
                    all.push(Observable::Sched {
                        measure,
                        task,
                        name,
                    });
                    let (measure, task, name) = parts(shown);
                    all.push(Observable::SchedChange {
                        measure,
                        task,
                        name,
                    });
                }
            }
        }
        for (task, region) in self.probes.keys() {
            for unit in [Unit::Vmas, Unit::Pages] {
                let (task, region) = (task.clone(), region.clone());
                all.push(Observable::Probe { task, region, unit });
            }
        }
        for ((task, region), (nodes, _)) in &self.placements {
            for (node, _) in (0..).zip(nodes) {
                all.push(Observable::Placement {
                    task: task.clone(),
                    region: region.clone(),
                    node,
                    unit: Unit::Pages,
                });
            }
        }
        let exits = self.exits.keys().cloned();
        all.extend(exits.map(|task| Observable::ExitStatus { task }));
        let facts = self.facts.keys().cloned();
        all.extend(facts.map(|name| Observable::Fact { name }));

        let values = all.into_iter().filter_map(|observable| {
            let assertion = Assertion {
                observable,
                bound: Bound::AtLeast(0),
                because: String::new(),
            };
            let value = self.value(&assertion).ok()?;
            let observable = assertion.observable;
            let is_of_interest = match &observable {
                Observable::Counter { name, .. }
                | Observable::MemoryStat { name, .. }
                | Observable::Sched { name, .. }
                | Observable::SchedChange { name, .. } => value != 0 || is_known_counter(name),
                _ => true,
            };
            is_of_interest.then_some((observable, value))
        });
        values.collect()
    }

    fn measure(&self, name: &str) -> Result<&Measurement, Missing> {
        self.measures
            .get(name)
            .ok_or_else(|| Missing(format!("measurement {name} did not begin")))
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

/// A name that is printed twice has no value, either: any of the lines may be wrong.
fn value(name: &str, file: &str, values: &Values) -> Result<i64, Missing> {
    let value = values.get(name).copied();
    value.ok_or_else(|| {
        let message = format!("this kernel does not print {name} in {file}, or prints it twice");
        Missing(message)
    })
}

fn change(name: &str, file: &str, begin: &Values, end: &Values) -> Result<i64, Missing> {
    let (begin, end) = (value(name, file, begin)?, value(name, file, end)?);
    end.checked_sub(begin)
        .ok_or_else(|| Missing(format!("{name} is out of range: {begin}, then {end}")))
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

/// The guest's numbers are not trusted: they may be anything.
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
