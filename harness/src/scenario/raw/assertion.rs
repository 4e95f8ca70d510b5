//! The keys of guards and expectations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A guard or an expectation: exactly one observable (`counter`, `memory-stat`, `sched`,
/// `sched-change`, `probe`, `placement`, `exit-status` or `fact`), exactly one bound
/// (`equals`, `at-least` or `at-most`), and `because`.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "assertion", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct RawAssertion {
    /// The measurement, by its name under `measure`. Required by `counter`, `memory-stat`,
    /// `sched` and `sched-change`.
    #[schemars(extend("format" = "name", "examples" = ["busy"]))]
    pub(crate) measure: Option<String>,
    /// The task. May be left out where only one comes into question.
    #[schemars(extend("format" = "name", "examples" = ["worker"]))]
    pub(crate) task: Option<String>,
    /// Observable: how much this counter of `/proc/vmstat` changed over the measurement.
    #[schemars(extend("format" = "counter", "examples" = ["numa_pte_updates"]))]
    pub(crate) counter: Option<String>,
    /// Observable: how much this counter in the `memory.stat` of the task's control group
    /// changed over the measurement.
    #[schemars(extend("format" = "counter", "examples" = ["numa_hint_faults"]))]
    pub(crate) memory_stat: Option<String>,
    /// Observable: this value of the task's `/proc/PID/sched` at the end of the measurement.
    #[schemars(extend("format" = "counter", "examples" = ["numa_scan_seq"]))]
    pub(crate) sched: Option<String>,
    /// Observable: how much this value of the task's `/proc/PID/sched` changed over the
    /// measurement. Use it where the task has run before the measurement.
    #[schemars(extend("format" = "counter", "examples" = ["numa_scan_seq"]))]
    pub(crate) sched_change: Option<String>,
    /// Observable: what the action `probe` counted in this region.
    #[schemars(extend("format" = "name"))]
    pub(crate) probe: Option<String>,
    /// Observable: how much of this region the action `placement` found on `node`.
    #[schemars(extend("format" = "name"))]
    pub(crate) placement: Option<String>,
    /// The node whose pages are counted. Required by `placement`.
    #[schemars(extend("examples" = [1]))]
    pub(crate) node: Option<u32>,
    /// The unit in which a region is counted.
    #[schemars(extend("default" = "pages"))]
    pub(crate) r#in: Option<RawUnit>,
    /// Observable: the status that this task passed to the action `exit`.
    #[schemars(extend("format" = "name", "examples" = ["worker"]))]
    pub(crate) exit_status: Option<String>,
    /// Observable: a fact about the guest, read before the first step.
    #[schemars(extend("format" = "fact", "examples" = ["node0.cpus"]))]
    pub(crate) fact: Option<String>,
    /// Bound: the observable has this value.
    pub(crate) equals: Option<i64>,
    /// Bound: the observable has this value or a greater one.
    pub(crate) at_least: Option<i64>,
    /// Bound: the observable has this value or a smaller one.
    pub(crate) at_most: Option<i64>,
    /// Why a correct kernel produces such a value. It is printed when the assertion fails.
    pub(crate) because: Option<String>,
}

/// A unit in which a region is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "unit", rename_all = "kebab-case")]
pub(crate) enum RawUnit {
    /// VMAs with at least one page fault. Not for `placement`.
    Vmas,
    /// Pages of 4 KiB.
    Pages,
    /// The percentage of VMAs with at least one page fault. Not for `placement`.
    PercentOfVmas,
    /// The percentage of pages.
    PercentOfPages,
}
