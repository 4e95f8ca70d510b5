//! What a check gave: `report.json` of its folder.

use numalab_kernels::CompilerWarning;
use numalab_kernels::patch::Touched;
use serde::{Deserialize, Serialize};

use super::selection::Selected;
use crate::jobs::coverage::Coverage;
use crate::jobs::divergence::Divergence;
use crate::report::{Compared, ComparisonReport, KernelId, RunReport};
use crate::verdict::compare::{Change, Difference};

/// What checking a series gave.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CheckReport {
    /// [`crate::report::SCHEMA`].
    pub schema: u32,
    /// numalab's version.
    pub numalab: String,
    /// The series.
    pub series: SeriesId,
    /// What its patches touch.
    pub touched: Touched,
    /// Why each scenario was selected; empty if all are run.
    pub selected: Vec<Selected>,
    /// The base against the whole series.
    pub whole: ComparisonReport,
    /// Where nothing changes: why, for each file that is touched.
    pub unchanged: Vec<Unchanged>,
    /// Each patch on top of those before; empty unless asked for.
    pub each: Vec<Step>,
    /// Which changed lines ran, if that was asked for and can be told.
    pub coverage: Option<Coverage>,
    /// Why it cannot be told, if it was asked for.
    pub uncovered: Option<String>,
    /// The first trace event in which the kernels differ, by scenario; empty unless asked for.
    pub divergences: Vec<Divergence>,
    /// Compiler warnings in touched files that only the patched kernel's build prints; absent
    /// if they are not known.
    pub new_warnings: Option<Vec<CompilerWarning>>,
    /// The second pass, if asked for.
    pub debug: Option<DebugPass>,
    /// The word for all of it.
    pub verdict: Change,
    /// What is said of it, a sentence each.
    pub conclusions: Vec<String>,
    /// The command that repeats it.
    pub repeat: String,
    /// The exit code.
    pub exit_code: u8,
    /// Why the exit code is another one than that of the verdict, if so.
    pub exit_reason: Option<String>,
}

/// Which series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesId {
    /// A short name.
    pub name: String,
    /// What it is about, if it says so.
    pub title: Option<String>,
    /// Whether it was taken back instead of applied.
    pub reverted: bool,
    /// Its patches, in the order in which they go in.
    pub patches: Vec<PatchId>,
    /// What there is to know of it.
    pub notes: Vec<String>,
}

/// Which patch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchId {
    /// Its place in the series, from 1.
    pub number: usize,
    /// Of how many.
    pub of: usize,
    /// Its subject, or its file's name.
    pub subject: String,
    /// Its file's name.
    pub file: String,
    /// SHA-256 of its text.
    pub digest: String,
}

/// A file that is touched, in a kernel that stays the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unchanged {
    /// The file.
    pub file: String,
    /// Why its change changes nothing, as far as it can be told.
    pub because: String,
}

/// One patch of a series, on top of those before it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Step {
    /// Which.
    pub patch: PatchId,
    /// What came of it.
    pub state: StepState,
    /// Patches before it that are left out, because the kernel does not build with them.
    pub without: Vec<usize>,
    /// The word for the patch.
    pub word: Change,
    /// The scenarios, compared with the kernel without this patch.
    pub scenarios: Vec<Compared>,
}

/// What came of a patch.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepState {
    /// It builds.
    Built(Box<KernelId>),
    /// The compiler refuses it; its words.
    NotBuilt(String),
    /// Without the patches that are left out it cannot be applied; why.
    NotApplied(String),
}

/// The same scenarios on kernels that check themselves.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DebugPass {
    /// The base, built for debugging.
    pub base: KernelId,
    /// The patched kernel; absent if it does not build.
    pub patched: Option<KernelId>,
    /// Why it does not build.
    pub not_built: Option<String>,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// The scenarios.
    pub scenarios: Vec<Cleanliness>,
}

/// Whether the patched kernel is as clean as the base in one scenario. Counters decide
/// nothing here.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cleanliness {
    /// `suite/scenario`.
    pub scenario: String,
    /// `holds` if nothing is new, `broken`, or `unclear`.
    pub word: Change,
    /// In what the consoles differ.
    pub faults: Difference,
    /// The base's runs.
    pub base: Vec<RunReport>,
    /// The patched kernel's runs.
    pub patched: Vec<RunReport>,
}

impl DebugPass {
    /// The words of its scenarios.
    pub(super) fn words(&self) -> Vec<Change> {
        match &self.not_built {
            Some(_) => vec![Change::Broken],
            None => self.scenarios.iter().map(|one| one.word).collect(),
        }
    }
}
