//! Records: what the guest tells.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Names and values, in the order of the names.
pub type Values = BTreeMap<String, i64>;

/// One thing that the guest tells. A whole run is `Ready`, `Window`, `Start`, then what the
/// steps give, then `End`. A guest that stops without `End` has failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Record {
    /// The agent has mounted what it needs and spins until the window closes.
    Ready {
        /// [`crate::CONTRACT`] of the agent.
        contract: u32,
        /// `uname -r`.
        release: String,
        /// Guest time since boot.
        uptime_ns: u64,
    },
    /// The window has closed; what follows depends on the plan.
    Window {
        /// Guest time since boot.
        uptime_ns: u64,
    },
    /// The plan is read, all CPUs are online, the topology is the one asked for, and the
    /// seed is mixed in.
    Start {
        /// The plan's seed.
        seed: u64,
        /// What the guest found, before any knob was written: the counts `nodes`, `cpus`,
        /// `node0.cpus`; `node0.memory-kib`, `node0.distance.1`; `numa_balancing`, and
        /// `thp` as [`crate::procfs::thp_enabled`] gives it, each absent where the kernel
        /// has no such file.
        facts: Values,
        /// Guest time since boot.
        uptime_ns: u64,
    },
    /// A step begins.
    Step {
        /// Its index in the plan.
        index: usize,
        /// Guest time since boot.
        uptime_ns: u64,
    },
    /// A task has been started.
    Started {
        /// The task's name.
        task: String,
        /// Its process id.
        pid: u32,
    },
    /// Counters, read at one edge of a measurement.
    Snapshot {
        /// The measurement's name.
        measure: String,
        /// Which edge.
        edge: Edge,
        /// Guest time since boot.
        uptime_ns: u64,
        /// `/proc/vmstat`.
        vmstat: Values,
        /// The tasks that live, by name.
        tasks: BTreeMap<String, TaskState>,
    },
    /// Minor faults that touching each page of a region once has cost, per VMA: each is a
    /// page that had been made `PROT_NONE` by a scan.
    Probe {
        /// The step's index.
        step: usize,
        /// The task's name.
        task: String,
        /// The region's name.
        region: String,
        /// Pages of each VMA.
        pages_per_vma: u64,
        /// Faults, one number a VMA.
        faults: Vec<u64>,
    },
    /// Where a region's pages are.
    Placement {
        /// The step's index.
        step: usize,
        /// The task's name.
        task: String,
        /// The region's name.
        region: String,
        /// Pages on each node, in the order of the nodes.
        nodes: Vec<u64>,
        /// Pages that are nowhere.
        absent: u64,
    },
    /// Touching until a scan sequence was reached has been given up.
    GaveUp {
        /// The step's index.
        step: usize,
        /// The task's name.
        task: String,
        /// What was waited for, in words.
        what: String,
        /// The last value seen.
        seen: i64,
        /// The value waited for.
        wanted: i64,
    },
    /// A task has ended.
    Exited {
        /// The task's name.
        task: String,
        /// How.
        status: ExitStatus,
    },
    /// A step has ended.
    StepEnd {
        /// Its index in the plan.
        index: usize,
        /// Guest time since boot.
        uptime_ns: u64,
    },
    /// The trace events that were recorded follow, in the order in which they happened.
    Trace {
        /// The events that the kernel has.
        recorded: Vec<String>,
        /// Those asked for that it does not have.
        missing: Vec<String>,
        /// How many events did not fit: what follows is not all that happened.
        lost: u64,
    },
    /// Some trace events.
    TraceEvents {
        /// In order.
        events: Vec<TraceEvent>,
    },
    /// A piece of a file that gcov has counted in.
    Coverage {
        /// When it was counted.
        phase: Phase,
        /// The file, below `/sys/kernel/debug/gcov`.
        file: String,
        /// Bytes of the whole file.
        length: usize,
        /// CRC-32 (IEEE) of the whole file.
        check: u32,
        /// Where the piece begins.
        offset: usize,
        /// The piece, in base64.
        data: String,
    },
    /// All files of a phase have been sent.
    CoverageEnd {
        /// The phase.
        phase: Phase,
        /// How many.
        files: usize,
        /// How many were left out because they were too many or too long.
        left_out: usize,
    },
    /// The plan cannot be carried out on this kernel or machine. Nothing but `End` follows.
    Error {
        /// What was being done, such as `topology` or `step 2`.
        stage: String,
        /// What was wrong.
        message: String,
    },
    /// The last record.
    End {
        /// Whether every step was carried out.
        complete: bool,
        /// `/proc/sys/kernel/tainted`.
        tainted: u64,
        /// Guest time since boot.
        uptime_ns: u64,
    },
}

/// A trace event, as `/sys/kernel/tracing/trace` shows it, without its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceEvent {
    /// The CPU that it happened on.
    pub cpu: u32,
    /// The name (`comm`) of the task that ran.
    pub comm: String,
    /// That task's thread id.
    pub pid: u32,
    /// The event's name; [`crate::tracefs::MARK`] for a measurement's edge.
    pub name: String,
    /// Its fields, as the kernel prints them.
    pub fields: String,
}

/// When gcov has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// From power on to the first step.
    Boot,
    /// During the steps.
    Steps,
}

/// Which edge of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Edge {
    /// Before.
    Begin,
    /// After.
    End,
}

/// What is known of one task at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskState {
    /// `/proc/PID/sched`, whole numbers only; empty if the kernel does not show it.
    pub sched: Values,
    /// `memory.stat` of its control group; empty where there is none.
    pub memory_stat: Values,
    /// Minor and major faults of the process, and its user and system time:
    /// `minflt`, `majflt`, `utime`, `stime` of `/proc/PID/stat`.
    pub stat: Values,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ExitStatus {
    /// It exited.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
}
