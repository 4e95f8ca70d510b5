//! Runs a guest: starts QEMU, follows the guest, ends QEMU.
//!
//! One loop waits for everything that can happen: the monitor's events, QEMU's exit, new
//! bytes from the guest, deadlines, cancellation. Whatever happens, QEMU is killed and reaped
//! before [`run`] returns; if the future is dropped, it is killed then.

mod save;

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use numalab_protocol::pages;
use qapi::qmp;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::argv::{self, Boot, HostOptions, Monitor, Start};
use super::deadline::{Deadlines, GuestStage};
use super::host;
use super::mode::{Accelerator, Mode};
use super::outcome::{End, Outcome};
use super::output::Output;
use super::process::Process;
use super::qemu::Qemu;
use super::qmp::{Closed, Message, Qmp, QmpEvent};

pub use super::outcome::GuestError;
pub use super::output::{GuestEvent, Limits};
pub use save::{SaveError, save};

/// How often files and clocks are looked at. QEMU's events need no look.
const TICK: Duration = Duration::from_millis(5);

/// How many ticks pass between two looks at QEMU's CPU time.
const TICKS_PER_CPU_TIME: u32 = 20;

/// How long QEMU may take to answer a command that changes nothing.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

/// How long QEMU may take from announcing that the guest ends to having stopped it, and from
/// closing its monitor to its exit.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Runs a guest to its end. The files of its console and its records are overwritten, and are
/// complete when this returns.
///
/// # Errors
/// Nothing is known about the guest. Everything that a guest can do is an [`Outcome`].
pub async fn run(
    qemu: &Qemu,
    boot: &Boot,
    deadlines: &Deadlines,
    limits: &Limits,
    on_event: impl FnMut(GuestEvent<'_>),
    cancel: CancellationToken,
) -> Result<Outcome, GuestError> {
    check(qemu, boot)?;
    // From here on the deadlines run.
    let mut output = Output::new(boot, deadlines, limits, on_event)?;
    let start = Instant::now();
    let mut guest = Guest::start(qemu, boot, &mut output).await?;
    let ended = guest.watch(boot, &mut output, None, &cancel).await;
    output.note(guest.process.cpu_time());
    let wall = start.elapsed();
    let gone = guest.process.end().await?;
    let end = match ended? {
        Ended::Known(end) => end,
        Ended::Exited | Ended::Reached => End::QemuExit {
            how: gone.how(),
            stderr: String::from_utf8_lossy(&gone.stderr).into_owned(),
        },
    };
    // A host that cannot write what the guest says can make it end in any way, or seem to.
    let full = output.has_no_room();
    let mut outcome = output.outcome(end, wall)?;
    if let Some(path) = full
        && !matches!(outcome.end, End::Cancelled)
    {
        outcome.end = End::DiskFull { path };
    }
    Ok(outcome)
}

/// What came of a guest that ended in a known way, from the files of its console and its
/// records. No guest is started.
///
/// # Errors
/// A file cannot be read.
pub fn recall(boot: &Boot, limits: &Limits, end: End) -> Result<Outcome, GuestError> {
    let boot = Boot {
        // The files are there and stay as they are.
        start: Start::Restored("".into()),
        ..boot.clone()
    };
    let output = Output::new(&boot, &Deadlines::STANDARD, limits, |_| {})?;
    output.outcome(end, Duration::ZERO)
}

fn check(qemu: &Qemu, boot: &Boot) -> Result<(), GuestError> {
    host::check_total(boot.machine.memory_mib())?;
    if let Mode::Exact { .. } = boot.platform.mode() {
        qemu.require_exact()?;
    }
    let inputs = [("kernel", &boot.kernel), ("initramfs", &boot.initrd)];
    let pages = boot.pages.iter().map(|path| ("page of the plan", path));
    for (what, path) in inputs.into_iter().chain(pages) {
        let input = |source| GuestError::Input {
            what,
            path: path.clone(),
            source,
        };
        let metadata = File::open(path)
            .and_then(|file| file.metadata())
            .map_err(input)?;
        let wrong = match what {
            _ if !metadata.is_file() => Some("it is not a file".to_owned()),
            "page of the plan" if metadata.len() != pages::PAGE as u64 => {
                let (found, page) = (metadata.len(), pages::PAGE);
                Some(format!("it has {found} bytes instead of {page}"))
            }
            _ => None,
        };
        if let Some(wrong) = wrong {
            return Err(input(io::Error::new(io::ErrorKind::InvalidInput, wrong)));
        }
    }
    Ok(())
}

/// How the watch ended.
enum Ended {
    Known(End),
    /// QEMU is gone, and only its status can say why.
    Exited,
    /// Not at all: the guest has come to where the watch was to end.
    Reached,
}

/// A running QEMU.
struct Guest {
    process: Process,
    qmp: Qmp,
    messages: mpsc::Receiver<Message>,
    /// Whether the monitor is open.
    open: bool,
    /// When it was started, while it has not sent its greeting.
    ungreeted: Option<Instant>,
    /// The end that has been announced, and until when QEMU has to stop.
    ending: Option<(Option<End>, Instant)>,
}

impl Guest {
    /// Starts QEMU.
    async fn start<F: FnMut(GuestEvent<'_>)>(
        qemu: &Qemu,
        boot: &Boot,
        output: &mut Output<F>,
    ) -> Result<Guest, GuestError> {
        let (process, socket) = Process::start(qemu.path().as_os_str(), |descriptor| {
            let options = HostOptions {
                sandbox: qemu.sandbox(),
                monitor: Monitor::Descriptor(descriptor),
            };
            argv::arguments(boot, options)
        })
        .await?;
        if let Mode::Exact { .. } = boot.platform.mode() {
            // A host that does not allow it is no reason not to run.
            process.raise_priority();
        }
        output.tell(GuestEvent::Started { pid: process.pid() });
        let (qmp, messages) = super::qmp::connect(socket);
        Ok(Guest {
            process,
            qmp,
            messages,
            open: true,
            ungreeted: Some(Instant::now()),
            ending: None,
        })
    }

    /// Watches the guest to its end, or until it has left the stage `leaves`.
    async fn watch<F: FnMut(GuestEvent<'_>)>(
        &mut self,
        boot: &Boot,
        output: &mut Output<F>,
        leaves: Option<GuestStage>,
        cancel: &CancellationToken,
    ) -> Result<Ended, GuestError> {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut ticks = 0_u32;
        loop {
            // In this order, so that nothing that is always ready keeps a deadline from being
            // looked at, and a reason is heard before its consequence.
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Ok(Ended::Known(End::Cancelled)),
                _ = tick.tick() => {
                    ticks = ticks.wrapping_add(1);
                    if ticks.is_multiple_of(TICKS_PER_CPU_TIME) {
                        output.note(self.process.cpu_time());
                        if let Some(end) = self.cannot_load(output.stage()) {
                            return Ok(Ended::Known(end));
                        }
                    }
                    if let Some(end) = output.look()? {
                        return Ok(Ended::Known(end));
                    }
                    let patience = output.monitor_patience();
                    if self.ungreeted.is_some_and(|start| start.elapsed() > patience) {
                        return Ok(Ended::Known(End::Monitor(Closed::Silent(patience))));
                    }
                    if leaves.is_some_and(|stage| stage != output.stage()) {
                        return Ok(Ended::Reached);
                    }
                    if self.ending.as_ref().is_some_and(|(_, until)| Instant::now() > *until) {
                        return Ok(Ended::Known(self.announced().unwrap_or(End::Monitor(Closed::End))));
                    }
                }
                message = self.messages.recv(), if self.open => {
                    if let Some(end) = self.message(message, boot).await {
                        return Ok(Ended::Known(end));
                    }
                }
                status = self.process.wait() => {
                    status?;
                    return Ok(self.last_words(boot).await);
                }
            }
        }
    }

    /// Whether QEMU lacks the means to load the kernel.
    fn cannot_load(&self, stage: GuestStage) -> Option<End> {
        if stage != GuestStage::Boot {
            return None;
        }
        let said = self.process.stderr();
        let what = super::qemu::missing_rom(&said)?;
        Some(End::InternalError { what })
    }

    /// Reads what QEMU sent before it was gone.
    async fn last_words(&mut self, boot: &Boot) -> Ended {
        let words = async {
            while self.open {
                let message = self.messages.recv().await;
                if let Some(end) = self.message(message, boot).await {
                    return Some(end);
                }
            }
            None
        };
        // The socket is closed when the process is gone, unless another one holds it.
        let end = timeout(STOP_PATIENCE, words).await.unwrap_or(None);
        match end.or_else(|| self.announced()) {
            Some(end) => Ended::Known(end),
            None => Ended::Exited,
        }
    }

    fn announced(&mut self) -> Option<End> {
        self.ending.take().and_then(|(end, _)| end)
    }

    fn announce(&mut self, end: Option<End>) {
        // The first reason is the cause of the others.
        if !matches!(self.ending, Some((Some(_), _))) {
            self.ending = Some((end, Instant::now() + STOP_PATIENCE));
        }
    }

    /// Handles a message. Returns the end if the guest has stopped.
    async fn message(&mut self, message: Option<Message>, boot: &Boot) -> Option<End> {
        match message {
            Some(Message::Ready) => {
                self.ungreeted = None;
                self.check_accelerator(boot).await
            }
            Some(Message::Event(event)) => self.event(event).await,
            Some(Message::Closed(Closed::End)) | None => {
                // QEMU is about to end, and its exit status says more.
                self.open = false;
                self.announce(None);
                None
            }
            Some(Message::Closed(closed)) => Some(End::Monitor(closed)),
        }
    }

    /// Checks that KVM really runs the guest.
    async fn check_accelerator(&mut self, boot: &Boot) -> Option<End> {
        let Accelerator::Kvm(_) = boot.platform.accelerator() else {
            return None;
        };
        match self.qmp.execute(qmp::query_kvm {}, ANSWER_PATIENCE).await {
            Ok(kvm) if !kvm.enabled => Some(End::InternalError {
                what: "it runs without KVM".into(),
            }),
            // QEMU's end or a deadline shows what went wrong.
            _ => None,
        }
    }

    async fn event(&mut self, event: QmpEvent) -> Option<End> {
        let text = |name: &str| event.data[name].as_str().unwrap_or("").to_owned();
        match event.name.as_str() {
            "GUEST_PANICKED" => self.announce(Some(End::Panic)),
            "RESET" => return Some(End::Reset),
            "SHUTDOWN" => {
                let reason = text("reason");
                self.announce(Some(match reason.as_str() {
                    "guest-shutdown" => End::PowerOff,
                    "guest-reset" => End::Reset,
                    "guest-panic" => End::Panic,
                    "host-signal" | "host-qmp-quit" | "host-ui" => End::Dismissed,
                    _ => End::InternalError {
                        what: format!("it shut down for the reason {reason:?}"),
                    },
                }));
            }
            "STOP" => match self.announced() {
                Some(end) => return Some(end),
                None => return Some(self.why_stopped().await),
            },
            "MEMORY_FAILURE" | "WATCHDOG" | "BLOCK_IO_ERROR" => {
                let what = format!("it reported {} {}", event.name, event.data);
                return Some(End::InternalError { what });
            }
            _ => {}
        }
        None
    }

    /// A guest that stops unannounced, as one does that KVM cannot run.
    async fn why_stopped(&self) -> End {
        let answer = self
            .qmp
            .execute(qmp::query_status {}, ANSWER_PATIENCE)
            .await;
        let what = match answer {
            Ok(status) => format!("it stopped with status {}", run_state(&status)),
            Err(error) => format!("it stopped, and then: {error}"),
        };
        End::InternalError { what }
    }
}

fn run_state(status: &qmp::StatusInfo) -> String {
    // The crate knows the name only as what it serializes to.
    let name = serde_json::to_value(status.status);
    let name = name.ok().and_then(|name| name.as_str().map(str::to_owned));
    name.unwrap_or_else(|| format!("{:?}", status.status))
}
