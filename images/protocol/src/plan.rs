//! The plan: what one guest does.
//!
//! A plan is a scenario resolved for one kernel, mode and seed. It is complete: the agent
//! decides nothing, so that plan and kernel determine the run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What one guest does, in the order of the fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`crate::CONTRACT`] of the host that wrote the plan.
    pub contract: u32,
    /// Varies the guest's random numbers, and the layout and timing of its tasks.
    pub seed: u64,
    /// The topology; a guest that finds another one ends with an error.
    pub topology: Topology,
    /// The control group hierarchy that carries the cpusets.
    pub cgroup_version: CgroupVersion,
    /// Tunables written before the first task starts, in this order.
    pub settings: Vec<Setting>,
    /// Control groups, parents before children.
    pub cgroups: Vec<Cgroup>,
    /// The tasks by name. A task starts in the first step that names it, and is killed after
    /// the last.
    pub tasks: BTreeMap<String, Task>,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// What to observe besides the counters.
    #[serde(default, skip_serializing_if = "Watch::is_nothing")]
    pub watch: Watch,
}

/// What to observe besides the counters. Everything here changes the guest's instruction
/// stream, so that the counters of such a run are not comparable to others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// Trace events to record during measurements, such as `sched:sched_move_numa`. It is not
    /// an error if the kernel does not have one; the record names it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// Whether to send the counts of a kernel with `CONFIG_GCOV_KERNEL`: before the first
    /// step, where they are also reset, and after the last.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub coverage: bool,
}

impl Watch {
    /// Whether there is nothing to observe.
    pub fn is_nothing(&self) -> bool {
        self.events.is_empty() && !self.coverage
    }
}

/// Nodes in the order of their numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Node `i` is `nodes[i]`.
    pub nodes: Vec<Node>,
}

/// One NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// The numbers of its CPUs; none for a CPU-less node.
    pub cpus: Vec<u32>,
    /// Memory in KiB; 0 for a memoryless node.
    pub memory_kib: u64,
    /// SLIT distances to all nodes, 10 to itself.
    pub distances: Vec<u8>,
}

/// Which control group hierarchy the cpuset controller is used from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CgroupVersion {
    /// The `cpuset` hierarchy of version 1 (`CONFIG_CPUSETS_V1`).
    V1,
    /// The unified hierarchy.
    V2,
}

/// A value written to a tunable of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Which tunable.
    #[serde(rename = "knob")]
    pub tunable: Tunable,
    /// The value, in the tunable's own unit.
    pub value: i64,
}

/// The tunables of NUMA balancing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tunable {
    /// `/proc/sys/kernel/numa_balancing`: 0 off, bit 0 placement, bit 1 memory tiering.
    NumaBalancing,
    /// `scan_delay_ms`: time before the first scan of a task and of each VMA.
    ScanDelayMs,
    /// `scan_period_min_ms`: least time in which a task's memory is scanned once.
    ScanPeriodMinMs,
    /// `scan_period_max_ms`: most time in which a task's memory is scanned once.
    ScanPeriodMaxMs,
    /// `scan_size_mb`: how much is scanned in one pass, in MiB.
    ScanSizeMb,
    /// `hot_threshold_ms`: a page of a slow tier faulted again within it is hot.
    HotThresholdMs,
    /// `/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps`.
    PromoteRateLimitMbps,
    /// `/sys/kernel/mm/numa/demotion_enabled`: 0 or 1.
    DemotionEnabled,
}

/// A control group with a cpuset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cgroup {
    /// Path below the hierarchy's root, such as `a` or `a/b`.
    pub path: String,
    /// `cpuset.mems` in list format. With `None` it stays as it is; a new cpuset of version 1,
    /// which is empty, gets the list of its parent.
    pub mems: Option<String>,
    /// `cpuset.cpus`, likewise.
    pub cpus: Option<String>,
}

/// A process of the guest. It is executed with its control group, CPU affinity and memory
/// policy already set, and never forks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The CPUs it may run on (`sched_setaffinity`); empty for all.
    pub cpus: Vec<u32>,
    /// The control group that it is put into; `None` for the root.
    pub cgroup: Option<String>,
    /// Number of threads. The first executes commands, the others sleep; all stacks share one
    /// mapping.
    pub threads: u32,
    /// Its memory policy (`set_mempolicy`).
    pub policy: Option<Policy>,
}

/// A memory policy, as `set_mempolicy(2)` takes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The mode.
    pub mode: PolicyMode,
    /// The nodes of the mode; empty where the mode takes none.
    pub nodes: Vec<u32>,
    /// Whether `MPOL_F_NUMA_BALANCING` is set.
    pub numa_balancing: bool,
}

/// The modes of `include/uapi/linux/mempolicy.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyMode {
    /// `MPOL_DEFAULT`.
    Default,
    /// `MPOL_PREFERRED`.
    Preferred,
    /// `MPOL_BIND`.
    Bind,
    /// `MPOL_INTERLEAVE`.
    Interleave,
    /// `MPOL_LOCAL`.
    Local,
    /// `MPOL_PREFERRED_MANY`.
    PreferredMany,
    /// `MPOL_WEIGHTED_INTERLEAVE`.
    WeightedInterleave,
}

impl PolicyMode {
    /// The number that the system call takes.
    pub fn number(self) -> i32 {
        match self {
            PolicyMode::Default => 0,
            PolicyMode::Preferred => 1,
            PolicyMode::Bind => 2,
            PolicyMode::Interleave => 3,
            PolicyMode::Local => 4,
            PolicyMode::PreferredMany => 5,
            PolicyMode::WeightedInterleave => 6,
        }
    }
}

/// `MPOL_F_NUMA_BALANCING` of `include/uapi/linux/mempolicy.h`.
pub const MPOL_F_NUMA_BALANCING: i32 = 1 << 13;

/// One step. Its actors run side by side; the step ends when all have finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The measurement's name, if counters are read around this step.
    pub measure: Option<String>,
    /// What to do before the counters are read for the first time, and not measured.
    pub prepare: Vec<Actor>,
    /// What to do between the two readings.
    #[serde(rename = "lanes")]
    pub actors: Vec<Actor>,
}

/// The agent or one task, and the commands that it executes one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Actor {
    /// The name of the task; `None` for the agent.
    pub task: Option<String>,
    /// The commands, in order.
    pub commands: Vec<Command>,
}

/// One command. Most are for a task, some for the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Command {
    /// Task: map a region, and populate it if [`Region::populate`] says so.
    Map(Region),
    /// Task: unmap a region.
    Unmap {
        /// The region's name.
        region: String,
    },
    /// Task: change a region's protection.
    Protect {
        /// The region's name.
        region: String,
        /// The new protection.
        access: Access,
    },
    /// Task: repeatedly write and read back one byte of each page of a region; only read it
    /// if the region is read-only.
    Touch {
        /// The region's name.
        region: String,
        /// When to stop.
        until: Until,
    },
    /// Task: touch each page once and count the minor faults of each VMA.
    Probe {
        /// The region's name.
        region: String,
    },
    /// Task: find the node of each page of a region (`move_pages(2)` without nodes).
    Placement {
        /// The region's name.
        region: String,
    },
    /// Task: change its CPU affinity (`sched_setaffinity`, all threads).
    Affinity {
        /// The CPUs.
        cpus: Vec<u32>,
    },
    /// Task: change its memory policy (`set_mempolicy`).
    Policy(Policy),
    /// Task or agent: sleep.
    Sleep {
        /// Milliseconds of guest time.
        ms: u64,
    },
    /// Task: exit with a status.
    Exit {
        /// 0 to 255.
        status: u8,
    },
    /// Agent: write a tunable.
    Set(Setting),
    /// Agent: change a control group's cpuset.
    Cpuset(Cgroup),
}

/// When touching stops.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Until {
    /// After this much guest time.
    Elapsed {
        /// Milliseconds.
        ms: u64,
    },
    /// After a number of passes over the region.
    Passes {
        /// How many.
        count: u64,
    },
    /// When the task's `mm->numa_scan_seq` has reached a value, or after a time.
    ScanSeq {
        /// The value to reach.
        at_least: i64,
        /// Milliseconds of guest time after which the task gives up.
        within_ms: u64,
    },
}

/// Anonymous memory: `count` VMAs of `size` bytes each, `gap` bytes apart so that they do
/// not merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// Its name, within the task.
    pub name: String,
    /// Bytes of each VMA, a multiple of the page size.
    pub size: u64,
    /// Number of VMAs, at least 1.
    pub count: u32,
    /// Bytes between one VMA's end and the next one's start.
    pub gap: u64,
    /// What kind of pages.
    pub pages: PageKind,
    /// Private or shared.
    pub sharing: Sharing,
    /// The protection.
    pub access: Access,
    /// Whether and where the pages are touched after mapping.
    pub populate: Populate,
}

/// The kind of a region's pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PageKind {
    /// Base pages (`MADV_NOHUGEPAGE`).
    Base,
    /// Transparent huge pages (`MADV_HUGEPAGE`). It is an error if a populated region also
    /// has base pages. Linux turns them off in a guest of less than 512 MiB
    /// (`hugepage_init`).
    TransparentHuge,
    /// hugetlb pages of 2 MiB (`MAP_HUGETLB`), added to the kernel's pool on the node that
    /// the region is populated on, or else on the task's current node.
    Hugetlb,
}

/// `MAP_PRIVATE` or `MAP_SHARED`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// Private.
    Private,
    /// Shared (shmem, without a file).
    Shared,
}

/// A protection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// `PROT_READ | PROT_WRITE`.
    ReadWrite,
    /// `PROT_READ`.
    Read,
    /// `PROT_NONE`.
    None,
}

/// How a region's pages are first touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Populate {
    /// Not at all: the first touch does it.
    No,
    /// Written once, under the policy of the task.
    Yes,
    /// Written once, under `MPOL_BIND` to one node; then the task's policy is restored.
    Node(u32),
}
