//! What a fresh process does before it becomes a task: it joins its control group, takes
//! its affinity and its memory policy, and executes the task anew, so that the task's
//! whole memory, from its first page, is under them.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use super::policy;
use super::{TaskError, answer, set_affinity};
use crate::file;
use crate::message::{Birth, Reply};
use crate::stop::chain;

/// Becomes a task; returns only if that fails.
pub(crate) fn run(birth: &str) -> ExitCode {
    let error = match become_task(birth) {
        Ok(never) => match never {},
        Err(error) => error,
    };
    let message = chain(&error);
    if answer(&Reply::Failed { message }).is_err() {
        eprintln!("numalab-agent: {error}");
    }
    ExitCode::FAILURE
}

fn become_task(argument: &str) -> Result<std::convert::Infallible, TaskError> {
    let birth: Birth = serde_json::from_str(argument)
        .map_err(|error| TaskError::call("launch", "", io::Error::from(error)))?;
    if let Some(procs) = &birth.procs {
        // 0 is the process that writes.
        file::write(procs, "0")?;
    }
    let cpus = if birth.task.cpus.is_empty() {
        &birth.cpus
    } else {
        &birth.task.cpus
    };
    set_affinity(None, cpus)?;
    if let Some(policy) = &birth.task.policy {
        policy::set(policy)?;
    }
    let cause = Command::new("/proc/self/exe")
        .args(["task", argument])
        .exec();
    Err(TaskError::call("execve", "", cause))
}
