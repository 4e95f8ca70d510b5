//! A tool between a file and us: it reads the file, and what it writes is read here.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::{Group, JobError, tie_to_parent};
use crate::cache::{CacheError, EntryLock};

/// How often a silent tool is left to look whether its time is over.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// A running filter. Dropped, it is ended.
pub(crate) struct Filter<'a> {
    group: Group,
    output: ChildStdout,
    end: Instant,
    cancel: &'a AtomicBool,
}

impl<'a> Filter<'a> {
    /// Starts `command` with `input` as what it reads; its words of trouble go to `log`.
    pub(crate) fn start(
        mut command: Command,
        input: File,
        log: &Path,
        lock: Option<&EntryLock>,
        deadline: Duration,
        cancel: &'a AtomicBool,
    ) -> Result<Self, JobError> {
        let errors = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .map_err(|error| CacheError::io("write the log", log, error))?;
        let program = command.get_program().to_owned();
        command
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(errors)
            .process_group(0);
        tie_to_parent(&mut command, lock.map(EntryLock::descriptor));
        let start = |source| JobError::Start {
            program: program.clone(),
            source,
        };
        let mut child = command.spawn().map_err(start)?;
        let output = child.stdout.take();
        let group = Group { child };
        let output = output.ok_or_else(|| start(io::ErrorKind::BrokenPipe.into()))?;
        Ok(Self {
            group,
            output,
            end: Instant::now() + deadline,
            cancel,
        })
    }

    /// Waits for its end, which comes with the end of its output.
    pub(crate) fn finish(mut self) -> io::Result<ExitStatus> {
        drop(self.output);
        self.group.child.wait()
    }
}

impl Read for Filter<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.cancel.load(Ordering::Relaxed) {
                return Err(io::Error::other("interrupted"));
            }
            if Instant::now() >= self.end {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let ready = {
                let mut descriptors = [PollFd::new(&self.output, PollFlags::IN)];
                match rustix::event::poll(&mut descriptors, Some(&LOOK)) {
                    Err(rustix::io::Errno::INTR) => 0,
                    polled => polled?,
                }
            };
            if ready > 0 {
                return self.output.read(buffer);
            }
        }
    }
}
