//! A guest's output while it runs: console and records, and the stage that they show.
//!
//! Decides when the output is a reason to end the guest; ends nothing itself.

use std::time::{Duration, Instant};

use camino::Utf8PathBuf;
use numalab_protocol::Record;

use super::argv::{Boot, Start};
use super::console::{Console, ConsoleFault};
use super::deadline::{Deadlines, GuestStage, Watch};
use super::fault_kind::FaultKind;
use super::follow::{FollowError, Follower};
use super::outcome::{End, GuestError, Outcome};
use super::process::CpuTime;
use super::records::Records;

/// How much a guest may write, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// To its console.
    pub console: u64,
    /// As records.
    pub records: u64,
}

impl Limits {
    /// Some hundred times what a scenario writes.
    pub const STANDARD: Limits = Limits {
        console: 16 * 1024 * 1024,
        records: 64 * 1024 * 1024,
    };
}

/// What happens while a guest runs.
#[derive(Debug, Clone, Copy)]
pub enum GuestEvent<'a> {
    /// QEMU has been started.
    Started {
        /// Its process id.
        pid: u32,
    },
    /// A record has come.
    Record(&'a Record),
    /// The guest has entered a stage.
    Stage(GuestStage),
    /// The console shows a fault; its excerpt is not complete yet.
    ConsoleFault(&'a ConsoleFault),
}

/// A guest's output, and how far the guest has come.
pub(super) struct Output<F> {
    console_file: Follower,
    records_file: Follower,
    console: Console,
    records: Records,
    watch: Watch,
    cpu: CpuTime,
    on_event: F,
}

impl<F: FnMut(GuestEvent<'_>)> Output<F> {
    /// Makes the files, or finds those that a restored guest continues, and starts to follow
    /// them.
    pub(super) fn new(
        boot: &Boot,
        deadlines: &Deadlines,
        limits: &Limits,
        on_event: F,
    ) -> Result<Output<F>, FollowError> {
        let follow = match boot.start {
            Start::Cold | Start::Savable(_) => Follower::create,
            Start::Restored(_) => Follower::open,
        };
        Ok(Output {
            console_file: follow(&boot.console, limits.console)?,
            records_file: follow(&boot.records, limits.records)?,
            console: Console::default(),
            records: Records::default(),
            watch: Watch::new(*deadlines, Instant::now()),
            cpu: CpuTime::default(),
            on_event,
        })
    }

    /// How long QEMU may take to its first word on the monitor.
    pub(super) fn monitor_patience(&self) -> Duration {
        self.watch.monitor_patience()
    }

    /// The stage that the guest is in, by what has been taken.
    pub(super) fn stage(&self) -> GuestStage {
        self.watch.stage()
    }

    /// Reports what happens to QEMU.
    pub(super) fn tell(&mut self, event: GuestEvent<'_>) {
        (self.on_event)(event);
    }

    /// Notes QEMU's CPU time so far, if it is still known.
    pub(super) fn note(&mut self, cpu: Option<CpuTime>) {
        self.cpu = cpu.unwrap_or(self.cpu);
    }

    /// A file whose file system has no room left, so that it may lack what the guest said.
    pub(super) fn has_no_room(&self) -> Option<Utf8PathBuf> {
        let files = [&self.records_file, &self.console_file];
        let full = files.into_iter().find(|file| file.has_no_room());
        full.map(|file| file.path().to_owned())
    }

    /// Takes what is new and looks at the clocks. Returns an end if there is a reason for
    /// one.
    pub(super) fn look(&mut self) -> Result<Option<End>, GuestError> {
        match self.take() {
            Err(Refusal::End(end)) => return Ok(Some(end)),
            Err(Refusal::Error(error)) => return Err(error),
            Ok(true) => {
                self.watch.heard(Instant::now(), self.cpu.total());
                return Ok(None);
            }
            Ok(false) => {}
        }
        let stage = self.watch.stage();
        let waited = self.watch.expired(Instant::now(), self.cpu.total());
        Ok(waited.map(|waited| End::Stuck { stage, waited }))
    }

    /// Takes what is new, whatever it may be a reason for. Returns whether there was anything.
    pub(super) fn take_more(&mut self) -> Result<bool, GuestError> {
        match self.take() {
            Ok(more) => Ok(more),
            Err(Refusal::End(_)) => Ok(false),
            Err(Refusal::Error(error)) => Err(error),
        }
    }

    /// Takes what is new. Returns whether there was anything.
    fn take(&mut self) -> Result<bool, Refusal> {
        let bytes = self.console_file.more()?;
        let more = !bytes.is_empty();
        for console_fault in self.console.push(&bytes) {
            (self.on_event)(GuestEvent::ConsoleFault(console_fault));
        }
        let bytes = self.records_file.more()?;
        let more = more || !bytes.is_empty();
        let before = self.records.records().len();
        let pushed = self.records.push(&bytes).map(|_| ());
        for record in &self.records.records()[before..] {
            (self.on_event)(GuestEvent::Record(record));
            if let Some(stage) = GuestStage::after(record)
                && stage != self.watch.stage()
            {
                self.watch.enter(stage, self.cpu.total());
                (self.on_event)(GuestEvent::Stage(stage));
            }
        }
        pushed.map_err(|error| Refusal::End(End::Records(error)))?;
        Ok(more)
    }

    /// Takes the rest, now that QEMU is gone.
    pub(super) fn outcome(mut self, end: End, wall: Duration) -> Result<Outcome, GuestError> {
        let rest = loop {
            match self.take() {
                Ok(true) => {}
                Ok(false) => break self.records.finish().err().map(End::Records),
                Err(Refusal::End(rest)) => break Some(rest),
                Err(Refusal::Error(error)) => return Err(error),
            }
        };
        for console_fault in self.console.finish() {
            (self.on_event)(GuestEvent::ConsoleFault(console_fault));
        }
        let panicked = self
            .console
            .console_faults()
            .iter()
            .any(|t| t.kind == FaultKind::Panic);
        let end = match (end, rest) {
            // Records can only be trusted whole. A guest that ended otherwise ends within
            // a line as a matter of course.
            (End::PowerOff, Some(rest)) => rest,
            // Without pvpanic a panic looks like a reset.
            (End::Reset, _) if panicked => End::Panic,
            (end, _) => end,
        };
        let (console_faults, suppressed, last_lines) = self.console.into_parts();
        Ok(Outcome {
            end,
            stage: self.watch.stage(),
            records: self.records.into_records(),
            console_faults,
            suppressed,
            last_lines,
            console_bytes: self.console_file.seen(),
            records_bytes: self.records_file.seen(),
            wall,
            cpu: self.cpu,
        })
    }
}

/// Why no more is taken.
enum Refusal {
    End(End),
    Error(GuestError),
}

impl From<FollowError> for Refusal {
    fn from(error: FollowError) -> Refusal {
        match error {
            FollowError::TooLong { path, limit } => {
                Refusal::End(End::TooMuchOutput { path, limit })
            }
            error => Refusal::Error(error.into()),
        }
    }
}
