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
    pub fn wakes_first(&self) -> QemuPriority {
        // While the child is not reaped, its number belongs to nobody else.
        match self.child.id() {
            Some(pid) => qemu_priority::give(pid),
            None => QemuPriority::None,
        }
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
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    async fn shell(script: &str) -> (Process, UnixStream) {
        let script = script.to_owned();
        Process::start(OsStr::new("bash"), |fd| {
            vec!["-c".into(), script, "bash".into(), fd.to_string()]
        })
        .await
        .unwrap()
    }

    #[tokio::test]
    async fn the_child_inherits_the_socket() {
        let (mut process, mut socket) = shell("eval \"echo hello >&$1\"").await;
        let mut text = String::new();
        socket.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "hello\n");
        assert!(process.wait().await.unwrap().success());
    }

    #[tokio::test]
    async fn it_leaves_no_core_file() {
        let (process, mut socket) = shell("eval \"ulimit -c >&$1\"").await;
        let mut text = String::new();
        socket.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "0\n");
        process.end().await.unwrap();
    }

    #[tokio::test]
    async fn only_its_first_thread_wakes_first() {
        let script = "eval \"read go <&$1\"; s() { cut -d' ' -f41 /proc/$1/stat; }; \
                      p=$(s $$); c=$(sh -c 'cut -d\" \" -f41 /proc/$$/stat'); \
                      eval \"echo $p $c >&$1\"; read -r forever";
        let (process, mut socket) = shell(script).await;
        let allowed = process.wakes_first();
        socket.write_all(b"go\n").await.unwrap();
        let mut policies = [0; 3];
        socket.read_exact(&mut policies).await.unwrap();
        let is_real_time = allowed == QemuPriority::RealTime;
        let wanted = if is_real_time { b"1 0" } else { b"0 0" };
        assert_eq!(&policies, wanted, "SCHED_FIFO is 1, SCHED_OTHER 0");
        process.end().await.unwrap();
    }

    #[tokio::test]
    async fn it_is_killed_and_reaped_also_if_it_ignores_signals() {
        // The sleeping child holds stderr open for a while longer than we wait for it.
        let script = "trap '' TERM INT; echo talk >&2; sleep 5 & eval \"echo up >&$1\"; wait";
        let (process, mut socket) = shell(script).await;
        let pid = process.pid();
        socket.read_exact(&mut [0; 3]).await.unwrap();
        let gone = process.end().await.unwrap();
        assert_eq!(gone.how(), "signal 9");
        assert_eq!(gone.stderr, b"talk\n");
        assert!(!fs::exists(format!("/proc/{pid}")).unwrap());
    }

    #[tokio::test]
    async fn stderr_is_bounded_and_does_not_stop_it() {
        let (mut process, _socket) =
            shell("head -c 1000000 /dev/zero >&2; echo end >&2; exit 7").await;
        process.wait().await.unwrap();
        let gone = process.end().await.unwrap();
        assert_eq!(gone.how(), "exit status 7");
        assert_eq!(gone.stderr.len(), 64 * 1024);
    }

    #[tokio::test]
    async fn cpu_time_grows_and_the_oom_killer_prefers_it() {
        let (process, _socket) = shell("while :; do :; done").await;
        let pid = process.pid();
        let score = fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap();
        assert_eq!(score.trim(), OOM_SCORE_ADJ);
        let mut waited = Duration::ZERO;
        while process.cpu_time().unwrap().total() < Duration::from_millis(50) {
            tokio::time::sleep(Duration::from_millis(10)).await;
            waited += Duration::from_millis(10);
            assert!(waited < Duration::from_secs(60), "no CPU time was counted");
        }
        process.end().await.unwrap();
    }

    #[tokio::test]
    async fn what_does_not_exist_is_not_started() {
        let error = Process::start(OsStr::new("/nonexistent/qemu"), |_| vec![]);
        let error = error.await.unwrap_err();
        assert_eq!(error.to_string(), "starting /nonexistent/qemu failed");
    }

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let text = "61 (a) b (c) R 1 61 61 0 -1 4194304 33 0 2 0 700 50 0 0 20 0 2 0 12 0 0";
        let time = cpu_time(text).unwrap();
        let tick = 1000 / rustix::param::clock_ticks_per_second();
        assert_eq!(time.user, Duration::from_millis(700 * tick));
        assert_eq!(time.system, Duration::from_millis(50 * tick));
        assert_eq!(cpu_time("nonsense"), None);
    }
}
