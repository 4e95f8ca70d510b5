//! The YAML of a scenario, key by key.
//!
//! These types mirror the text and nothing more: quantities are still texts, names are not
//! resolved. [`super::resolve`] turns them into a [`super::Scenario`]; nothing else reads
//! them. They are flat on purpose: a wrong value is then reported at its own place.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

/// One behaviour of the kernel, stated as what a correct kernel does.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(title = "numalab scenario")]
pub(crate) struct RawScenario {
    /// What a correct kernel does, in one line.
    pub(crate) summary: String,
    /// Background: why the kernel does so, where it decides.
    #[serde(default)]
    pub(crate) why: Option<String>,
    /// The functions or files that this scenario is about.
    #[serde(default)]
    pub(crate) subject: Vec<String>,
    /// The commit since which the kernel behaves so.
    #[serde(default)]
    pub(crate) fixed_by: Option<String>,
    /// The release that brought what this scenario is about, such as a counter or a knob. To
    /// an earlier kernel it does not apply, which is neither `pass` nor `fail`.
    #[serde(default)]
    pub(crate) since: Option<RawSince>,
    /// The virtual machine.
    pub(crate) machine: RawMachine,
    /// Exact mode only: each guest instruction takes 2^N nanoseconds of guest time.
    #[serde(default)]
    pub(crate) shift: Option<u8>,
    /// 1 or 2: the control group hierarchy that carries the cpusets. 2 unless said.
    #[serde(default)]
    pub(crate) cgroup_version: Option<u8>,
    /// Knobs of NUMA balancing, written before the first task starts.
    #[serde(default)]
    pub(crate) balancing: RawBalancing,
    /// Control groups with a cpuset, by path; parents first or not, as you like.
    #[serde(default)]
    pub(crate) cgroups: BTreeMap<String, RawCgroup>,
    /// The tasks, by name.
    #[serde(default)]
    pub(crate) tasks: BTreeMap<String, RawTask>,
    /// What is done, in order.
    pub(crate) steps: Vec<RawStep>,
    /// Conditions without which the run says nothing. One that fails makes the verdict
    /// inconclusive.
    #[serde(default)]
    pub(crate) guards: Vec<RawAssertion>,
    /// What a correct kernel's measurements satisfy. One that fails makes the verdict fail.
    pub(crate) expect: Vec<RawAssertion>,
}

/// Since when the kernel has what a scenario is about.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "since", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct RawSince {
    /// The release, like its tag: v6.12.
    pub(crate) release: String,
    /// What came with it, and with which commit.
    pub(crate) because: String,
}

/// The virtual machine: either `nodes` alike, or `each-node` by itself.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "machine", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct RawMachine {
    /// How many nodes, all alike.
    #[serde(default)]
    pub(crate) nodes: Option<u32>,
    /// With `nodes`: CPUs of each node. 1 unless said.
    #[serde(default)]
    pub(crate) cpus_per_node: Option<u32>,
    /// With `nodes`: memory of each node, such as 256MiB, which it is unless said.
    #[serde(default)]
    pub(crate) memory_per_node: Option<String>,
    /// The nodes one by one.
    #[serde(default)]
    pub(crate) each_node: Option<Vec<RawNode>>,
    /// Distances, a row for each node: 10 to itself, 11 to 254 to another.
    #[serde(default)]
    pub(crate) distances: Option<Vec<Vec<u8>>>,
    /// More parameters for the kernel's command line.
    #[serde(default)]
    pub(crate) kernel_parameters: Vec<String>,
}

/// One node.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "node", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct RawNode {
    /// Its CPUs; 0 for a CPU-less node.
    pub(crate) cpus: u32,
    /// Its memory, such as 256MiB; 0MiB for a memoryless node.
    pub(crate) memory: String,
}

/// Knobs of NUMA balancing. What is not given stays at the kernel's default.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "balancing", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct RawBalancing {
    /// `kernel.numa_balancing`: 0 off, 1 placement, 2 memory tiering, 3 both.
    #[serde(default)]
    pub(crate) mode: Option<i64>,
    /// `scan_delay_ms`, such as 100ms: before the first scan of a task and of each VMA.
    #[serde(default)]
    pub(crate) scan_delay: Option<String>,
    /// `scan_period_min_ms`, such as 100ms.
    #[serde(default)]
    pub(crate) scan_period_min: Option<String>,
    /// `scan_period_max_ms`, such as 200ms.
    #[serde(default)]
    pub(crate) scan_period_max: Option<String>,
    /// `scan_size_mb`, such as 256MiB: how much one pass scans.
    #[serde(default)]
    pub(crate) scan_size: Option<String>,
    /// `hot_threshold_ms`, such as 1s: memory tiering only.
    #[serde(default)]
    pub(crate) hot_threshold: Option<String>,
    /// `kernel.numa_balancing_promote_rate_limit_MBps`.
    #[serde(default)]
    pub(crate) promote_rate_limit: Option<i64>,
    /// `/sys/kernel/mm/numa/demotion_enabled`.
    #[serde(default)]
    pub(crate) demotion: Option<bool>,
}

/// A control group with a cpuset.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "cgroup", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct RawCgroup {
    /// `cpuset.mems`, such as "0-1".
    #[serde(default)]
    pub(crate) mems: Option<String>,
    /// `cpuset.cpus`, such as "0,2".
    #[serde(default)]
    pub(crate) cpus: Option<String>,
}

/// A process of the guest. It starts with the first step that names it and ends after the
/// last.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "task", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct RawTask {
    /// CPU affinity, such as "1"; all CPUs unless said.
    #[serde(default)]
    pub(crate) cpus: Option<String>,
    /// Threads. The first works, the others sleep. 1 unless said.
    #[serde(default)]
    pub(crate) threads: Option<u32>,
    /// Puts the task into a control group of its own with this `cpuset.mems`.
    #[serde(default)]
    pub(crate) cpuset_mems: Option<String>,
    /// Puts the task into a control group of its own with this `cpuset.cpus`.
    #[serde(default)]
    pub(crate) cpuset_cpus: Option<String>,
    /// Puts the task into a control group of `cgroups`.
    #[serde(default)]
    pub(crate) cgroup: Option<String>,
    /// Memory policy.
    #[serde(default)]
    pub(crate) policy: Option<RawPolicyMode>,
    /// Nodes of the memory policy, such as "0".
    #[serde(default)]
    pub(crate) policy_nodes: Option<String>,
    /// Sets `MPOL_F_NUMA_BALANCING` with the memory policy.
    #[serde(default)]
    pub(crate) policy_balancing: Option<bool>,
}

/// A mode of `set_mempolicy(2)`.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawPolicyMode {
    /// `MPOL_DEFAULT`
    Default,
    /// `MPOL_PREFERRED`
    Preferred,
    /// `MPOL_BIND`
    Bind,
    /// `MPOL_INTERLEAVE`
    Interleave,
    /// `MPOL_LOCAL`
    Local,
    /// `MPOL_PREFERRED_MANY`
    PreferredMany,
    /// `MPOL_WEIGHTED_INTERLEAVE`
    WeightedInterleave,
}

/// One step.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "step", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct RawStep {
    /// Reads all counters before and after `run`, under this name.
    #[serde(default)]
    pub(crate) measure: Option<String>,
    /// Done before the first reading.
    #[serde(default)]
    pub(crate) prepare: Vec<RawAction>,
    /// What is done. Actions of one task follow one another, those of different tasks run
    /// side by side.
    #[serde(default)]
    pub(crate) run: Vec<RawAction>,
}

/// One action: a task and exactly one of the verbs `map`, `unmap`, `protect`, `touch`,
/// `probe`, `placement`, `move-to-cpus`, `policy`, `sleep`, `exit`; or, without a task, one
/// of `set`, `cpuset`, `sleep`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "action", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct RawAction {
    /// Who does it.
    #[serde(default)]
    pub(crate) task: Option<String>,

    /// Verb: map anonymous memory under this name; with `size`, and as you need `count`,
    /// `gap`, `pages`, `shared`, `access`, `populate`, `on-node`.
    #[serde(default)]
    pub(crate) map: Option<String>,
    /// Of `map`: bytes of each VMA, such as 16KiB.
    #[serde(default)]
    pub(crate) size: Option<String>,
    /// Of `map`: number of VMAs. 1 unless said.
    #[serde(default)]
    pub(crate) count: Option<u32>,
    /// Of `map`: distance between VMAs, such as 64KiB, which it is unless said.
    #[serde(default)]
    pub(crate) gap: Option<String>,
    /// Of `map` and `touch: SIZE`: what kind of pages. Base pages unless said.
    #[serde(default)]
    pub(crate) pages: Option<RawPages>,
    /// Of `map` and `touch: SIZE`: shared memory (shmem). Private unless said.
    #[serde(default)]
    pub(crate) shared: Option<bool>,
    /// Of `map` and `protect`: the protection. read-write unless said.
    #[serde(default)]
    pub(crate) access: Option<RawAccess>,
    /// Of `map`: whether every page is written once at the start. true unless said.
    #[serde(default)]
    pub(crate) populate: Option<bool>,
    /// Of `map` and `touch: SIZE`: the node on which the pages are at first.
    #[serde(default)]
    pub(crate) on_node: Option<u32>,

    /// Verb: unmap a region.
    #[serde(default)]
    pub(crate) unmap: Option<String>,
    /// Verb: give a region another protection; with `access`.
    #[serde(default)]
    pub(crate) protect: Option<String>,

    /// Verb: read and write one byte of each page, over and over; with `for`, `passes`, or
    /// `until-scan-seq` and `within`. A size, such as 4MiB, maps a region of that size
    /// before the measurement begins; a name takes one that was mapped.
    #[serde(default)]
    pub(crate) touch: Option<String>,
    /// Of `touch`: for this much guest time, such as 3s.
    #[serde(default)]
    pub(crate) r#for: Option<String>,
    /// Of `touch`: so many times.
    #[serde(default)]
    pub(crate) passes: Option<u64>,
    /// Of `touch`: until the task's `numa_scan_seq` has reached this.
    #[serde(default)]
    pub(crate) until_scan_seq: Option<i64>,
    /// Of `until-scan-seq`: giving up after this much guest time.
    #[serde(default)]
    pub(crate) within: Option<String>,

    /// Verb: touch each page of a region once and count the minor faults of each VMA.
    #[serde(default)]
    pub(crate) probe: Option<String>,
    /// Verb: ask on which nodes a region's pages are.
    #[serde(default)]
    pub(crate) placement: Option<String>,
    /// Verb: change the task's CPU affinity.
    #[serde(default)]
    pub(crate) move_to_cpus: Option<String>,
    /// Verb: change the task's memory policy; with `policy-nodes`, `policy-balancing`.
    #[serde(default)]
    pub(crate) policy: Option<RawPolicyMode>,
    /// Of `policy`: its nodes.
    #[serde(default)]
    pub(crate) policy_nodes: Option<String>,
    /// Of `policy`: sets `MPOL_F_NUMA_BALANCING`.
    #[serde(default)]
    pub(crate) policy_balancing: Option<bool>,
    /// Verb: sleep, such as 500ms.
    #[serde(default)]
    pub(crate) sleep: Option<String>,
    /// Verb: exit with this status.
    #[serde(default)]
    pub(crate) exit: Option<u8>,

    /// Verb without a task: write a knob, named as under `balancing`; with `value`.
    #[serde(default)]
    pub(crate) set: Option<String>,
    /// Of `set`: the value, in the kernel's own unit (milliseconds, MiB).
    #[serde(default)]
    pub(crate) value: Option<i64>,
    /// Verb without a task: change a control group's cpuset; with `mems`, `cpus`. A task's
    /// own control group has the task's name.
    #[serde(default)]
    pub(crate) cpuset: Option<String>,
    /// Of `cpuset`.
    #[serde(default)]
    pub(crate) mems: Option<String>,
    /// Of `cpuset`.
    #[serde(default)]
    pub(crate) cpus: Option<String>,
}

/// What a region's pages are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawPages {
    /// Base pages (`MADV_NOHUGEPAGE`).
    Base,
    /// Transparent huge pages (`MADV_HUGEPAGE`).
    TransparentHuge,
    /// hugetlb pages of 2 MiB.
    Hugetlb,
}

/// A protection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawAccess {
    /// `PROT_READ | PROT_WRITE`
    ReadWrite,
    /// `PROT_READ`
    Read,
    /// `PROT_NONE`
    None,
}

/// What is counted by a probe or a placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawUnit {
    /// VMAs with at least one fault.
    Vmas,
    /// Pages.
    Pages,
    /// VMAs with at least one fault, of a hundred.
    PercentOfVmas,
    /// Pages, of a hundred.
    PercentOfPages,
}

/// A guard or an expectation: exactly one of `counter`, `memory-stat`, `sched`,
/// `sched-change`, `probe`, `placement`, `exit-status`, `fact`; exactly one of `equals`,
/// `at-least`, `at-most`; and `because`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "assertion", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct RawAssertion {
    /// The measurement.
    #[serde(default)]
    pub(crate) measure: Option<String>,
    /// The task; may be left out where the measurement's step has one task only.
    #[serde(default)]
    pub(crate) task: Option<String>,
    /// Difference of a counter of `/proc/vmstat`, such as numa_pte_updates.
    #[serde(default)]
    pub(crate) counter: Option<String>,
    /// Difference of a counter of `memory.stat` of the task's control group.
    #[serde(default)]
    pub(crate) memory_stat: Option<String>,
    /// A value of `/proc/PID/sched` at the measurement's end, such as numa_scan_seq.
    #[serde(default)]
    pub(crate) sched: Option<String>,
    /// The change of a value of `/proc/PID/sched` over the measurement.
    #[serde(default)]
    pub(crate) sched_change: Option<String>,
    /// A probed region.
    #[serde(default)]
    pub(crate) probe: Option<String>,
    /// A region whose placement was asked for; with `node`.
    #[serde(default)]
    pub(crate) placement: Option<String>,
    /// Of `placement`: the node.
    #[serde(default)]
    pub(crate) node: Option<u32>,
    /// Of `probe` and `placement`: what is counted. pages unless said.
    #[serde(default)]
    pub(crate) r#in: Option<RawUnit>,
    /// The exit status of a task.
    #[serde(default)]
    pub(crate) exit_status: Option<String>,
    /// Something that the guest found at its start: nodes, cpus, node0.cpus,
    /// node0.memory-kib, node0.distance.1, numa_balancing.
    #[serde(default)]
    pub(crate) fact: Option<String>,
    /// The value is this.
    #[serde(default)]
    pub(crate) equals: Option<i64>,
    /// The value is this or more.
    #[serde(default)]
    pub(crate) at_least: Option<i64>,
    /// The value is this or less.
    #[serde(default)]
    pub(crate) at_most: Option<i64>,
    /// Why a correct kernel gives such a value.
    #[serde(default)]
    pub(crate) because: Option<String>,
}
