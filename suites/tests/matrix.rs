//! Every scenario on every kernel of the matrix, against what the kernel is expected to do.

use std::sync::Arc;

use libtest_mimic::Trial;
use miette::miette;
use numalab::guest::mode::AcceleratorChoice;
use numalab::report::{RunReport, text};
use numalab::run::cached_run::CachePolicy;
use numalab::run::{RunRequest, Runner};
use numalab::scenario::Scenario;
use numalab::ui::Ui;
use numalab::verdict::Verdict;
use numalab::workspace::{Limits, Workspace};
use numalab_kernels::KernelSpec;
use numalab_kernels::spec::ExpectedVerdict;
use tokio_util::sync::CancellationToken;

use crate::{Bench, applies};
use numalab::testing::{block_on, name};

pub(crate) fn trials(bench: &Arc<Bench>) -> miette::Result<Vec<Trial>> {
    let kernels = bench
        .workspace
        .catalog
        .matrix()
        .map_err(numalab::error::report)?;
    for kernel in &kernels {
        known(kernel, &bench.scenarios)?;
        if kernel.release().is_none() {
            return Err(miette!(
                "kernel {}: which scenarios apply to it cannot be told before it is built",
                kernel.name
            ));
        }
    }
    let mut trials = Vec::new();
    for (index, scenario) in bench.scenarios.iter().enumerate() {
        for kernel in kernels.iter().filter(|kernel| applies(scenario, kernel)) {
            for live in [false, true] {
                let variant = if live {
                    format!("{}::live", kernel.name)
                } else {
                    kernel.name.clone()
                };
                let (bench, kernel) = (Arc::clone(bench), kernel.clone());
                trials.push(Trial::test(name(scenario, &variant), move || {
                    block_on(|cancel| async move {
                        let scenario = &bench.scenarios[index];
                        let reports =
                            run(&bench.workspace, scenario, &kernel, live, &cancel).await?;
                        as_expected(&reports, expected(&kernel, scenario))
                    })
                }));
            }
        }
    }
    Ok(trials)
}

/// An expectation about a scenario that does not exist, or does not apply, would never be
/// looked at.
fn known(kernel: &KernelSpec, scenarios: &[Scenario]) -> miette::Result<()> {
    let unknown = kernel
        .expected
        .keys()
        .find(|name| !scenarios.iter().any(|known| known.name == **name));
    let excluded = scenarios
        .iter()
        .filter(|scenario| kernel.expected.contains_key(&scenario.name))
        .find(|scenario| !applies(scenario, kernel));
    match (unknown, excluded) {
        (Some(name), _) => Err(miette!(
            "kernel {} expects something of {name}: no such scenario",
            kernel.name
        )),
        (None, Some(scenario)) => Err(miette!(
            "kernel {} expects something of {}, which does not apply to it",
            kernel.name,
            scenario.name
        )),
        (None, None) => Ok(()),
    }
}

fn expected(kernel: &KernelSpec, scenario: &Scenario) -> Verdict {
    match kernel.expects(&scenario.name) {
        ExpectedVerdict::Pass => Verdict::Pass,
        ExpectedVerdict::Fail => Verdict::Fail,
        ExpectedVerdict::Inconclusive => Verdict::Inconclusive,
    }
}

/// Exact mode: one seed says it. Live mode: three runs must agree.
async fn run(
    workspace: &Workspace,
    scenario: &Scenario,
    kernel: &KernelSpec,
    live: bool,
    cancel: &CancellationToken,
) -> miette::Result<Vec<RunReport>> {
    let ui = Ui::new(false);
    let checked = Runner::check(workspace, live, AcceleratorChoice::Auto)?;
    let checked = checked.caching(CachePolicy::of_test(&workspace.environment));
    let kernel = workspace.kernel(kernel, Limits::default(), &ui, cancel)?;
    let runner = checked.ready(&kernel.id, &ui, cancel).await?;
    let mut reports = Vec::new();
    for seed in 1..=if live { 3 } else { 1 } {
        let request = RunRequest::new(scenario, &kernel.id, seed, None, &[])?;
        reports.push(runner.run(&request, &ui, cancel).await?);
    }
    Ok(reports)
}

fn as_expected(reports: &[RunReport], expected: Verdict) -> miette::Result<()> {
    for report in reports {
        let verdict = report.judgement.verdict;
        if verdict != expected {
            return Err(miette!(
                "{verdict}, and {expected} is expected\n{}",
                text::details(report)
            ));
        }
        println!("{verdict}, as expected: {}", report.folder);
    }
    Ok(())
}
