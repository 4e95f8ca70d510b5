//! What the agent and its tasks say to each other: one JSON object a line, by pipes.
//!
//! Requests are the plan's commands as they are; this is private to the agent's program.

use numalab_protocol::plan::Task;
use serde::{Deserialize, Serialize};

/// What a process is born with: the argument of `launch` and of `task`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Birth {
    /// The task's name.
    pub(crate) name: String,
    /// What the plan says of it.
    pub(crate) task: Task,
    /// `cgroup.procs` of its control group.
    pub(crate) procs: Option<String>,
    /// All CPUs of the plan, for a task that may run on any.
    pub(crate) cpus: Vec<u32>,
    /// The plan's seed.
    pub(crate) seed: u64,
}

/// A task's answer to one command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reply {
    /// The task has been executed, its threads sleep, and it waits for commands.
    Ready,
    /// The command has been carried out.
    Done,
    /// What a `Probe` has counted.
    Probe {
        pages_per_vma: u64,
        faults: Vec<u64>,
    },
    /// Where a `Placement` has found the pages: node and count, ascending.
    Placement { nodes: Vec<(u32, u64)>, absent: u64 },
    /// The time of a `Touch` is over before its scan sequence was reached.
    GaveUp { seen: i64, wanted: i64 },
    /// The command cannot be carried out.
    Failed { message: String },
}
