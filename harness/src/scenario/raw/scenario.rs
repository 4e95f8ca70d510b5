//! The keys at the top of a scenario.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::assertion::RawAssertion;
use super::step::RawStep;
use super::task::RawTask;

/// A scenario: one behavior of the kernel, stated as what a correct kernel does.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(title = "numalab scenario")]
pub(crate) struct RawScenario {
    /// What a correct kernel does, in one line.
    #[schemars(extend("examples" = ["a task whose cpuset.mems names one node is not scanned"]))]
    pub(crate) summary: String,
    /// Background: why a correct kernel behaves this way, and where it decides to.
    pub(crate) why: Option<String>,
    /// The kernel functions or source files that this scenario is about. `check --touching`
    /// selects scenarios by them.
    #[serde(default)]
    #[schemars(extend("examples" = [["task_numa_work"]]))]
    pub(crate) subject: Vec<String>,
    /// The commit that made the kernel behave this way.
    #[schemars(extend("format" = "commit", "examples" = ["1f6c6ac03db4"]))]
    pub(crate) fixed_by: Option<String>,
    /// The release that introduced what this scenario is about, such as a counter or a
    /// tunable. Earlier kernels are skipped, which counts as neither `pass` nor `fail`.
    pub(crate) since: Option<RawSince>,
    /// The virtual machine.
    pub(crate) machine: RawMachine,
    /// Exact mode only: each guest instruction takes 2^N nanoseconds of guest time. By
    /// default, numalab chooses N.
    #[schemars(extend("format" = "0 to 10", "examples" = [3]))]
    pub(crate) shift: Option<u8>,
    /// The version of the control group hierarchy that carries the cpusets: 1 or 2.
    #[schemars(extend("default" = 2, "format" = "1 or 2"))]
    pub(crate) cgroup_version: Option<u8>,
    /// Tunables of NUMA balancing, written before the first task starts.
    #[serde(default)]
    pub(crate) balancing: RawBalancing,
    /// Control groups with a cpuset, by path, such as `a` or `a/b`. Parents that are not
    /// listed are created without a cpuset of their own.
    #[serde(default)]
    pub(crate) cgroups: BTreeMap<String, RawCgroup>,
    /// The tasks, by name.
    #[serde(default)]
    pub(crate) tasks: BTreeMap<String, RawTask>,
    /// What the guest does, in order.
    pub(crate) steps: Vec<RawStep>,
    /// Conditions that a run must satisfy to be meaningful. If one fails, the verdict is
    /// `inconclusive`.
    #[serde(default)]
    pub(crate) guards: Vec<RawAssertion>,
    /// What the measurements of a correct kernel satisfy. If one fails, the verdict is `fail`.
    /// Without any, the verdict is `measured`.
    #[serde(default)]
    pub(crate) expect: Vec<RawAssertion>,
}

/// The first release to which a scenario applies.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "since", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct RawSince {
    /// The release, written like its tag.
    #[schemars(extend("format" = "release", "examples" = ["v6.12"]))]
    pub(crate) release: String,
    /// What that release introduced, and in which commit.
    pub(crate) because: String,
}

/// The virtual machine: either `nodes` that are all alike, or `each-node` separately.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "machine", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct RawMachine {
    /// The number of nodes, all alike.
    #[schemars(extend("format" = "1 to 64", "examples" = [2]))]
    pub(crate) nodes: Option<u32>,
    /// The number of CPUs of each node. Goes with `nodes`.
    #[schemars(extend("default" = 1))]
    pub(crate) cpus_per_node: Option<u32>,
    /// The memory of each node. Goes with `nodes`.
    #[schemars(extend("default" = "256MiB", "format" = "size", "examples" = ["512MiB"]))]
    pub(crate) memory_per_node: Option<String>,
    /// The nodes one by one, where they differ.
    pub(crate) each_node: Option<Vec<RawNode>>,
    /// The distance matrix, one row per node: 10 from a node to itself, 11 to 254 to another.
    /// By default, other nodes are at distance 20.
    #[schemars(extend("examples" = [[[10, 20], [20, 10]]]))]
    pub(crate) distances: Option<Vec<Vec<u8>>>,
    /// Parameters to add to the kernel's command line.
    #[serde(default)]
    #[schemars(extend("examples" = [["sched_verbose"]]))]
    pub(crate) kernel_parameters: Vec<String>,
}

/// One node of a machine.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "node", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct RawNode {
    /// The number of its CPUs; 0 for a node without CPUs.
    pub(crate) cpus: u32,
    /// Its memory; `0MiB` for a node without memory.
    #[schemars(extend("format" = "size", "examples" = ["256MiB"]))]
    pub(crate) memory: String,
}

/// Tunables of NUMA balancing. Those that are absent keep the kernel's default.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "balancing", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct RawBalancing {
    /// `kernel.numa_balancing`: 0 is off, 1 is placement, 2 is memory tiering, 3 is both.
    #[schemars(extend("format" = "0 to 3", "examples" = [1]))]
    pub(crate) mode: Option<i64>,
    /// `scan_delay_ms`: the time before a task, and each of its VMAs, is scanned first.
    #[schemars(extend("format" = "duration", "examples" = ["100ms"]))]
    pub(crate) scan_delay: Option<String>,
    /// `scan_period_min_ms`: the shortest time in which a task's memory is scanned once.
    #[schemars(extend("format" = "duration", "examples" = ["100ms"]))]
    pub(crate) scan_period_min: Option<String>,
    /// `scan_period_max_ms`: the longest time in which a task's memory is scanned once.
    #[schemars(extend("format" = "duration", "examples" = ["200ms"]))]
    pub(crate) scan_period_max: Option<String>,
    /// `scan_size_mb`: how much memory one pass scans.
    #[schemars(extend("format" = "size", "examples" = ["256MiB"]))]
    pub(crate) scan_size: Option<String>,
    /// `hot_threshold_ms`: memory tiering only; a page that is accessed again within this
    /// time counts as hot.
    #[schemars(extend("format" = "duration", "examples" = ["1s"]))]
    pub(crate) hot_threshold: Option<String>,
    /// `kernel.numa_balancing_promote_rate_limit_MBps`, in MB per second.
    #[schemars(extend("examples" = [65536]))]
    pub(crate) promote_rate_limit: Option<i64>,
    /// `/sys/kernel/mm/numa/demotion_enabled`.
    pub(crate) demotion: Option<bool>,
}

/// A control group with a cpuset.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "cgroup", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct RawCgroup {
    /// `cpuset.mems`. Inherited from the parent by default.
    #[schemars(extend("format" = "list", "examples" = ["0-1"]))]
    pub(crate) mems: Option<String>,
    /// `cpuset.cpus`. Inherited from the parent by default.
    #[schemars(extend("format" = "list", "examples" = ["0,2"]))]
    pub(crate) cpus: Option<String>,
}
