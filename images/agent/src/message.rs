//! Messages between the agent and its tasks: one JSON object per line, over pipes.
//!
//! Requests are the plan's commands. All of this is private to the agent's program.

use numalab_protocol::plan::Task;
use serde::{Deserialize, Serialize};

/// What a new process needs to know: the argument of `launch` and of `task`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SpawnArgs {
    /// The task's name.
    pub(crate) name: String,
    /// Its part of the plan.
    pub(crate) task: Task,
    /// `cgroup.procs` of its control group.
    pub(crate) procs: Option<String>,
    /// All CPUs of the plan, for a task that may run on any of them.
    pub(crate) cpus: Vec<u32>,
    /// The plan's seed.
    pub(crate) seed: u64,
}

/// A task's answer to one command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reply {
    /// The task has started, and waits for commands.
    Ready,
    /// The command has been carried out.
    Done,
    /// The result of a `Probe`.
    Probe {
        pages_per_vma: u64,
        faults: Vec<u64>,
    },
    /// The result of a `Placement`: node and number of pages, ascending.
    Placement { nodes: Vec<(u32, u64)>, absent: u64 },
    /// The time of a `Touch` ended before the scan sequence was reached.
    GaveUp { seen: i64, wanted: i64 },
    /// The command cannot be carried out.
    Failed { message: String },
}
