//! Running a tool: with a clean environment, a log file, a deadline, and an end that
//! is certain.
//!
//! Tools write to a file and not into pipes, so none of them ever waits for us or
//! dies because we did. A tool and its children form one process group; it gets a
//! signal when this process dies, and it holds the lock of the entry that it writes
//! into until its last child has ended. What tools print is not understood here.

mod filter;

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use filter::Filter;
use rustix::process::{Pid, Signal};

use crate::cache::{CacheError, EntryLock};
use crate::error_kind::ErrorKind;

/// How often a running tool is looked at.
const POLL: Duration = Duration::from_millis(20);

/// How long a tool may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(10);

/// How long killed processes are waited for.
const GONE: Duration = Duration::from_secs(2);

/// A tool to run.
pub(crate) struct Job<'a> {
    /// The tool, with its arguments and environment.
    pub(crate) command: Command,
    /// What it does, for messages: "compiling linux-6.12".
    pub(crate) what: String,
    /// Where its output goes; appended to.
    pub(crate) log: &'a Path,
    /// The entry that it writes into.
    pub(crate) lock: Option<&'a EntryLock>,
    /// After how long it is ended.
    pub(crate) deadline: Duration,
    /// Ends it when set.
    pub(crate) cancel: &'a AtomicBool,
}

/// Why a tool gave no answer. That it exited with an error is an answer.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// It could not be started.
    #[error("cannot start {program:?}")]
    Start {
        /// The program.
        program: OsString,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Its log could not be written or read.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// It could not be waited for.
    #[error("cannot wait for {what}")]
    Wait {
        /// What it did.
        what: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It took too long and was ended.
    #[error("{what} was ended after its deadline of {seconds} s; its output is in {log:?}")]
    Deadline {
        /// What it did.
        what: String,
        /// The deadline, in seconds.
        seconds: u64,
        /// Its output.
        log: PathBuf,
    },
    /// It took too long, was ended, and what it printed is of no use.
    #[error("{what} was ended after its deadline of {seconds} s")]
    Late {
        /// What it did.
        what: String,
        /// The deadline, in seconds.
        seconds: u64,
    },
    /// The caller wished to stop.
    #[error("interrupted while {what}")]
    Interrupted {
        /// What it did.
        what: String,
    },
}

impl JobError {
    /// What sort of failure it is.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::Interrupted { .. } => ErrorKind::Interrupted,
            Self::Cache(error) => error.kind(),
            Self::Start { .. } | Self::Wait { .. } | Self::Deadline { .. } | Self::Late { .. } => {
                ErrorKind::Environment
            }
        }
    }
}

/// What is told while a tool runs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Told<'a> {
    /// It printed this line.
    Line(&'a str),
    /// Some time went by.
    Tick,
}

/// How a tool ended, and what it printed.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// Where its output begins in the log.
    pub(crate) log_from: u64,
}

impl Job<'_> {
    /// Runs it to its end. `tell` gets each line that it prints, soon after.
    pub(crate) fn run(self, tell: &mut dyn FnMut(Told<'_>)) -> Result<Ended, JobError> {
        self.run_on(None, tell)
    }

    /// Like [`Job::run`], with a file to read from.
    pub(crate) fn run_on(
        mut self,
        input: Option<File>,
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Result<Ended, JobError> {
        let log_fault = |error| CacheError::io("write the log", self.log, error);
        let mut log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log)
            .map_err(log_fault)?;
        // Without the environment: a proxy's address may hold a password.
        let mut line = vec![self.command.get_program()];
        line.extend(self.command.get_args());
        writeln!(log, "$ {line:?}").map_err(log_fault)?;
        let log_from = log.stream_position().map_err(log_fault)?;
        let errors = log.try_clone().map_err(log_fault)?;
        self.command
            .stdin(input.map_or_else(Stdio::null, Stdio::from))
            .stdout(log)
            .stderr(errors)
            .process_group(0);
        tie_to_parent(&mut self.command, self.lock.map(EntryLock::descriptor));
        let mut follow = Follow::from(self.log, log_from).map_err(log_fault)?;
        let child = self.command.spawn().map_err(|source| JobError::Start {
            program: self.command.get_program().to_owned(),
            source,
        })?;
        let mut group = Group { child };
        let start = Instant::now();
        let status = loop {
            let ended = group.child.try_wait().map_err(|source| JobError::Wait {
                what: self.what.clone(),
                source,
            })?;
            follow.read(tell).map_err(log_fault)?;
            tell(Told::Tick);
            if let Some(status) = ended {
                break status;
            }
            if self.cancel.load(Ordering::Relaxed) {
                group.end();
                return Err(JobError::Interrupted { what: self.what });
            }
            if start.elapsed() >= self.deadline {
                group.end();
                return Err(JobError::Deadline {
                    what: self.what,
                    seconds: self.deadline.as_secs(),
                    log: self.log.to_owned(),
                });
            }
            thread::sleep(POLL);
        };
        follow.read(tell).map_err(log_fault)?;
        follow.finish(tell);
        Ok(Ended { status, log_from })
    }
}

/// A command that inherits nothing but what is named: build variables of the
/// caller's environment (`ARCH`, `MAKEFLAGS`, `CC`, `KBUILD_OUTPUT`, `CPATH`, ...)
/// cannot reach it.
pub(crate) fn command(program: impl AsRef<OsStr>, path: &OsStr) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", path)
        .env("LC_ALL", "C")
        .env("TZ", "UTC");
    for name in ["HOME", "LD_LIBRARY_PATH"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
}

/// Runs a quick tool and gives what it printed, both streams as one text; `None` if
/// it could not be started or failed.
pub(crate) fn answer(mut command: Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What a tool printed that was run for its output.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    /// One text, lossily decoded.
    pub(crate) stderr: String,
}

/// Runs a tool for what it prints. Both streams go to files without a name, so that it
/// can never wait for us; `input` is what it reads.
pub(crate) fn output(
    mut command: Command,
    input: Option<File>,
    what: &str,
    deadline: Duration,
    cancel: &AtomicBool,
) -> Result<Said, JobError> {
    let fault = |source| JobError::Wait {
        what: what.to_owned(),
        source,
    };
    let (mut out, mut errors) = (
        tempfile::tempfile().map_err(fault)?,
        tempfile::tempfile().map_err(fault)?,
    );
    command
        .stdin(input.map_or_else(Stdio::null, Stdio::from))
        .stdout(out.try_clone().map_err(fault)?)
        .stderr(errors.try_clone().map_err(fault)?)
        .process_group(0);
    tie_to_parent(&mut command, None);
    let child = command.spawn().map_err(|source| JobError::Start {
        program: command.get_program().to_owned(),
        source,
    })?;
    let mut group = Group { child };
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    let status = loop {
        if let Some(status) = group.child.try_wait().map_err(fault)? {
            break status;
        }
        if cancel.load(Ordering::Relaxed) {
            group.end();
            return Err(JobError::Interrupted {
                what: what.to_owned(),
            });
        }
        if start.elapsed() >= deadline {
            group.end();
            return Err(JobError::Late {
                what: what.to_owned(),
                seconds: deadline.as_secs(),
            });
        }
        thread::sleep(pause);
        pause = (pause * 2).min(POLL);
    };
    let read = |file: &mut File| {
        let mut bytes = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    Ok(Said {
        status,
        stdout: read(&mut out).map_err(fault)?,
        stderr: String::from_utf8_lossy(&read(&mut errors).map_err(fault)?).into_owned(),
    })
}

/// Whether a status says that a signal ended the tool.
pub(crate) fn was_killed(status: ExitStatus) -> bool {
    status.signal().is_some()
}

/// Makes a child get SIGTERM when this thread ends, and keep the lock.
///
/// The signal comes with the end of the *thread* that started the child: each
/// caller here waits for its child in that thread.
#[expect(
    unsafe_code,
    reason = "what runs between fork and exec has no safe interface"
)]
fn tie_to_parent(command: &mut Command, lock: Option<BorrowedFd<'_>>) {
    let parent = rustix::process::getpid();
    let lock = lock.map(|lock| lock.as_raw_fd());
    let tie = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
        if rustix::process::getppid() != Some(parent) {
            // The parent died before the line above.
            return Err(io::Error::from(io::ErrorKind::Interrupted));
        }
        if let Some(lock) = lock {
            // SAFETY: the caller keeps the lock open until the child has been
            // started, and a child of fork has the same descriptors.
            let lock = unsafe { BorrowedFd::borrow_raw(lock) };
            rustix::io::fcntl_setfd(lock, rustix::io::FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: the closure only makes system calls (prctl, getppid, fcntl): it
    // allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(tie);
    }
}

/// A child that leads a process group, and is ended with it.
struct Group {
    child: Child,
}

impl Group {
    fn id(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.id() {
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    /// Asks the group to end, waits, and then ends it.
    fn end(&mut self) {
        self.signal(Signal::TERM);
        let start = Instant::now();
        while start.elapsed() < GRACE {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(POLL),
                _ => break,
            }
        }
        // Also when the leader has ended: the group may have other members.
        self.signal(Signal::KILL);
        let _ = self.child.wait();
        // They are not our children: it is the kernel's word that they are gone. Where
        // nobody reaps orphans it never comes, and dead they are all the same.
        let start = Instant::now();
        while start.elapsed() < GONE
            && let Some(group) = self.id()
            && rustix::process::test_kill_process_group(group).is_ok()
        {
            thread::sleep(POLL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Reached with a running child only if something between its start and its
        // end failed or panicked.
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.end();
        }
    }
}

/// Reads a growing file line by line.
struct Follow {
    file: File,
    rest: Vec<u8>,
}

impl Follow {
    /// The longest line that is told whole, in bytes.
    const LONGEST: usize = 16 * 1024;

    fn from(path: &Path, offset: u64) -> io::Result<Self> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(Self {
            file,
            rest: Vec::new(),
        })
    }

    fn read(&mut self, tell: &mut dyn FnMut(Told<'_>)) -> io::Result<()> {
        let mut piece = [0; 32 * 1024];
        loop {
            let count = self.file.read(&mut piece)?;
            if count == 0 {
                return Ok(());
            }
            for byte in &piece[..count] {
                if *byte == b'\n' || self.rest.len() >= Self::LONGEST {
                    tell(Told::Line(&String::from_utf8_lossy(&self.rest)));
                    self.rest.clear();
                }
                if *byte != b'\n' {
                    self.rest.push(*byte);
                }
            }
        }
    }

    fn finish(&mut self, tell: &mut dyn FnMut(Told<'_>)) {
        if !self.rest.is_empty() {
            tell(Told::Line(&String::from_utf8_lossy(&self.rest)));
            self.rest.clear();
        }
    }
}
