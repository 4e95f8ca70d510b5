//! The plan: what one guest has to do.
//!
//! A plan is a scenario resolved for one kernel, mode and seed. It is complete: the agent
//! decides nothing by itself, so that a plan and a kernel determine the run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What one guest has to do, in the order of its fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`crate::CONTRACT`] of the host that wrote the plan.
    pub contract: u32,
    /// The replicate: mixed into the guest's random numbers, its tasks' layout and timing.
    pub seed: u64,
    /// The topology asked for; a guest that sees another one ends with an error.
    pub topology: Topology,
    /// The control group hierarchy that carries the cpusets.
    pub cgroup_version: CgroupVersion,
    /// Knobs written before the first task starts, in this order.
    pub settings: Vec<Setting>,
    /// Control groups, parents before children.
    pub cgroups: Vec<Cgroup>,
    /// The tasks by name. A task is started by the first step that names it and ended after
    /// the last.
    pub tasks: BTreeMap<String, Task>,
    /// What is done, in order.
    pub steps: Vec<Step>,
    /// What is watched besides the counters.
    #[serde(default, skip_serializing_if = "Watch::is_nothing")]
    pub watch: Watch,
}

/// What is watched besides the counters. Each of it changes the guest's instruction stream,
/// so that the counters of such a run are evidence of nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// Trace events, such as `sched:sched_move_numa`, that are recorded during measurements.
    /// One that the kernel does not have is told, and is no error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// Whether what a kernel with `CONFIG_GCOV_KERNEL` has counted is sent: once before the
    /// first step, when the counts are set back to zero, and once after the last.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub coverage: bool,
}

impl Watch {
    /// Whether nothing is.
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

/// One NUMA node as the guest shall see it.
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

/// A value written to a knob of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Which knob.
    pub knob: Knob,
    /// The value, in the knob's own unit.
    pub value: i64,
}

/// The knobs of NUMA balancing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Knob {
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
    /// `cpuset.mems` in list format; `None` leaves it as it is, or makes a new cpuset of
    /// version 1, which would be empty, equal to its parent.
    pub mems: Option<String>,
    /// `cpuset.cpus`, likewise.
    pub cpus: Option<String>,
}

/// A process of the guest. It is executed anew, with its control group, CPU affinity and
/// memory policy already set, and never forks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The CPUs it may run on (`sched_setaffinity`); empty for all.
    pub cpus: Vec<u32>,
    /// The control group that it is put into; `None` for the root.
    pub cgroup: Option<String>,
    /// Number of threads. The first works, the others sleep; all stacks share one mapping.
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

/// One step. Its lanes run side by side; the step ends when all have ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The measurement's name, if counters are read around this step.
    pub measure: Option<String>,
    /// Commands given before the first reading: what the step needs but does not measure.
    pub prepare: Vec<Lane>,
    /// What is done between the two readings.
    pub lanes: Vec<Lane>,
}

/// Commands that one actor executes one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lane {
    /// Who: a task's name, or `None` for the agent itself.
    pub task: Option<String>,
    /// What, in order.
    pub commands: Vec<Command>,
}

/// One command. Those of a task and those of the agent are kept apart when a plan is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Command {
    /// Task: map a region and, if asked, populate it.
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
    /// Task: write and read back one byte of each page of a region, over and over; only
    /// read it where the region's protection allows no more.
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
    /// Task: ask where each page of a region is (`move_pages(2)` without nodes).
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
    /// Agent: write a knob.
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
    /// After whole passes over the region.
    Passes {
        /// How many.
        count: u64,
    },
    /// When the task's `mm->numa_scan_seq` has reached a value; giving up after a time.
    ScanSeq {
        /// The value to reach.
        at_least: i64,
        /// Milliseconds of guest time after which it is given up.
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
    /// Who touches the pages first, and where.
    pub populate: Populate,
}

/// What a region's pages are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PageKind {
    /// Base pages (`MADV_NOHUGEPAGE`).
    Base,
    /// Transparent huge pages (`MADV_HUGEPAGE`). A region that is populated and is not
    /// wholly made of them is an error. Linux turns them off in a guest of less than
    /// 512 MiB (`hugepage_init`).
    TransparentHuge,
    /// hugetlb pages of 2 MiB (`MAP_HUGETLB`), added to the kernel's pool on the node that
    /// the region is populated on, or else on the task's own.
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

/// How a region's pages come to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Populate {
    /// Not at all: the first touch does it.
    No,
    /// Written once, under the policy that the task has.
    Yes,
    /// Written once, under `MPOL_BIND` to one node; then the task's policy is restored.
    Node(u32),
}
