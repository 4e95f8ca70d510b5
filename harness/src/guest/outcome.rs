//! What came of a guest.
//!
//! Facts only: what they mean for a kernel is the verdict's.

use std::time::Duration;
use std::{fmt, io};

use camino::Utf8PathBuf;
use numalab_protocol::Record;

use super::console::{ConsoleFault, Suppressed};
use super::deadline::{GuestStage, Waited};
use super::fault_kind::FaultKind;
use super::follow::FollowError;
use super::host::MemoryError;
use super::process::{CpuTime, ProcessError};
use super::qemu::QemuError;
use super::qmp::Closed;
use super::records::RecordsError;
use crate::error_chain::sentence;

/// Why no guest was run, or its end is not certain.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// QEMU is too old.
    #[error(transparent)]
    Qemu(#[from] QemuError),
    /// The host has too little memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The kernel, the initramfs or a page cannot be read.
    #[error("the guest's {what} at {path} cannot be read")]
    Input {
        /// Which.
        what: &'static str,
        /// Where.
        path: Utf8PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file for the guest's output cannot be used.
    #[error(transparent)]
    Follow(#[from] FollowError),
    /// QEMU could not be started or ended.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

/// What came of a guest, however it ended.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// The stage that it was in.
    pub stage: GuestStage,
    /// The records that came whole, up to the end or the first damaged one.
    pub records: Vec<Record>,
    /// Faults on the console.
    pub console_faults: Vec<ConsoleFault>,
    /// Faults beyond those that are kept.
    pub suppressed: Suppressed,
    /// The last console lines, decoded lossily; not fit for a terminal (`escape`).
    pub last_lines: Vec<String>,
    /// Bytes that the guest wrote to its console.
    pub console_bytes: u64,
    /// Bytes that the guest wrote as records.
    pub records_bytes: u64,
    /// From QEMU's start to the guest's end.
    pub wall: Duration,
    /// QEMU's CPU time, as last read while it lived.
    pub cpu: CpuTime,
}

/// How a guest ended.
#[derive(Debug)]
pub enum End {
    /// It powered off. Whether it had done everything is in its last record.
    PowerOff,
    /// Its kernel panicked.
    Panic,
    /// It reset itself, and no panic was seen.
    Reset,
    /// QEMU ended before its guest did.
    QemuExit {
        /// The exit status or signal, in words.
        how: String,
        /// What it said on stderr, decoded lossily.
        stderr: String,
    },
    /// QEMU cannot run the guest any further.
    InternalError {
        /// What QEMU said.
        what: String,
    },
    /// A deadline passed.
    Stuck {
        /// In which stage.
        stage: GuestStage,
        /// Which one.
        waited: Waited,
    },
    /// It wrote more than it may.
    TooMuchOutput {
        /// The file.
        path: Utf8PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// Its records cannot be used.
    Records(RecordsError),
    /// The host has no room for its console or its records, so nothing is known of its end.
    DiskFull {
        /// The file.
        path: Utf8PathBuf,
    },
    /// QEMU's monitor did not behave.
    Monitor(Closed),
    /// Another program ended QEMU, mostly by a signal.
    Dismissed,
    /// The run was cancelled.
    Cancelled,
}

impl Outcome {
    /// The last record, if it is the one that ends a run.
    pub fn last(&self) -> Option<&Record> {
        let last = self.records.last();
        last.filter(|record| matches!(record, Record::End { .. }))
    }

    /// Whether the guest went its course to the end: it powered off after its last record.
    pub fn is_whole(&self) -> bool {
        matches!(self.end, End::PowerOff) && self.last().is_some()
    }

    /// The first fault of a kind.
    pub fn console_fault(&self, kind: FaultKind) -> Option<&ConsoleFault> {
        self.console_faults
            .iter()
            .find(|console_fault| console_fault.kind == kind)
    }
}

impl End {
    /// Whether this machine, rather than the guest's kernel, may have ended the guest.
    pub(crate) fn may_be_the_hosts(&self, live: bool) -> bool {
        match self {
            End::QemuExit { .. }
            | End::InternalError { .. }
            | End::DiskFull { .. }
            | End::Monitor(_)
            | End::Dismissed => true,
            End::Stuck { waited, .. } => live || matches!(waited, Waited::Wall { .. }),
            _ => false,
        }
    }

    /// The same end for another guest that boots alike; `None` if it may be the host's doing.
    pub(crate) fn repeated(&self) -> Option<End> {
        match *self {
            End::Panic => Some(End::Panic),
            End::Reset => Some(End::Reset),
            End::Stuck { stage, waited } => Some(End::Stuck { stage, waited }),
            _ => None,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::PowerOff => f.write_str("the guest powered off"),
            End::Panic => f.write_str("the guest's kernel panicked"),
            End::Reset => f.write_str("the guest reset itself"),
            End::QemuExit { how, stderr } => {
                write!(f, "QEMU ended before its guest, with {how}")?;
                // An error comes before the assertion that fails of it.
                let says = |line: &&str| !line.trim().is_empty() && !line.contains("warning: ");
                match stderr.lines().find(says) {
                    Some(line) => write!(f, ": {}", super::escape::escape(line.as_bytes())),
                    None => Ok(()),
                }
            }
            End::InternalError { what } => write!(f, "QEMU cannot run the guest: {what}"),
            End::Stuck { stage, waited } => write!(f, "the guest is stuck in {stage}: {waited}"),
            End::TooMuchOutput { path, limit } => {
                write!(f, "the guest wrote more than {limit} bytes to {path}")
            }
            End::Records(error) => f.write_str(&sentence(error)),
            End::DiskFull { path } => {
                write!(f, "the disk is full: {path} may lack what the guest wrote")
            }
            End::Monitor(error) => f.write_str(&sentence(error)),
            End::Dismissed => f.write_str(
                "another program ended QEMU, for instance by a signal: nothing is known of the \
                 guest; run it again",
            ),
            End::Cancelled => f.write_str("the run was interrupted"),
        }
    }
}
