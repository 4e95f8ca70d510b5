//! Reports: the contents of `report.json`, and how they are shown as text.
//!
//! [`SCHEMA`] changes with these types. Text that comes from a guest or a file is escaped where
//! it is shown.

pub mod text;

mod comparison;
mod layout;
pub(crate) mod quote;
mod runs;

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
pub const SCHEMA: u32 = 3;

/// The result of one run of one scenario on one kernel.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunReport {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What was run.
    pub inputs: Inputs,
    /// How the guest was started. It changes no result.
    pub started_from: StartedFrom,
    /// The run that the result was taken from, if it is cached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<CachedResult>,
    /// How the run compares with a cached result of the same inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub determinism: Option<DeterminismCheck>,
    /// The verdict and its reasons.
    pub judgement: Judgement,
    /// The verdict of the counters alone, for comparing with a kernel that reports the same
    /// faults. Absent if the guest did not carry out every step.
    pub counters: Option<Verdict>,
    /// The faults that the console reports.
    pub faults: Vec<Fault>,
    /// The kernel's taint flags at the end, if the guest got that far.
    pub tainted: Option<u64>,
    /// When the boot ended, in microseconds of guest time.
    pub boot_end_us: Option<u64>,
    /// How the guest ended, in words, and the stage that it reached.
    pub ending: String,
    /// What this machine lacks so that no guest can be run on it, whatever its kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// How the guest ended, if this machine rather than the kernel may have caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_suspected: Option<String>,
    /// `uname -r` of the guest, if it got that far.
    pub release: Option<String>,
    /// Every counter of `/proc/vmstat` that changed, by measurement.
    pub measurements: BTreeMap<String, BTreeMap<String, i64>>,
    /// Everything that was measured, as assertions can refer to it, in words.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, i64>,
    /// What the guest found at its start.
    pub facts: BTreeMap<String, i64>,
    /// The console's last lines, if the guest did not end well.
    pub console_tail: Vec<String>,
    /// How long things took.
    pub times: Times,
    /// The run's folder.
    pub folder: Utf8PathBuf,
}

/// The results of a command that runs scenarios on one kernel.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunsReport {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The kernel.
    pub kernel: KernelId,
    /// The runs.
    pub runs: Vec<RunReport>,
    /// Scenarios that were skipped because of a budget.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    /// Scenarios about something that a later release introduced: they were skipped, and do
    /// not count.
    #[serde(default)]
    pub does_not_apply: Vec<DoesNotApply>,
    /// How the time was spent.
    pub time: Timing,
    /// The exit code.
    pub exit_code: u8,
}

/// A scenario that is skipped because of a budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// `suite/scenario`.
    pub scenario: String,
    /// The CPU time that QEMU is expected to need for its guests, in milliseconds.
    pub expected_ms: u64,
    /// What the estimate is based on.
    pub basis: Basis,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = self.expected_ms.div_ceil(100);
        let basis = match self.basis {
            Basis::Measured => "as before",
            Basis::OtherKernel => "as on another kernel",
            Basis::Guessed => "a guess: it never ran",
        };
        let name = &self.scenario;
        write!(f, "{name} ({}.{} s, {basis})", tenths / 10, tenths % 10)
    }
}

/// The result of comparing two kernels.
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
    /// What decides before any scenario is run: the images are the same, or the patched kernel
    /// does not build.
    pub overall: Option<Overall>,
    /// The scenarios.
    pub scenarios: Vec<Compared>,
    /// The seeds that each scenario was run with.
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
    /// Scenarios that were skipped because of a budget.
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
    /// What the patch does to every scenario.
    pub word: Change,
    /// Why.
    pub because: String,
}

/// One scenario on two kernels.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Compared {
    /// `suite/scenario`.
    pub scenario: String,
    /// What the patch does to it.
    pub word: Change,
    /// Why it was not run, or why it is unclear, if there is more to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// The base's runs, one for each seed.
    pub base: Vec<RunReport>,
    /// The patched kernel's runs, one for each seed.
    pub patched: Vec<RunReport>,
    /// How the faults of the two kernels differ.
    pub faults: Difference,
}

impl RunReport {
    /// The part that a comparison needs.
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
