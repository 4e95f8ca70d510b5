//! Assertions: what a guard or an expectation demands of a run.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The value of a run that an assertion is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Observable {
    /// The difference of a counter of `/proc/vmstat` over a measurement.
    Counter {
        /// The measurement.
        measure: String,
        /// The counter.
        name: String,
    },
    /// The difference of a counter of a task's `memory.stat` over a measurement.
    MemoryStat {
        /// The measurement.
        measure: String,
        /// The task.
        task: String,
        /// The counter.
        name: String,
    },
    /// A value of a task's `/proc/PID/sched` at a measurement's end.
    Sched {
        /// The measurement.
        measure: String,
        /// The task.
        task: String,
        /// The value's name.
        name: String,
    },
    /// The change of a value of a task's `/proc/PID/sched` over a measurement.
    SchedChange {
        /// The measurement.
        measure: String,
        /// The task.
        task: String,
        /// The value's name.
        name: String,
    },
    /// The faults of a probed region.
    Probe {
        /// The task.
        task: String,
        /// The region.
        region: String,
        /// What is counted.
        unit: Unit,
    },
    /// The pages of a region that are on a node.
    Placement {
        /// The task.
        task: String,
        /// The region.
        region: String,
        /// The node.
        node: u32,
        /// What is counted: pages, or pages of a hundred.
        unit: Unit,
    },
    /// A task's exit status.
    ExitStatus {
        /// The task.
        task: String,
    },
    /// Something that the guest found at its start.
    Fact {
        /// Its name.
        name: String,
    },
}

/// What a probe or a placement counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// VMAs with at least one fault.
    Vmas,
    /// Pages.
    Pages,
    /// VMAs with at least one fault, of a hundred.
    PercentOfVmas,
    /// Pages, of a hundred.
    PercentOfPages,
}

/// What is demanded of the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// It is this.
    Equals(i64),
    /// It is this or more.
    AtLeast(i64),
    /// It is this or less.
    AtMost(i64),
}

/// A guard or an expectation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assertion {
    /// The value that it is about.
    pub observable: Observable,
    /// What is demanded.
    pub bound: Bound,
    /// Why a correct kernel, or a run that says something, gives such a value.
    pub because: String,
}

impl Bound {
    /// Whether a value satisfies it.
    pub fn holds(self, value: i64) -> bool {
        match self {
            Bound::Equals(bound) => value == bound,
            Bound::AtLeast(bound) => value >= bound,
            Bound::AtMost(bound) => value <= bound,
        }
    }
}

impl Observable {
    /// The value in a run in which the subject was idle or never scanned, where there is such a thing:
    /// an exit status and a fact are not activity.
    pub fn idle(&self) -> Option<i64> {
        match self {
            // Until a scan has set it, `task_struct.numa_preferred_nid` is NUMA_NO_NODE.
            Observable::Sched { name, .. } if name == "numa_preferred_nid" => Some(-1),
            Observable::Counter { .. }
            | Observable::MemoryStat { .. }
            | Observable::Sched { .. }
            | Observable::SchedChange { .. }
            | Observable::Probe { .. } => Some(0),
            Observable::Placement { .. }
            | Observable::ExitStatus { .. }
            | Observable::Fact { .. } => None,
        }
    }

    /// The name of what is counted, without measurement and task: two observables of one
    /// quantity can be an assertion and its control.
    pub fn quantity(&self) -> String {
        match self {
            Observable::Counter { name, .. } | Observable::MemoryStat { name, .. } => name.clone(),
            Observable::Sched { name, .. } | Observable::SchedChange { name, .. } => name.clone(),
            Observable::Probe { .. } => "probe".into(),
            Observable::Placement { .. } => "placement".into(),
            Observable::ExitStatus { .. } => "exit-status".into(),
            Observable::Fact { name } => name.clone(),
        }
    }
}

impl Assertion {
    /// Whether an idle or unscanned subject satisfies it. Pages that nobody moves stay
    /// where they are, so every assertion about placement may be one of an idle subject.
    pub fn holds_when_idle(&self) -> bool {
        match self.observable.idle() {
            Some(idle) => self.bound.holds(idle),
            None => matches!(self.observable, Observable::Placement { .. }),
        }
    }
}

impl fmt::Display for Observable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Observable::Counter { measure, name } => write!(f, "{measure}: {name}"),
            Observable::MemoryStat {
                measure,
                task,
                name,
            } => {
                write!(f, "{}memory.stat {name}", of(measure, task))
            }
            Observable::Sched {
                measure,
                task,
                name,
            } => write!(f, "{}{name}", of(measure, task)),
            Observable::SchedChange {
                measure,
                task,
                name,
            } => {
                write!(f, "{}change of {name}", of(measure, task))
            }
            Observable::Probe { task, region, unit } => {
                write!(f, "{}{unit} that were scanned", of(task, region))
            }
            Observable::Placement {
                task,
                region,
                node,
                unit,
            } => {
                write!(f, "{}{unit} on node {node}", of(task, region))
            }
            Observable::ExitStatus { task } => write!(f, "{task}: exit status"),
            Observable::Fact { name } => write!(f, "guest: {name}"),
        }
    }
}

// `pinned: ` where both names are the same, else `wide, control: `.
fn of(one: &str, other: &str) -> String {
    if one == other {
        format!("{one}: ")
    } else {
        format!("{one}, {other}: ")
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::Vmas => "VMAs",
            Unit::Pages => "pages",
            Unit::PercentOfVmas => "% of VMAs",
            Unit::PercentOfPages => "% of pages",
        })
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::Equals(value) => write!(f, "= {value}"),
            Bound::AtLeast(value) => write!(f, ">= {value}"),
            Bound::AtMost(value) => write!(f, "<= {value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assertion(name: &str, bound: Bound) -> Assertion {
        let observable = Observable::Sched {
            measure: "m".into(),
            task: "t".into(),
            name: name.into(),
        };
        Assertion {
            observable,
            bound,
            because: String::new(),
        }
    }

    #[test]
    fn an_idle_task_has_no_preferred_node() {
        assert!(assertion("numa_preferred_nid", Bound::Equals(-1)).holds_when_idle());
        assert!(!assertion("numa_preferred_nid", Bound::Equals(0)).holds_when_idle());
        assert!(assertion("numa_scan_seq", Bound::AtMost(5)).holds_when_idle());
        assert!(assertion("numa_scan_seq", Bound::AtLeast(0)).holds_when_idle());
        assert!(!assertion("numa_scan_seq", Bound::AtLeast(1)).holds_when_idle());
    }

    #[test]
    fn an_assertion_reads_as_a_sentence() {
        let assertion = assertion("numa_scan_seq", Bound::AtLeast(3));
        assert_eq!(
            format!("{} {}", assertion.observable, assertion.bound),
            "m, t: numa_scan_seq >= 3"
        );
    }
}
