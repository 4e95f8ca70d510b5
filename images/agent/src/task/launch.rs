//! Turns a new process into a task: joins the control group, sets affinity and memory policy,
//! and executes the program again, so that they apply to the task's memory from its first
//! page.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use super::policy;
use super::{TaskError, refused, reply, set_affinity};
use crate::file;
use crate::message::{Reply, SpawnArgs};
use crate::stop::chain;

/// Becomes a task; returns only if that fails.
pub(crate) fn run(args: &str) -> ExitCode {
    let error = match become_task(args) {
        Ok(never) => match never {},
        Err(error) => error,
    };
    let message = chain(&error);
    if reply(&Reply::Failed { message }).is_err() {
        eprintln!("numalab-agent: {error}");
    }
    ExitCode::FAILURE
}

fn become_task(argument: &str) -> Result<std::convert::Infallible, TaskError> {
    let args: SpawnArgs =
        serde_json::from_str(argument).map_err(|error| refused("launch", error))?;
    if let Some(procs) = &args.procs {
        // 0 means the writing process.
        file::write(procs, "0")?;
    }
    let cpus = if args.task.cpus.is_empty() {
        &args.cpus
    } else {
        &args.task.cpus
    };
    set_affinity(None, cpus)?;
    if let Some(policy) = &args.task.policy {
        policy::set(policy)?;
    }
    let cause = Command::new("/proc/self/exe")
        .args(["task", argument])
        .exec();
    Err(refused("execve", cause))
}
