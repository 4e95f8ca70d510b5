//! A task as the agent sees it: a child process that executes commands and replies.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, ChildStdout, Command as Process, Stdio};

use numalab_protocol::plan::Command;
use numalab_protocol::record::ExitStatus;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};

use crate::errno::{CallError, failed};
use crate::message::{Reply, SpawnArgs};

/// Why a task could not be started, commanded or ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChildError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("the task {task:?} cannot be started: {message}")]
    Launch { task: String, message: String },
    #[error("the task {task:?} {} unexpectedly", ended(*.status))]
    Died { task: String, status: ExitStatus },
    #[error("the task {task:?} sent an invalid reply")]
    Reply {
        task: String,
        #[source]
        source: serde_json::Error,
    },
}

fn ended(status: ExitStatus) -> String {
    match status {
        ExitStatus::Code(code) => format!("exited with status {code}"),
        ExitStatus::Signal(signal) => format!("was killed by signal {signal}"),
    }
}

/// What was read from a task.
#[derive(Debug)]
pub(crate) enum Received {
    Reply(Reply),
    /// A part of a reply.
    Partial,
    /// The task has closed its end of the pipe, which it only does by ending.
    Eof,
}

/// The process of a task.
#[derive(Debug)]
pub(crate) struct Child {
    name: String,
    pid: Pid,
    requests: ChildStdin,
    replies: ChildStdout,
    pending: Vec<u8>,
    cgroup: Option<String>,
}

impl Child {
    /// Starts a task and waits until it is ready for commands.
    pub(crate) fn start(args: &SpawnArgs) -> Result<Self, ChildError> {
        let what = format!("the task {:?} cannot be started", args.name);
        let argument = serde_json::to_string(args).map_err(failed(&what))?;
        let mut process = Process::new("/proc/self/exe");
        process
            .args(["launch", &argument])
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        #[expect(
            unsafe_code,
            reason = "a closure before exec makes the standard library fork, instead of \
                      spawning with CLONE_VM: a child of the latter is a thread to \
                      init_numa_balancing, and starts with another scan period"
        )]
        // SAFETY: the closure does nothing.
        unsafe {
            process.pre_exec(|| Ok(()));
        }
        // `reap` waits for the process by its id.
        let mut spawned = process.spawn().map_err(failed(&what))?;
        let (Some(requests), Some(replies)) = (spawned.stdin.take(), spawned.stdout.take()) else {
            return Err(failed(what)(io::Error::other("it has no pipes")).into());
        };
        let pid = i32::try_from(spawned.id())
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(|| failed(what)(io::Error::other("it has no process id")))?;
        let mut child = Child {
            name: args.name.clone(),
            pid,
            requests,
            replies,
            pending: Vec::new(),
            cgroup: args.task.cgroup.clone(),
        };
        child.wait_until_ready()?;
        Ok(child)
    }

    /// Waits for the first reply. It does not depend on the plan, so the host's deadline for
    /// the stage is enough.
    fn wait_until_ready(&mut self) -> Result<(), ChildError> {
        let message = loop {
            match self.receive()? {
                Received::Partial => {}
                Received::Reply(Reply::Ready) => return Ok(()),
                Received::Reply(Reply::Failed { message }) => break message,
                Received::Reply(reply) => break format!("it sent {reply:?} before it was ready"),
                Received::Eof => return Err(self.died()),
            }
        };
        let task = self.name.clone();
        Err(ChildError::Launch { task, message })
    }

    fn cannot(&self, what: &str) -> String {
        format!("the task {:?} cannot {what}", self.name)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    pub(crate) fn cgroup(&self) -> Option<&str> {
        self.cgroup.as_deref()
    }

    /// Becomes readable when the task replies or ends.
    pub(crate) fn replies(&self) -> BorrowedFd<'_> {
        self.replies.as_fd()
    }

    /// Sends the task a command.
    pub(crate) fn send(&mut self, command: &Command) -> Result<(), ChildError> {
        let write = || {
            let mut line = serde_json::to_vec(command)?;
            line.push(b'\n');
            self.requests.write_all(&line)
        };
        match { write }() {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(self.died()),
            Err(error) => Err(failed(self.cannot("be sent a command"))(error).into()),
        }
    }

    /// Reads once from the task. Blocks if there is nothing to read.
    pub(crate) fn receive(&mut self) -> Result<Received, ChildError> {
        let mut bytes = [0; 4096];
        let length = self
            .replies
            .read(&mut bytes)
            .map_err(failed(self.cannot("be read from")))?;
        if length == 0 {
            return Ok(Received::Eof);
        }
        self.pending.extend_from_slice(&bytes[..length]);
        // A task replies to one command at a time, so a line feed is always the last byte.
        if self.pending.last() != Some(&b'\n') {
            return Ok(Received::Partial);
        }
        let reply = serde_json::from_slice(&self.pending).map_err(|source| ChildError::Reply {
            task: self.name.clone(),
            source,
        })?;
        self.pending.clear();
        Ok(Received::Reply(reply))
    }

    /// Waits for a task that has closed its pipe or was killed.
    pub(crate) fn reap(&self) -> Result<ExitStatus, ChildError> {
        loop {
            match waitpid(Some(self.pid), WaitOptions::empty()) {
                Ok(Some((_, status))) => {
                    if let Some(status) = exit_status(status) {
                        return Ok(status);
                    }
                }
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(failed(self.cannot("be waited for"))(errno).into()),
            }
        }
    }

    /// The error of a task that has ended by itself.
    pub(crate) fn died(&self) -> ChildError {
        match self.reap() {
            Ok(status) => ChildError::Died {
                task: self.name.clone(),
                status,
            },
            Err(error) => error,
        }
    }

    /// Kills the task and waits for it.
    pub(crate) fn end(self) -> Result<(), ChildError> {
        kill_process(self.pid, Signal::KILL).map_err(failed(self.cannot("be killed")))?;
        self.reap().map(|_| ())
    }
}

fn exit_status(status: WaitStatus) -> Option<ExitStatus> {
    if let Some(code) = status.exit_status() {
        return Some(ExitStatus::Code(code));
    }
    status.terminating_signal().map(ExitStatus::Signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_an_unexpected_end_says_how() {
        let error = |status| ChildError::Died {
            task: "hot".into(),
            status,
        };
        assert_eq!(
            error(ExitStatus::Signal(9)).to_string(),
            "the task \"hot\" was killed by signal 9 unexpectedly"
        );
        assert_eq!(
            error(ExitStatus::Code(1)).to_string(),
            "the task \"hot\" exited with status 1 unexpectedly"
        );
    }
}
