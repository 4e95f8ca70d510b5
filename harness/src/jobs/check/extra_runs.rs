//! Extra runs that decide no verdict: which changed lines run, and where the kernels diverge.

use numalab_kernels::KernelSpec;

use super::builder::Builder;
use super::options::CheckOptions;
use crate::error::Error;
use crate::error_chain::sentence;
use crate::jobs::comparison::TestMatrix;
use crate::jobs::coverage::{self, Coverage, Executed};
use crate::jobs::divergence::{self, Divergence};
use crate::report::{Compared, KernelId, RunReport};
use crate::run::Runner;
use crate::scenario::{Observable, Scenario};
use crate::verdict::AssertionResult;
use crate::verdict::compare::Change;

#[derive(Debug, Default)]
pub(super) struct ExtraRuns {
    pub(super) coverage: Option<Coverage>,
    /// Why there is no coverage, where it was asked for.
    pub(super) uncovered: Option<String>,
    pub(super) divergences: Vec<Divergence>,
}

/// Runs the scenarios that were compared once more: with gcov, and with trace events, as far
/// as that is asked for.
///
/// # Errors
/// A signal came, or trace events were asked for and cannot be recorded. Any other error of
/// the coverage is kept in its place.
pub(super) async fn gather(
    builder: &Builder<'_>,
    runner: &Runner,
    options: &CheckOptions<'_>,
    patched: &KernelSpec,
    [base_id, patched_id]: [&KernelId; 2],
    compared: &[Compared],
) -> Result<ExtraRuns, Error> {
    let ran = |scenario: &&Scenario| {
        compared
            .iter()
            .any(|one| one.scenario == scenario.name && one.word != Change::DoesNotApply)
    };
    let all = options.matrix.scenarios.iter();
    let scenarios: Vec<Scenario> = all.filter(ran).cloned().collect();
    let mut extra = ExtraRuns::default();
    if scenarios.is_empty() {
        return Ok(extra);
    }
    let matrix = TestMatrix {
        scenarios: &scenarios,
        seeds: &options.matrix.seeds[..options.matrix.seeds.len().min(1)],
        budget: None,
        ..options.matrix
    };
    let (ui, cancel) = (builder.ui, builder.cancel);
    if options.coverage {
        let (workspace, base) = (builder.workspace, options.base);
        match coverage::measure(workspace, runner, base, patched, &matrix, ui, cancel).await {
            Ok(coverage) => extra.coverage = Some(coverage),
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => {
                let why = sentence(&error);
                let uncovered = format!("it is not known which changed lines ran: {why}");
                extra.uncovered = Some(uncovered);
            }
        }
    }
    if options.trace {
        let kernels = [base_id, patched_id];
        extra.divergences = divergence::find(runner, kernels, &matrix, ui, cancel).await?;
    }
    Ok(extra)
}

impl ExtraRuns {
    /// Marks what holds in scenarios that run no changed line as not exercised.
    pub(super) fn mark(&mut self, compared: &mut [Compared]) {
        let Some(coverage) = &mut self.coverage else {
            return;
        };
        let runs_at_boot = coverage.runs_at_boot();
        for known in &mut coverage.scenarios {
            let mut compared = compared.iter_mut();
            let one = compared.find(|one| one.scenario == known.scenario);
            let Some(one) = one.filter(|_| known.executed == Executed::No) else {
                continue;
            };
            if let Some(effect) = effect(one) {
                // A result that changes has a cause, though no line count shows it.
                known.executed = Executed::Unknown;
                known.because = Some(format!("no count shows it, but {effect}"));
            } else if states_facts(one) {
                // What the guest finds at its start is decided while it boots.
                if runs_at_boot {
                    known.executed = Executed::Yes;
                }
            } else if one.word == Change::Holds {
                one.word = Change::NotExercised;
            }
        }
    }

    /// Whether it is known that no scenario ran a changed line.
    pub(super) fn is_unexercised(&self) -> bool {
        self.coverage.as_ref().is_some_and(|coverage| {
            let mut scenarios = coverage.scenarios.iter();
            scenarios.all(|known| known.executed == Executed::No)
        })
    }
}

/// What shows that the patch has an effect in a scenario, whatever the counts say.
fn effect(compared: &Compared) -> Option<String> {
    if matches!(compared.word, Change::Broken | Change::Fixed) {
        return Some(format!("the scenario is {}", compared.word));
    }
    let differs = |index: usize| {
        let value = |run: &RunReport| watched(run).nth(index)?.value.as_ref().ok().copied();
        let mut pairs = compared.base.iter().zip(&compared.patched);
        pairs.all(|(base, patched)| match (value(base), value(patched)) {
            (Some(base), Some(patched)) => base != patched,
            _ => false,
        })
    };
    let mut all = watched(compared.base.first()?).enumerate();
    let (_, differing) = all.find(|(index, _)| differs(*index))?;
    let subject = &differing.assertion.observable;
    Some(format!("{subject} differs on all seeds"))
}

/// The values that a scenario watches.
fn watched(run: &RunReport) -> impl Iterator<Item = &AssertionResult> {
    let judgement = &run.judgement;
    judgement.guards.iter().chain(&judgement.expectations)
}

/// Whether a scenario only states what the guest finds at its start, and so measures nothing
/// that a patch could change.
fn states_facts(compared: &Compared) -> bool {
    let mut runs = compared.base.iter();
    runs.any(|run| {
        let mut expectations = run.judgement.expectations.iter();
        expectations.all(|one| {
            matches!(
                one.assertion.observable,
                Observable::Fact { .. } | Observable::ExitStatus { .. }
            )
        })
    })
}
