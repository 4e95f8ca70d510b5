//! Reports: what is kept of a run and of a comparison, and how it is shown.
//!
//! The types here are what `report.json` holds; [`SCHEMA`] changes when they do. Text that
//! comes from a guest or a file is escaped where it is shown.

pub mod text;

pub(crate) mod quote;

use std::collections::BTreeMap;
use std::fmt;

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};

use crate::guest::durations::Basis;
pub use crate::kernel_id::{GuestImage, KernelId, PlanIn};
pub use crate::run::inputs::Inputs;
pub use crate::run::result::{CachedResult, DeterminismCheck, StartedFrom, Times};
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
    /// How the guest ended, if this machine rather than the kernel may have caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_suspected: Option<String>,
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

/// A scenario that a budget leaves out. Nothing is said of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// `suite/scenario`.
    pub scenario: String,
    /// QEMU's processor time that its guests are expected to take, in milliseconds.
    pub expected_ms: u64,
    /// What this rests on.
    pub basis: Basis,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = self.expected_ms.div_ceil(100);
        let basis = match self.basis {
            Basis::Measured => "as before",
            Basis::OtherKernel => "as on another kernel",
            Basis::Guessed => "a guess, for it never ran",
        };
        let name = &self.scenario;
        write!(f, "{name} ({}.{} s, {basis})", tenths / 10, tenths % 10)
    }
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
