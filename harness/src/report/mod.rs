//! Reports: what is kept of a run and of a comparison, and how it is shown.
//!
//! The types here are what `report.json` holds; [`SCHEMA`] changes when they do. Text that
//! comes from a guest or a file is escaped where it is shown.

pub mod text;

pub(crate) mod quote;

use std::collections::BTreeMap;

use camino::Utf8PathBuf;
use numalab_protocol::plan::Watch;
use serde::{Deserialize, Serialize};

use crate::jobs::budget::LeftOut;
use crate::scenario::DoesNotApply;
use crate::timing::Timing;
use crate::verdict::compare::{Change, Difference, Seen};
use crate::verdict::fault::Fault;
use crate::verdict::{Judgement, Verdict};

/// The version of `report.json`.
pub const SCHEMA: u32 = 2;

/// What one run of one scenario on one kernel gave.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunReport {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What was run.
    pub inputs: Inputs,
    /// Where the guest's life began. It changes no result.
    pub started_from: StartedFrom,
    /// The run that the result was taken from, if it is cached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<CachedResult>,
    /// How the run compares with a cached result of the same inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub determinism: Option<DeterminismCheck>,
    /// The verdict and what it rests on.
    pub judgement: Judgement,
    /// What the counters say whatever the console says, for comparing with a kernel that is
    /// at fault in the same way. Absent if the guest did not go its whole course.
    pub counters: Option<Verdict>,
    /// What the console says against the kernel.
    pub faults: Vec<Fault>,
    /// The kernel's taint flags at the end, if the guest came as far.
    pub tainted: Option<u64>,
    /// Guest time up to which the console is the boot's, in microseconds.
    pub boot_end_us: Option<u64>,
    /// How the guest ended, in words, and the stage that it reached.
    pub ending: String,
    /// What this machine lacks so that no guest can be run on it, whatever its kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// `uname -r` of the guest, once it has told.
    pub release: Option<String>,
    /// Every counter of `/proc/vmstat` that changed, by measurement.
    pub measurements: BTreeMap<String, BTreeMap<String, i64>>,
    /// What the guest found at its start.
    pub facts: BTreeMap<String, i64>,
    /// The console's last lines, if the guest did not end well.
    pub console_tail: Vec<String>,
    /// How long things took.
    pub times: Times,
    /// The run's folder.
    pub folder: Utf8PathBuf,
}

/// Where a guest's life began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartedFrom {
    /// At power on.
    Cold,
    /// In the state of a guest that was booted once and saved.
    Restored,
    /// Earlier: nothing was run now, and the records are those of a run of the same inputs.
    Cache,
}

/// The run that a cached result is from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachedResult {
    /// When it ended.
    pub at: String,
    /// Where its guest's life began.
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
        at: String,
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

/// What a run is a function of, and where it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inputs {
    /// `suite/scenario`.
    pub scenario: String,
    /// The scenario's file; its text is kept in the run's folder.
    pub scenario_file: Utf8PathBuf,
    /// The kernel.
    pub kernel: KernelId,
    /// SHA-256 of the initramfs.
    pub image: String,
    /// QEMU's version, as it prints it.
    pub qemu: String,
    /// SHA-256 of the firmware, which runs before the kernel and in guest time.
    pub firmware: String,
    /// `exact` or `live`.
    pub mode: String,
    /// Exact mode's `-icount shift=`.
    pub shift: Option<u8>,
    /// `tcg` or `kvm`: the accelerator that really ran.
    pub accelerator: String,
    /// The replicate.
    pub seed: u64,
    /// Kernel parameters added to the scenario's own.
    pub append: Vec<String>,
    /// What was watched besides the counters. A run that watched is no evidence.
    #[serde(default, skip_serializing_if = "Watch::is_nothing")]
    pub watch: Watch,
    /// numalab's version.
    pub numalab: String,
    /// The version of what host and guest say to each other.
    pub contract: u32,
}

/// Which kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelId {
    /// How it is called.
    pub name: String,
    /// The word of a command line that means it.
    pub word: String,
    /// `uname -r`, from the image.
    pub release: String,
    /// The exact version of the source, if it was built here.
    pub source: Option<String>,
    /// SHA-256 of the image that is booted.
    pub digest: String,
    /// The image.
    pub path: Utf8PathBuf,
    /// When it came into the store.
    pub stored: String,
    /// Hunks of its patches that were put elsewhere than they say, as sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<String>,
    /// The guest image with the modules that it needs, where it needs any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initramfs: Option<GuestImage>,
    /// How the plan gets into a guest.
    #[serde(default, skip_serializing_if = "PlanIn::is_fw_cfg")]
    pub plan_in: PlanIn,
    /// Whether its guests are never restored from a saved one: that this gives the bytes of
    /// a cold boot is held by tests for numalab's own configuration only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always_cold: bool,
}

impl KernelId {
    /// Whether its guests can be restored from a saved one.
    pub fn can_be_saved(&self) -> bool {
        // A plan in the initramfs would come into the guest that is saved.
        !self.always_cold && self.plan_in == PlanIn::FwCfg
    }
}

/// A guest image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestImage {
    /// The file.
    pub path: Utf8PathBuf,
    /// SHA-256 of its bytes.
    pub digest: String,
}

/// How the plan gets into a guest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlanIn {
    /// By fw_cfg, when the guest is up.
    #[default]
    FwCfg,
    /// Behind the initramfs, for a kernel that cannot read fw_cfg: its guests boot cold.
    Initramfs,
}

impl PlanIn {
    fn is_fw_cfg(&self) -> bool {
        *self == PlanIn::FwCfg
    }
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

/// What a command that runs scenarios on one kernel gave.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunsReport {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The kernel.
    pub kernel: KernelId,
    /// The runs.
    pub runs: Vec<RunReport>,
    /// Scenarios that a budget left out: nothing is said of them.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    /// Scenarios that are about something that came later than the kernel: they were not run,
    /// and count for nothing.
    #[serde(default)]
    pub does_not_apply: Vec<DoesNotApply>,
    /// How the time was spent.
    pub time: Timing,
    /// The exit code.
    pub exit_code: u8,
}

/// What a comparison of two kernels gave.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ComparisonReport {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The base.
    pub base: KernelId,
    /// The patched kernel's name.
    pub patched_name: String,
    /// The patched kernel; absent if it does not build.
    pub patched: Option<KernelId>,
    /// Something that decides before any scenario is looked at: the images are the same, or
    /// the patched kernel does not build.
    pub overall: Option<Overall>,
    /// The scenarios.
    pub scenarios: Vec<Compared>,
    /// The seeds over which verdicts were taken.
    pub seeds: Vec<u64>,
    /// `exact` or `live`.
    pub mode: String,
    /// The accelerator that ran.
    pub accelerator: String,
    /// QEMU's version.
    pub qemu: String,
    /// SHA-256 of the initramfs.
    pub image: String,
    /// The command that repeats the comparison.
    pub repeat: String,
    /// Scenarios that a budget left out: nothing is said of them.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    /// How the time was spent.
    #[serde(default)]
    pub time: Timing,
    /// The exit code.
    pub exit_code: u8,
}

/// What decides a whole comparison.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Overall {
    /// The word for every scenario.
    pub word: Change,
    /// Why.
    pub because: String,
}

/// One scenario on two kernels.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Compared {
    /// `suite/scenario`.
    pub scenario: String,
    /// The word.
    pub word: Change,
    /// Why it was not run, if it was not; or which guards are lost, if it is unclear for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// The base's runs, one for each seed.
    pub base: Vec<RunReport>,
    /// The patched kernel's runs, one for each seed.
    pub patched: Vec<RunReport>,
    /// In what the consoles differ.
    pub faults: Difference,
}

impl KernelId {
    /// Its name with what was really booted: release and the image's digest, shortened.
    pub fn shown(&self) -> String {
        format!(
            "{} ({}, image {})",
            self.name,
            self.release,
            short(&self.digest)
        )
    }
}

/// The beginning of a digest, enough to tell it from others.
pub fn short(digest: &str) -> &str {
    digest.get(..8).unwrap_or(digest)
}

impl RunReport {
    /// What a comparison needs of it.
    pub fn seen(&self) -> Seen<'_> {
        Seen {
            judgement: &self.judgement,
            counters: self.counters,
            faults: &self.faults,
            tainted: self.tainted.unwrap_or_default(),
            live: self.inputs.mode != "exact",
        }
    }

    /// The command that repeats the run.
    pub fn repeat(&self) -> String {
        let Inputs {
            scenario,
            scenario_file,
            kernel,
            mode,
            accelerator,
            shift,
            seed,
            append,
            ..
        } = &self.inputs;
        let shipped = scenario_file
            .parent()
            .and_then(|suite| suite.parent())
            .is_some_and(|suites| suites.file_name() == Some("suites"));
        let scenario = if shipped {
            scenario.as_str()
        } else {
            scenario_file.as_str()
        };
        let mut words = vec!["numalab", "run", scenario, "--kernel", &kernel.word];
        let seed = seed.to_string();
        words.extend(["--seed", &seed]);
        if mode != "exact" {
            words.extend(["--mode", mode, "--accel", accelerator]);
        }
        let shift = shift.map(|shift| shift.to_string()).unwrap_or_default();
        if !shift.is_empty() {
            words.extend(["--shift", &shift]);
        }
        for parameter in append {
            words.extend(["--append", parameter]);
        }
        shell_words::join(words)
    }
}
