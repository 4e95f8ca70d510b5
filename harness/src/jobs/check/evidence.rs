//! What a check tells besides verdicts: which changed lines ran, and where the kernels part.
//!
//! None of it can fail a check; but what holds while no changed line ran is no proof.

use numalab_kernels::KernelSpec;
use tokio_util::sync::CancellationToken;

use super::{CheckRequest, Workshop};
use crate::error::Error;
use crate::error_chain::sentence;
use crate::jobs::coverage::{self, Coverage, Exercise};
use crate::jobs::divergence::{self, Divergence};
use crate::report::{Compared, KernelId};
use crate::run::Runner;
use crate::scenario::Scenario;
use crate::verdict::compare::Change;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    pub(super) coverage: Option<Coverage>,
    /// Why there is no coverage, where it was asked for.
    pub(super) uncovered: Option<String>,
    pub(super) divergences: Vec<Divergence>,
}

/// Both kernels, as they were asked for and as they came out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kernels<'a> {
    pub(super) base: &'a KernelId,
    pub(super) patched: &'a KernelId,
    /// How the patched kernel was asked for.
    pub(super) wanted: &'a KernelSpec,
}

/// Runs the scenarios that were compared once more, on the kernel with gcov and with trace
/// events, as far as it is asked for.
///
/// # Errors
/// A signal came. Whatever else is in the way is told in place of the coverage.
pub(super) async fn gather(
    workshop: &Workshop<'_>,
    runner: &Runner,
    request: &CheckRequest<'_>,
    kernels: Kernels<'_>,
    compared: &[Compared],
    cancel: &CancellationToken,
) -> Result<Evidence, Error> {
    let ran = |scenario: &&Scenario| {
        compared
            .iter()
            .any(|one| one.scenario == scenario.name && one.word != Change::DoesNotApply)
    };
    let all = request.runs.scenarios.iter();
    let scenarios: Vec<Scenario> = all.filter(ran).cloned().collect();
    let mut evidence = Evidence::default();
    let Some(&seed) = request.runs.seeds.first().filter(|_| !scenarios.is_empty()) else {
        return Ok(evidence);
    };
    let runs = &request.runs;
    if request.coverage {
        let subject = coverage::CoverageRequest {
            base: request.base,
            patched: kernels.wanted,
            scenarios: &scenarios,
            seed,
            shift: runs.shift,
            append: runs.append,
            jobs: runs.jobs,
        };
        let measured =
            coverage::measure(workshop.workspace, runner, &subject, workshop.ui, cancel).await;
        match measured {
            Ok(Ok(coverage)) => evidence.coverage = Some(coverage),
            Ok(Err(absent)) => evidence.uncovered = Some(absent.to_string()),
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => {
                let why = sentence(&error);
                evidence.uncovered = Some(format!("which lines ran is not known: {why}"));
            }
        }
    }
    if request.trace {
        let subject = divergence::DivergenceRequest {
            base: kernels.base,
            patched: kernels.patched,
            scenarios: &scenarios,
            seed,
            shift: runs.shift,
            append: runs.append,
            jobs: runs.jobs,
        };
        evidence.divergences = divergence::find(runner, &subject, workshop.ui, cancel).await?;
    }
    Ok(evidence)
}

impl Evidence {
    /// What holds while no changed line ran is not exercised.
    pub(super) fn mark(&self, compared: &mut [Compared]) {
        let Some(coverage) = &self.coverage else {
            return;
        };
        for one in compared {
            let exercise = coverage.exercise(&one.scenario);
            if one.word == Change::Holds && exercise == Exercise::NotExercised {
                one.word = Change::NotExercised;
            }
        }
    }
}
