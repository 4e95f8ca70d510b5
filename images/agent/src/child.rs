//! A task as the agent sees it: a child process that takes commands and answers them.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, ChildStdout, Command as Process, Stdio};

use numalab_protocol::plan::Command;
use numalab_protocol::record::ExitStatus;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};

use crate::errno;
use crate::message::{Birth, Reply};

/// Why a task could not be started, commanded or ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChildError {
    #[error("the task {task:?} cannot be started: {}", errno::text(.cause))]
    Start { task: String, cause: io::Error },
    #[error("the task {task:?} cannot be started: {message}")]
    Launch { task: String, message: String },
    #[error("the task {task:?} does not take a command: {}", errno::text(.cause))]
    Send { task: String, cause: io::Error },
    #[error("the task {task:?} cannot be heard: {}", errno::text(.cause))]
    Hear { task: String, cause: io::Error },
    #[error("the task {task:?} was {} unexpectedly", ended(*.status))]
    Died { task: String, status: ExitStatus },
    #[error("the task {task:?} answers what is no answer")]
    Answer {
        task: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("the task {task:?} cannot be waited for: {}", errno::text(.cause))]
    Wait { task: String, cause: io::Error },
}

fn ended(status: ExitStatus) -> String {
    match status {
        ExitStatus::Code(code) => format!("ended with status {code}"),
        ExitStatus::Signal(signal) => format!("ended by signal {signal}"),
    }
}

/// What was heard of a task.
#[derive(Debug)]
pub(crate) enum Heard {
    /// An answer.
    Reply(Reply),
    /// A part of one.
    Nothing,
    /// It has closed its end of the pipe, which it only does by ending.
    End,
}

/// A task's process. It never outlives the guest: whoever drops it without
/// [`Child::end`] is about to power off.
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
    pub(crate) fn start(birth: &Birth) -> Result<Self, ChildError> {
        let task = || birth.name.clone();
        let failed = |cause| ChildError::Start {
            task: task(),
            cause,
        };
        let argument = serde_json::to_string(birth).map_err(|error| failed(error.into()))?;
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
        // The process is waited for by its number, in `reap`.
        let mut spawned = process.spawn().map_err(failed)?;
        let (Some(requests), Some(replies)) = (spawned.stdin.take(), spawned.stdout.take()) else {
            return Err(failed(io::Error::other("it has no pipes")));
        };
        let pid = i32::try_from(spawned.id())
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(|| failed(io::Error::other("it has no process id")))?;
        let mut child = Child {
            name: task(),
            pid,
            requests,
            replies,
            pending: Vec::new(),
            cgroup: birth.task.cgroup.clone(),
        };
        child.wait_until_ready()?;
        Ok(child)
    }

    /// Waits for the first answer. It comes without a plan's doing, by a few system calls of
    /// a process that depends on nobody, so that the host's deadline for the stage is enough.
    fn wait_until_ready(&mut self) -> Result<(), ChildError> {
        loop {
            match self.hear()? {
                Heard::Nothing => {}
                Heard::Reply(Reply::Ready) => return Ok(()),
                Heard::Reply(Reply::Failed { message }) => {
                    return Err(ChildError::Launch {
                        task: self.name.clone(),
                        message,
                    });
                }
                Heard::Reply(reply) => {
                    return Err(ChildError::Launch {
                        task: self.name.clone(),
                        message: format!("it answers {reply:?} before it is ready"),
                    });
                }
                Heard::End => return Err(self.died()),
            }
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    pub(crate) fn cgroup(&self) -> Option<&str> {
        self.cgroup.as_deref()
    }

    /// What becomes readable when the task answers or ends.
    pub(crate) fn replies(&self) -> BorrowedFd<'_> {
        self.replies.as_fd()
    }

    /// Gives the task a command.
    pub(crate) fn send(&mut self, command: &Command) -> Result<(), ChildError> {
        let write = || {
            let mut line = serde_json::to_vec(command)?;
            line.push(b'\n');
            self.requests.write_all(&line)
        };
        match { write }() {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(self.died()),
            Err(cause) => Err(ChildError::Send {
                task: self.name.clone(),
                cause,
            }),
        }
    }

    /// Reads once from the task, which blocks if it has said nothing.
    pub(crate) fn hear(&mut self) -> Result<Heard, ChildError> {
        let mut bytes = [0; 4096];
        let length = self
            .replies
            .read(&mut bytes)
            .map_err(|cause| ChildError::Hear {
                task: self.name.clone(),
                cause,
            })?;
        if length == 0 {
            return Ok(Heard::End);
        }
        self.pending.extend_from_slice(&bytes[..length]);
        // A task answers one command at a time, so a line feed is always the last byte.
        if self.pending.last() != Some(&b'\n') {
            return Ok(Heard::Nothing);
        }
        let reply = serde_json::from_slice(&self.pending).map_err(|source| ChildError::Answer {
            task: self.name.clone(),
            source,
        })?;
        self.pending.clear();
        Ok(Heard::Reply(reply))
    }

    /// Waits for a task that has closed its pipe, or was killed.
    pub(crate) fn reap(&self) -> Result<ExitStatus, ChildError> {
        loop {
            match waitpid(Some(self.pid), WaitOptions::empty()) {
                Ok(Some((_, status))) => {
                    if let Some(status) = exit_status(status) {
                        return Ok(status);
                    }
                }
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => {
                    return Err(ChildError::Wait {
                        task: self.name.clone(),
                        cause: errno.into(),
                    });
                }
            }
        }
    }

    /// The error of a task that has ended without being asked to.
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
        kill_process(self.pid, Signal::KILL).map_err(|errno| ChildError::Wait {
            task: self.name.clone(),
            cause: errno.into(),
        })?;
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
    fn an_unexpected_end_is_told_with_its_way() {
        let error = |status| ChildError::Died {
            task: "hot".into(),
            status,
        };
        assert_eq!(
            error(ExitStatus::Signal(9)).to_string(),
            "the task \"hot\" was ended by signal 9 unexpectedly"
        );
        assert_eq!(
            error(ExitStatus::Code(1)).to_string(),
            "the task \"hot\" was ended with status 1 unexpectedly"
        );
    }
}
