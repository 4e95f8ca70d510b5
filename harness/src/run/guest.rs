//! Runs a prepared guest to its end: restored from a snapshot, or booted cold.

use std::sync::Arc;
use std::time::{Duration, Instant};

use numalab_protocol::Record;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::guest::argv::Start;
use crate::guest::deadline::Deadlines;
use crate::guest::lifecycle::{self, GuestError, GuestEvent, Limits};
use crate::guest::outcome::{End, Outcome};
use crate::guest::slots::{Need, Slot, SlotError, Waiting};
use crate::guest::snapshot::{Copied, Saved, Snapshot, SnapshotRequest, Snapshots};
use crate::run::prepare::Prepared;
use crate::run::request::RunRequest;
use crate::run::result::{Ran, StartedFrom, Times};
use crate::run::runner::Runner;
use crate::timing::Activity;
use crate::ui::Ui;

/// Where a run's guest begins.
pub(super) enum Beginning<'r> {
    Cold,
    /// In the state of a snapshot, of which the run has a copy of its own.
    Restored {
        snapshots: &'r Snapshots,
        saved: Arc<Saved>,
        copied: Copied,
        took: Duration,
    },
    /// Nowhere: the boot that was to be saved has failed as this one would.
    Failed(Result<Outcome, GuestError>),
}

/// Finds or makes the snapshot that a guest is restored from.
///
/// # Errors
/// A signal came.
pub(super) async fn begin<'r>(
    runner: &'r Runner,
    prepared: &mut Prepared<'_>,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<Beginning<'r>, Error> {
    let (request, boot) = (prepared.request, &mut prepared.boot);
    let Some(snapshots) = &runner.builder.snapshots else {
        return Ok(Beginning::Cold);
    };
    let kernel = request.kernel;
    if !kernel.can_be_saved() {
        return Ok(Beginning::Cold);
    }
    let start = Instant::now();
    let nodes = match request.machine.nodes().len() {
        1 => "1 node".to_owned(),
        nodes => format!("{nodes} nodes"),
    };
    let wanted = SnapshotRequest {
        qemu: &runner.builder.qemu,
        boot,
        kernel: &kernel.digest,
        image: runner.image(kernel).1,
        title: &format!("{} on {nodes}", kernel.name),
    };
    let saved = match snapshots.get(&wanted, ui, cancel).await? {
        Snapshot::Saved(saved) => saved,
        Snapshot::Failed(failed) => return Ok(Beginning::Failed(failed.outcome(boot))),
        Snapshot::None => return Ok(Beginning::Cold),
    };
    let copied = snapshots.copy(&saved, &boot.console, &boot.records, ui);
    let Some(copied) = copied.await else {
        return Ok(Beginning::Cold);
    };
    boot.start = Start::Restored(copied.disk.clone());
    Ok(Beginning::Restored {
        snapshots,
        saved,
        copied,
        took: start.elapsed(),
    })
}

/// Waits for a slot of the host.
///
/// # Errors
/// A signal came, or the host lacks the memory.
pub(super) async fn take_slot(
    runner: &Runner,
    prepared: &Prepared<'_>,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<Slot, SlotError> {
    let need = Need {
        memory_mib: prepared.boot.machine.memory_mib(),
        alone: runner.is_live(),
    };
    let on_wait = |waiting: &Waiting| ui.say(&format!("{} waits: {waiting}", prepared.title));
    runner.builder.slots.acquire(need, on_wait, cancel).await
}

/// Boots or restores the guest and follows it to its end. A snapshot that QEMU does not load
/// is replaced by a cold boot.
///
/// # Errors
/// A signal came.
pub(super) async fn observe(
    runner: &Runner,
    prepared: &mut Prepared<'_>,
    mut beginning: Beginning<'_>,
    slot: &Slot,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<Ran, Error> {
    let Prepared {
        request,
        title,
        boot,
        ..
    } = prepared;
    let deadlines = Deadlines::for_plan(&request.plan(), runner.shift(request));
    let (qemu, limits) = (&runner.builder.qemu, Limits::STANDARD);
    let shown = ui.task(title);
    let (outcome, mut times) = loop {
        let timed = runner.builder.stopwatch.begin(Activity::Guest);
        let mut clock = Clock::start();
        let on_event = |event: GuestEvent<'_>| {
            clock.event(&event);
            match event {
                GuestEvent::Started { pid } => slot.set_process(pid),
                GuestEvent::Stage(stage) => shown.stage(&stage.to_string()),
                _ => {}
            }
        };
        let cancel = cancel.clone();
        let outcome = lifecycle::run(qemu, boot, &deadlines, &limits, on_event, cancel).await;
        drop(timed);
        match (&outcome, &beginning) {
            (
                Ok(outcome),
                Beginning::Restored {
                    snapshots,
                    saved,
                    copied,
                    ..
                },
            ) if not_restored(outcome, copied) => {
                snapshots.distrust(saved, &outcome.end, ui);
            }
            _ => break (outcome, clock.times()),
        }
        beginning = Beginning::Cold;
        boot.start = Start::Cold;
    };
    if cancel.is_cancelled() {
        return Err(Error::Interrupted);
    }
    let started_from = match &beginning {
        Beginning::Restored { took, .. } => {
            times.restore_ms = Some(ms(*took));
            StartedFrom::Restored
        }
        _ => StartedFrom::Cold,
    };
    let cpu = outcome.as_ref().map(|outcome| outcome.cpu.total());
    times.qemu_cpu_ms = cpu.map_or(0, ms);
    let ran = Ran {
        times,
        ..Ran::new(outcome, started_from)
    };
    note_duration(runner, request, &ran);
    Ok(ran)
}

/// Whether it was QEMU that could not restore the guest: it ended before the guest wrote
/// anything.
fn not_restored(outcome: &Outcome, copied: &Copied) -> bool {
    let silent = outcome.records_bytes <= copied.records;
    silent && matches!(outcome.end, End::QemuExit { .. })
}

fn note_duration(runner: &Runner, request: &RunRequest<'_>, ran: &Ran) {
    let whole = ran.outcome.as_ref().is_ok_and(Outcome::is_whole);
    if let Some(shape) = runner.shape(request).filter(|_| whole) {
        let (scenario, kernel) = (&request.scenario.name, &request.kernel.digest);
        let (cpu, cold) = (ran.times.qemu_cpu_ms, ran.started_from == StartedFrom::Cold);
        let durations = &runner.builder.durations;
        durations.note(shape, scenario, kernel, cpu, cold);
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// When, by the host's clock, the guest reached its first step and its end.
struct Clock {
    start: Instant,
    first_step: Option<Duration>,
    end: Option<Duration>,
}

impl Clock {
    fn start() -> Clock {
        Clock {
            start: Instant::now(),
            first_step: None,
            end: None,
        }
    }

    fn event(&mut self, event: &GuestEvent<'_>) {
        match event {
            GuestEvent::Record(Record::Step { .. }) => {
                self.first_step.get_or_insert(self.start.elapsed());
            }
            GuestEvent::Record(Record::End { .. }) => self.end = Some(self.start.elapsed()),
            _ => {}
        }
    }

    fn times(&self) -> Times {
        let steps = self.first_step.zip(self.end);
        Times {
            wall_ms: ms(self.start.elapsed()),
            first_step_ms: self.first_step.map(ms),
            steps_ms: steps.map(|(first, end)| ms(end.saturating_sub(first))),
            ..Times::default()
        }
    }
}
