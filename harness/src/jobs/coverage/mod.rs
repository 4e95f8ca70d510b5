//! Patch coverage: which of the lines that a patch changes the guests have run.
//!
//! The patched kernel is built once more, with gcov on the files that are touched, and each
//! scenario is run on that once. Its code is another than that of the kernel that is judged,
//! so its counters are used for nothing else.

mod lines;
pub mod text;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use numalab_kernels::KernelSpec;
use numalab_kernels::profile::{Counted, Counts, GcovError, Profiled};
use numalab_protocol::Record;
use numalab_protocol::coverage::{self, CoverageError};
use numalab_protocol::plan::Watch;
use numalab_protocol::record::Phase;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::blocking;
use crate::error::Error;
use crate::error_chain::sentence;
use crate::report::RunReport;
use crate::run::pool;
use crate::run::{RunRequest, Runner};
use crate::scenario::Scenario;
use crate::ui::Ui;
use crate::verdict::Verdict;
use crate::workspace::{Limits, Workspace};
pub use lines::{ChangedLine, Exercise, FileCoverage};

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct CoverageRequest<'a> {
    /// The kernel without the patch.
    pub base: &'a KernelSpec,
    /// The kernel with it.
    pub patched: &'a KernelSpec,
    /// The scenarios.
    pub scenarios: &'a [Scenario],
    /// The seed of their runs.
    pub seed: u64,
    /// Another shift than the scenarios' own.
    pub shift: Option<u8>,
    /// Kernel parameters added to the scenarios' own.
    pub append: &'a [String],
    /// Guests, and compiler processes, at a time.
    pub jobs: Option<usize>,
}

/// Which changed lines have run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// The name of the kernel that counted.
    pub kernel: String,
    /// The files that the patch touches.
    pub files: Vec<FileCoverage>,
    /// What each scenario exercised.
    pub scenarios: Vec<ScenarioCoverage>,
}

/// What a scenario exercised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScenarioCoverage {
    /// `suite/scenario`.
    pub scenario: String,
    /// Whether it ran any changed line.
    pub exercise: Exercise,
    /// Why nothing is known, if so.
    pub because: Option<String>,
    /// The run's folder.
    pub folder: camino::Utf8PathBuf,
}

/// Why there is no coverage at all; no error of the patch's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Absent {
    /// The two kernels are not one source with more patches.
    NoPatch,
    /// Nothing that is compiled into the kernel can be counted.
    NothingCounted,
}

/// Why one scenario's coverage is not known.
#[derive(Debug, thiserror::Error)]
enum Unknown {
    #[error("the run on the kernel with gcov was not complete: {0}")]
    Run(String),
    #[error(transparent)]
    Records(#[from] CoverageError),
    #[error(transparent)]
    Gcov(#[from] GcovError),
}

/// Builds the kernel that counts, runs the scenarios on it, and tells what they exercised.
///
/// # Errors
/// The kernel cannot be built, a run folder cannot be written, or a signal came.
pub async fn measure(
    workspace: &Workspace,
    runner: &Runner,
    subject: &CoverageRequest<'_>,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<Result<Coverage, Absent>, Error> {
    let limits = Limits { jobs: subject.jobs };
    let CoverageRequest { base, patched, .. } = *subject;
    let profiled = workspace.build(limits, cancel, |options, flag| {
        numalab_kernels::get_or_build_profiled(&workspace.cache, base, patched, options, ui, flag)
    })?;
    let Some(profiled) = profiled else {
        return Ok(Err(Absent::NoPatch));
    };
    if profiled.profile.objects.is_empty() {
        return Ok(Err(Absent::NothingCounted));
    }
    let kernel = workspace.bootable(profiled.kernel.clone(), patched)?;
    let mut requests = Vec::new();
    for scenario in subject.scenarios {
        let CoverageRequest {
            seed,
            shift,
            append,
            ..
        } = *subject;
        let request = RunRequest::new(scenario, &kernel.id, seed, shift, append)?;
        requests.push(request.watching(Watch {
            coverage: true,
            ..Watch::default()
        }));
    }
    let reports = pool::run(runner, &requests, subject.jobs, ui, cancel).await?;
    let coverage = blocking::run(cancel, |flag| {
        gather(&kernel.id.name, &profiled, &reports, flag)
    });
    if cancel.is_cancelled() {
        return Err(Error::Interrupted);
    }
    Ok(Ok(coverage))
}

fn gather(kernel: &str, profiled: &Profiled, reports: &[RunReport], flag: &AtomicBool) -> Coverage {
    let mut files: Vec<FileCoverage> = profiled
        .profile
        .files
        .iter()
        .map(FileCoverage::new)
        .collect();
    let mut scenarios = Vec::new();
    for report in reports {
        let scenario = &report.inputs.scenario;
        let counted = counted(profiled, report, flag);
        let (exercise, because) = match &counted {
            Err(unknown) => (Exercise::Unknown, Some(sentence(unknown))),
            Ok((boot, steps)) => {
                for file in &mut files {
                    file.add(scenario, boot, steps);
                }
                lines::exercise(&files, scenario)
            }
        };
        scenarios.push(ScenarioCoverage {
            scenario: scenario.clone(),
            exercise,
            because,
            folder: report.folder.clone(),
        });
    }
    Coverage {
        kernel: kernel.to_owned(),
        files,
        scenarios,
    }
}

/// What a run has counted before its first step, and during its steps.
fn counted(
    profiled: &Profiled,
    report: &RunReport,
    flag: &AtomicBool,
) -> Result<(Counts, Counts), Unknown> {
    if report.judgement.verdict == Verdict::Inconclusive {
        let reasons = report.judgement.reasons.join("; ");
        return Err(Unknown::Run(format!("{reasons} ({})", report.folder)));
    }
    let records =
        crate::run::records(&report.folder).map_err(|error| Unknown::Run(sentence(&error)))?;
    let phase = |phase| phase_counts(profiled, &records, phase, flag);
    Ok((phase(Phase::Boot)?, phase(Phase::Steps)?))
}

fn phase_counts(
    profiled: &Profiled,
    records: &[Record],
    phase: Phase,
    flag: &AtomicBool,
) -> Result<Counts, Unknown> {
    let mut all = Counts::new();
    for (file, bytes) in coverage::files(records, phase)? {
        let objects = profiled.profile.objects.iter();
        let object = objects
            .filter(|object| file.ends_with(&format!("/{object}.gcda")))
            .max_by_key(|object| object.len());
        // What else counts is none of the patch's.
        let Some(object) = object else { continue };
        for (file, lines) in profiled.counts(object, &bytes, flag)? {
            let known: &mut BTreeMap<u32, u64> = all.entry(file).or_default();
            for (line, count) in lines {
                let sum = known.entry(line).or_default();
                *sum = sum.saturating_add(count);
            }
        }
    }
    Ok(all)
}

impl Coverage {
    /// How many changed lines ran in some scenario, and how many have code.
    pub fn lines(&self) -> (usize, usize) {
        let changes = self.files.iter().flat_map(|file| &file.changes);
        let counts: Vec<u64> = changes
            .filter(|change| change.text.is_some())
            .filter_map(|change| change.steps.values().copied().flatten().max())
            .collect();
        let ran = counts.iter().filter(|count| **count > 0).count();
        (ran, counts.len())
    }

    /// Whether a scenario ran any changed line; unknown for one that was not run.
    pub fn exercise(&self, scenario: &str) -> Exercise {
        self.scenarios
            .iter()
            .find(|known| known.scenario == scenario)
            .map_or(Exercise::Unknown, |known| known.exercise)
    }
}

impl std::fmt::Display for Absent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Absent::NoPatch => {
                "which lines ran is not known: the patched kernel is not the base's source with \
                 patches on top"
            }
            Absent::NothingCounted => {
                "which lines ran is not known: nothing that is touched is C code that gcov can \
                 count in this configuration"
            }
        })
    }
}

/// What is said of lines that are not counted wherever they are compiled.
fn limits(counted: Counted) -> Option<String> {
    match counted {
        Counted::Everywhere => None,
        Counted::InPart { not_in } => Some(format!(
            "not counted in {not_in} of the objects that include it"
        )),
        Counted::Excluded => Some("the kernel's Makefile excludes it from gcov".into()),
        Counted::NotCompiled => Some("no C code of this configuration includes it".into()),
    }
}
