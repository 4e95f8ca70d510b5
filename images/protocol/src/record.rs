//! Records: what the guest reports.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Names and values, in the order of the names.
pub type Values = BTreeMap<String, i64>;

/// One thing that the guest reports. A complete run is `Ready`, `Window`, `Start`, the
/// records of the steps, then `End`. A guest that stops without `End` has failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Record {
    /// The agent has mounted its file systems, and spins until the window closes.
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
    /// The plan has been read, all CPUs are online, the topology is as the plan asks, and the
    /// seed has been mixed in.
    Start {
        /// The plan's seed.
        seed: u64,
        /// What the guest found, before any tunable was written: the counts `nodes`, `cpus`,
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
    /// Minor faults of touching each page of a region once, per VMA. Each is a page that a
    /// scan had made `PROT_NONE`.
    Probe {
        /// The step's index.
        step: usize,
        /// The task's name.
        task: String,
        /// The region's name.
        region: String,
        /// Pages of each VMA.
        pages_per_vma: u64,
        /// Faults, one number per VMA.
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
        /// Pages that are on no node.
        absent: u64,
    },
    /// A `Touch` that waited for a scan sequence has timed out.
    GaveUp {
        /// The step's index.
        step: usize,
        /// The task's name.
        task: String,
        /// What the task waited for.
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
    /// The recorded trace events follow, in order.
    Trace {
        /// The events that the kernel has.
        recorded: Vec<String>,
        /// The events of the plan that it does not have.
        missing: Vec<String>,
        /// How many events did not fit, and are missing.
        lost: u64,
    },
    /// Some trace events.
    TraceEvents {
        /// In order.
        events: Vec<TraceEvent>,
    },
    /// A piece of a file of gcov counts.
    Coverage {
        /// The phase of the counts.
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
        /// How many were omitted because they are too many or too large.
        left_out: usize,
    },
    /// The plan cannot be executed on this kernel or machine. Only `End` follows.
    Error {
        /// What was being done, such as `topology` or `step 2`.
        stage: String,
        /// What was wrong.
        message: String,
    },
    /// The last record.
    End {
        /// Whether every step was executed.
        complete: bool,
        /// `/proc/sys/kernel/tainted`.
        tainted: u64,
        /// Guest time since boot.
        uptime_ns: u64,
    },
}

/// A line of `/sys/kernel/tracing/trace`, without its time.
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

/// When gcov counted.
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

/// The counters of one task.
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
