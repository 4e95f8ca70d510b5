//! Where a run's result comes from: a guest or the cache, and how long it took.

use camino::Utf8PathBuf;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::guest::lifecycle::GuestError;
use crate::guest::outcome::Outcome;

/// How a run's guest began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartedFrom {
    /// It booted cold.
    Cold,
    /// It was restored from a snapshot.
    Restored,
    /// No guest was run: the records are those of an earlier run of the same inputs.
    Cache,
}

/// The run that a cached result is from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachedResult {
    /// When it ended.
    pub at: Timestamp,
    /// How its guest began.
    pub started_from: StartedFrom,
    /// How long it took.
    pub times: Times,
    /// Its folder, as long as that is there.
    pub folder: Utf8PathBuf,
    /// The name of the result in the cache: the digest of all that the guest can see.
    pub key: String,
}

/// How a run compares with an earlier run of the same inputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeterminismCheck {
    /// Console and records are the same bytes.
    Identical {
        /// When the earlier run ended.
        at: Timestamp,
    },
    /// They are not: exact mode is not deterministic here, and no verdict can be relied on.
    /// Both results are kept.
    Different {
        /// The cached result.
        then: Utf8PathBuf,
        /// The run's folder.
        now: Utf8PathBuf,
        /// The first difference.
        what: String,
    },
}

/// How long things took, in milliseconds of host time unless said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// Before QEMU's start, until a saved guest was looked up (or booted and saved, where
    /// this run was the first to need it) and copied. Absent if the guest booted cold.
    pub restore_ms: Option<u64>,
    /// From QEMU's start to its end.
    pub wall_ms: u64,
    /// From QEMU's start to the record of the first step.
    pub first_step_ms: Option<u64>,
    /// From the record of the first step to the guest's last record.
    pub steps_ms: Option<u64>,
    /// QEMU's user and system time.
    pub qemu_cpu_ms: u64,
    /// Guest time from the first step to the end of the last, in milliseconds of guest time.
    pub guest_steps_ms: u64,
}

/// What came of a run, before it is judged.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) outcome: Result<Outcome, GuestError>,
    pub(super) started_from: StartedFrom,
    pub(super) times: Times,
    pub(super) cached: Option<CachedResult>,
    pub(super) determinism: Option<DeterminismCheck>,
}

impl Ran {
    pub(super) fn new(outcome: Result<Outcome, GuestError>, started_from: StartedFrom) -> Ran {
        Ran {
            outcome,
            started_from,
            times: Times::default(),
            cached: None,
            determinism: None,
        }
    }
}
