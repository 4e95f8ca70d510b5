//! QEMU's process: its start, its CPU time, its certain end.
//!
//! A started QEMU does not outlive us: it stays in our process group, is killed when its
//! value is dropped, and asks the kernel for SIGKILL at the death of its parent. What it
//! says about itself on stderr is kept, up to a limit; the guest is not known here.

use std::ffi::OsStr;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, mpsc};
use std::time::Duration;
use std::{fs, io, thread};

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::qemu_priority::{self, QemuPriority};

/// The most bytes of stderr that are kept.
const STDERR_LIMIT: usize = 64 * 1024;

/// How long a killed process may take to be gone. A process that waits for a disk can only
/// be killed when that has answered.
const REAP_PATIENCE: Duration = Duration::from_secs(60);

/// How long stderr may stay open after the process is gone.
const STDERR_PATIENCE: Duration = Duration::from_secs(1);

/// What `oom_score_adj` QEMU is given: if the host runs out of memory, a guest ends first.
const OOM_SCORE_ADJ: &str = "600";

/// A running QEMU, and the other end of the socket that it was given.
#[derive(Debug)]
pub struct Process {
    child: Child,
    pid: u32,
    stderr: Stderr,
}

/// Time on the host's processors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// Outside the host's kernel.
    pub user: Duration,
    /// Inside it.
    pub system: Duration,
}

/// A QEMU that is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gone {
    /// How it ended; a signal is [`ExitStatusExt::signal`].
    pub status: ExitStatus,
    /// What it said on stderr, at most 64 KiB.
    pub stderr: Vec<u8>,
}

/// Why a process could not be started, or not be ended.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It was not started.
    #[error("starting {program} failed")]
    Start {
        /// The program.
        program: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It was killed and is still there.
    #[error("QEMU (process {pid}) is still there {} seconds after SIGKILL", REAP_PATIENCE.as_secs())]
    Unkillable {
        /// Its process id.
        pid: u32,
    },
    /// Waiting for it failed.
    #[error("waiting for QEMU (process {pid}) failed")]
    Wait {
        /// Its process id.
        pid: u32,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl Process {
    /// Starts a program that inherits one end of a socket. `arguments` is given the socket's
    /// number in the new process.
    pub async fn start(
        program: &OsStr,
        arguments: impl FnOnce(i32) -> Vec<String>,
    ) -> Result<(Process, UnixStream), ProcessError> {
        let failed = |source| ProcessError::Start {
            program: program.to_string_lossy().into_owned(),
            source,
        };
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(failed)?;
        ours.set_nonblocking(true).map_err(failed)?;
        let ours = UnixStream::from_std(ours).map_err(failed)?;
        let number = theirs.as_raw_fd();
        let mut command = Command::new(program);
        command
            .args(arguments(number))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        die_with_us(&mut command, number);
        let spawned = spawn(command).await.map_err(failed);
        drop(theirs);
        let mut child = spawned?;
        let pid = child
            .id()
            .ok_or_else(|| failed(io::Error::other("it has no process id")))?;
        let stderr = Stderr::read(child.stderr.take());
        // It may be gone already, and a host without the file does not matter.
        fs::write(format!("/proc/{pid}/oom_score_adj"), OOM_SCORE_ADJ).ok();
        let process = Process { child, pid, stderr };
        Ok((process, ours))
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its CPU time up to now; the last one known is kept by the caller, since there is none
    /// any more once it is reaped.
    pub fn cpu_time(&self) -> Option<CpuTime> {
        // While the child is not reaped, its number belongs to nobody else.
        self.child.id()?;
        cpu_time(&fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?)
    }

    /// Lets its first thread run as soon as it wakes, as far as the host allows.
    pub fn raise_priority(&self) -> QemuPriority {
        // While the child is not reaped, its number belongs to nobody else.
        match self.child.id() {
            Some(pid) => qemu_priority::give(pid),
            None => QemuPriority::None,
        }
    }

    /// What it has said on stderr so far.
    pub(super) fn stderr(&self) -> String {
        let text = self.stderr.text.lock();
        let text = text.unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Waits until it ends by itself. May be dropped and called again.
    pub async fn wait(&mut self) -> Result<ExitStatus, ProcessError> {
        let pid = self.pid;
        let status = self.child.wait().await;
        status.map_err(|source| ProcessError::Wait { pid, source })
    }

    /// Kills it if it still runs, and returns when it is gone.
    pub async fn end(mut self) -> Result<Gone, ProcessError> {
        let pid = self.pid;
        // Fails only if it is gone already.
        self.child.start_kill().ok();
        let status = timeout(REAP_PATIENCE, self.wait()).await;
        let status = status.map_err(|_| ProcessError::Unkillable { pid })??;
        let stderr = self.stderr.finish().await;
        Ok(Gone { status, stderr })
    }
}

impl CpuTime {
    /// Both together.
    pub fn total(self) -> Duration {
        self.user + self.system
    }
}

impl Gone {
    /// How it ended, in words.
    pub fn how(&self) -> String {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("exit status {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "an unknown status".into(),
        }
    }
}

/// Lets the child inherit the socket, die with this process, and leave no core file.
fn die_with_us(command: &mut Command, socket: i32) {
    let parent = rustix::process::getpid();
    let prepare = move || {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // The parent may have died before the line above.
        if rustix::process::getppid() != Some(parent) {
            return Err(io::Error::from(rustix::io::Errno::SRCH));
        }
        // A QEMU that aborts leaves no core file in the current folder.
        let none = rustix::process::Rlimit {
            current: Some(0),
            maximum: Some(0),
        };
        rustix::process::setrlimit(rustix::process::Resource::Core, none)?;
        #[expect(
            unsafe_code,
            reason = "the number of an open socket becomes a descriptor"
        )]
        // SAFETY: the parent holds the socket open until the child has been started, and
        // the child has a copy of all its descriptors.
        let socket = unsafe { std::os::fd::BorrowedFd::borrow_raw(socket) };
        rustix::io::fcntl_setfd(socket, rustix::io::FdFlags::empty())?;
        Ok(())
    };
    #[expect(
        unsafe_code,
        reason = "what runs between fork and exec is unsafe to set up"
    )]
    // SAFETY: the closure makes system calls only and neither allocates nor takes locks.
    unsafe {
        command.pre_exec(prepare);
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// Starts a command on a thread that lives as long as this process. The kernel sends the
/// death signal when the *thread* ends that forked, and threads of a runtime may end early.
async fn spawn(mut command: Command) -> io::Result<Child> {
    static SPAWNER: LazyLock<Option<mpsc::Sender<Job>>> = LazyLock::new(|| {
        let (sender, jobs) = mpsc::channel::<Job>();
        let work = move || jobs.into_iter().for_each(|job| job());
        let thread = thread::Builder::new().name("spawner".into()).spawn(work);
        thread.ok().map(|_| sender)
    });
    let (reply, answer) = oneshot::channel();
    let runtime = Handle::current();
    let job: Job = Box::new(move || {
        let _entered = runtime.enter();
        // If nobody waits any more, the child is dropped here and killed by that.
        reply.send(command.spawn()).ok();
    });
    let sent = SPAWNER.as_ref().map(|spawner| spawner.send(job));
    match sent {
        Some(Ok(())) => answer.await.map_err(io::Error::other)?,
        _ => Err(io::Error::other("no thread could be started")),
    }
}

/// What is said on stderr, read by a task of its own: a full pipe would stop QEMU.
#[derive(Debug)]
struct Stderr {
    text: Arc<Mutex<Vec<u8>>>,
    reading: JoinHandle<()>,
}

impl Stderr {
    fn read(pipe: Option<ChildStderr>) -> Stderr {
        let text = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&text);
        let reading = tokio::spawn(async move {
            let Some(mut pipe) = pipe else { return };
            let mut chunk = vec![0; 8 * 1024];
            // An error ends what can be read, as the end of the pipe does.
            while let Ok(length @ 1..) = pipe.read(&mut chunk).await {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                let room = STDERR_LIMIT - kept.len();
                kept.extend_from_slice(&chunk[..length.min(room)]);
            }
        });
        Stderr { text, reading }
    }

    /// All of it; or, if another process holds the pipe open, what has come so far.
    async fn finish(&mut self) -> Vec<u8> {
        if timeout(STDERR_PATIENCE, &mut self.reading).await.is_err() {
            self.reading.abort();
        }
        let mut text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut text)
    }
}

/// Reads fields 14 and 15 of `/proc/PID/stat` (`do_task_stat`).
fn cpu_time(stat: &str) -> Option<CpuTime> {
    let ticks_per_second = rustix::param::clock_ticks_per_second();
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let mut time = || -> Option<Duration> {
        let ticks: u64 = fields.next()?.parse().ok()?;
        let nanoseconds = u128::from(ticks) * 1_000_000_000 / u128::from(ticks_per_second);
        Some(Duration::from_nanos(u64::try_from(nanoseconds).ok()?))
    };
    Some(CpuTime {
        user: time()?,
        system: time()?,
    })
}

#[cfg(test)]
mod tests;
