//! What a check tells besides verdicts: which changed lines ran, and where the kernels part.
//!
//! None of it can fail a check; but what holds while no changed line ran is no proof.

use numalab_kernels::Wanted;
use tokio_util::sync::CancellationToken;

use super::{Request, Workshop};
use crate::compare::Word;
use crate::coverage::{self, Coverage, Exercise};
use crate::divergence::{self, Divergence};
use crate::lab::LabError;
use crate::report::text::sentence;
use crate::report::{Compared, KernelId};
use crate::run::Stand;
use crate::scenario::Scenario;

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
    pub(super) wanted: &'a Wanted,
}

/// Runs the scenarios that were compared once more, on the kernel with gcov and with trace
/// events, as far as it is asked for.
///
/// # Errors
/// A signal came. Whatever else is in the way is told in place of the coverage.
pub(super) async fn gather(
    workshop: &Workshop<'_>,
    stand: &Stand,
    request: &Request<'_>,
    kernels: Kernels<'_>,
    compared: &[Compared],
    cancel: &CancellationToken,
) -> Result<Evidence, LabError> {
    let ran = |scenario: &&Scenario| {
        compared
            .iter()
            .any(|one| one.scenario == scenario.name && one.word != Word::DoesNotApply)
    };
    let all = request.runs.scenarios.iter();
    let scenarios: Vec<Scenario> = all.filter(ran).cloned().collect();
    let mut evidence = Evidence::default();
    let Some(&seed) = request.runs.seeds.first().filter(|_| !scenarios.is_empty()) else {
        return Ok(evidence);
    };
    let runs = &request.runs;
    if request.coverage {
        let subject = coverage::Subject {
            base: request.base,
            patched: kernels.wanted,
            scenarios: &scenarios,
            seed,
            shift: runs.shift,
            append: runs.append,
            jobs: runs.jobs,
        };
        let measured = coverage::measure(workshop.lab, stand, &subject, workshop.ui, cancel).await;
        match measured {
            Ok(Ok(coverage)) => evidence.coverage = Some(coverage),
            Ok(Err(absent)) => evidence.uncovered = Some(absent.to_string()),
            Err(LabError::Interrupted) => return Err(LabError::Interrupted),
            Err(error) => {
                let why = sentence(&error);
                evidence.uncovered = Some(format!("which lines ran is not known: {why}"));
            }
        }
    }
    if request.trace {
        let subject = divergence::Subject {
            base: kernels.base,
            patched: kernels.patched,
            scenarios: &scenarios,
            seed,
            shift: runs.shift,
            append: runs.append,
            jobs: runs.jobs,
        };
        evidence.divergences = divergence::find(stand, &subject, workshop.ui, cancel).await?;
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
            if one.word == Word::Holds && exercise == Exercise::NotExercised {
                one.word = Word::NotExercised;
            }
        }
    }
}
