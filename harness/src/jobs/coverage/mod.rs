//! Patch coverage: how often the lines that a patch changes run in each scenario.
//!
//! The patched kernel is built once more, with gcov in the files that the patch touches, and
//! runs each scenario once. Scenarios that run none of the added lines there also run on the
//! base, built the same way, which counts the removed lines. A kernel with gcov is different
//! code from the kernel that is judged, so its NUMA counters are not used.

mod lines;
pub mod text;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use camino::Utf8PathBuf;
use numalab_kernels::KernelSpec;
use numalab_kernels::profile::{Counts, GcovError, Profiled, Side};
use numalab_protocol::Record;
use numalab_protocol::coverage::{self, CoverageError};
use numalab_protocol::plan::Watch;
use numalab_protocol::record::Phase;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::blocking;
use crate::error::Error;
use crate::error_chain::sentence;
use crate::jobs::comparison::TestMatrix;
use crate::report::RunReport;
use crate::run::pool;
use crate::run::{RunRequest, Runner};
use crate::scenario::Scenario;
use crate::ui::Ui;
use crate::verdict::Verdict;
use crate::workspace::{Limits, Workspace};
pub use lines::{Executed, FileCoverage, LineCounts};

/// How often the changed lines ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// The files that the patch touches.
    pub files: Vec<FileCoverage>,
    /// Which scenarios ran a changed line.
    pub scenarios: Vec<ScenarioCoverage>,
}

/// Whether a scenario ran a changed line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScenarioCoverage {
    /// `suite/scenario`.
    pub scenario: String,
    /// Whether it ran any.
    pub executed: Executed,
    /// Why this is unknown, if so.
    pub because: Option<String>,
    /// The folders of its runs.
    pub folders: Vec<Utf8PathBuf>,
}

/// Why one run gave no counts.
#[derive(Debug, thiserror::Error)]
enum CountError {
    #[error("the run on the kernel with gcov was not complete: {0}")]
    Run(String),
    #[error(transparent)]
    Records(#[from] CoverageError),
    #[error(transparent)]
    Gcov(#[from] GcovError),
}

/// Runs the scenarios of a matrix with its first seed, and counts the changed lines.
///
/// # Errors
/// A kernel cannot be built with gcov or counts nothing, a run folder cannot be written, or a
/// signal came.
pub async fn measure(
    workspace: &Workspace,
    runner: &Runner,
    base: &KernelSpec,
    patched: &KernelSpec,
    matrix: &TestMatrix<'_>,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<Coverage, Error> {
    let mut scenarios = matrix.scenarios.to_vec();
    let unknown = |scenario: &Scenario| ScenarioCoverage {
        scenario: scenario.name.clone(),
        executed: Executed::Unknown,
        because: None,
        folders: Vec::new(),
    };
    let mut coverage = Coverage {
        files: Vec::new(),
        scenarios: scenarios.iter().map(unknown).collect(),
    };
    let (mut counts_anything, mut failed) = (false, BTreeMap::new());
    for (side, spec) in [(Side::Patched, patched), (Side::Base, base)] {
        let limits = Limits { jobs: matrix.jobs };
        let profiled = workspace.build(limits, cancel, |options, flag| {
            let cache = &workspace.cache;
            numalab_kernels::get_or_build_profiled(cache, [base, patched], side, options, ui, flag)
        })?;
        let profiled = profiled.ok_or(Error::NoCoverage {
            why: "the patched kernel is not the base's source with patches on top",
        })?;
        let files = &profiled.profile.files;
        let removes = files.iter().any(|file| !file.removed.is_empty());
        coverage.files.extend(
            files
                .iter()
                .filter(|file| !file.lines(side).is_empty())
                .map(|file| FileCoverage::new(file, side)),
        );
        let mut runs = Vec::new();
        if !profiled.profile.objects.is_empty() {
            counts_anything = true;
            let kernel = workspace.bootable(profiled.kernel.clone(), spec)?;
            let mut requests = Vec::new();
            for scenario in &scenarios {
                let seed = matrix.seeds.first().copied().unwrap_or(1);
                let (shift, append) = (matrix.shift, matrix.append);
                let request = RunRequest::new(scenario, &kernel.id, seed, shift, append)?;
                requests.push(request.watching(Watch {
                    coverage: true,
                    ..Watch::default()
                }));
            }
            let reports = pool::run(runner, &requests, matrix.jobs, ui, cancel).await?;
            runs = blocking::run(cancel, |flag| {
                let count = |report| {
                    let counts = counts(&profiled, &report, flag);
                    (report, counts.map_err(|error| sentence(&error)))
                };
                reports.into_iter().map(count).collect()
            });
            if cancel.is_cancelled() {
                return Err(Error::Interrupted);
            }
        }
        coverage.add(side, runs, &mut failed);
        scenarios.retain(|scenario| coverage.executed(&scenario.name) != Executed::Yes);
        if scenarios.is_empty() || !removes {
            break;
        }
    }
    if counts_anything {
        Ok(coverage)
    } else {
        Err(Error::NoCoverage {
            why: "gcov can count none of the changed files in this configuration",
        })
    }
}

/// A run with its counts before the first step and during the steps.
type CountedRun = (RunReport, Result<[Counts; 2], String>);

fn counts(
    profiled: &Profiled,
    report: &RunReport,
    flag: &AtomicBool,
) -> Result<[Counts; 2], CountError> {
    if report.judgement.verdict == Verdict::Inconclusive {
        let reasons = report.judgement.reasons.join("; ");
        return Err(CountError::Run(format!("{reasons} ({})", report.folder)));
    }
    let records =
        crate::run::records(&report.folder).map_err(|error| CountError::Run(sentence(&error)))?;
    let phase = |phase| phase_counts(profiled, &records, phase, flag);
    Ok([phase(Phase::Boot)?, phase(Phase::Steps)?])
}

fn phase_counts(
    profiled: &Profiled,
    records: &[Record],
    phase: Phase,
    flag: &AtomicBool,
) -> Result<Counts, CountError> {
    let mut all = Counts::new();
    for (file, bytes) in coverage::files(records, phase)? {
        let objects = profiled.profile.objects.iter();
        let object = objects
            .filter(|object| file.ends_with(&format!("/{object}.gcda")))
            .max_by_key(|object| object.len());
        // The patch is in none of the other objects.
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
    /// Adds the counts of runs on one kernel; `failed` holds why runs gave none.
    fn add(&mut self, side: Side, runs: Vec<CountedRun>, failed: &mut BTreeMap<String, String>) {
        for (report, counts) in runs {
            let scenario = report.inputs.scenario;
            let mut known = self.scenarios.iter_mut();
            if let Some(known) = known.find(|known| known.scenario == scenario) {
                known.folders.push(report.folder);
            }
            match counts {
                Err(why) => {
                    failed.insert(scenario, why);
                }
                Ok([boot, steps]) => {
                    for file in self.files.iter_mut().filter(|file| file.side == side) {
                        file.add(&scenario, &boot, &steps);
                    }
                }
            }
        }
        for known in &mut self.scenarios {
            let (executed, because) = lines::executed(&self.files, &known.scenario);
            (known.executed, known.because) = match failed.get(&known.scenario) {
                Some(why) if executed != Executed::Yes => (Executed::Unknown, Some(why.clone())),
                _ => (executed, because),
            };
        }
    }

    /// How many changed lines ran in some scenario, and how many have code.
    pub fn lines(&self) -> (usize, usize) {
        let lines = self.files.iter().flat_map(|file| &file.lines);
        let counts: Vec<u64> = lines
            .filter_map(|line| line.steps.values().copied().flatten().max())
            .collect();
        let ran = counts.iter().filter(|count| **count > 0).count();
        (ran, counts.len())
    }

    /// Whether a changed line ran before the first step of a scenario.
    pub fn runs_at_boot(&self) -> bool {
        let mut lines = self.files.iter().flat_map(|file| &file.lines);
        lines.any(|line| line.boot > Some(0))
    }

    /// Whether a scenario ran any changed line; unknown for one that was not run.
    pub fn executed(&self, scenario: &str) -> Executed {
        self.scenarios
            .iter()
            .find(|known| known.scenario == scenario)
            .map_or(Executed::Unknown, |known| known.executed)
    }
}
