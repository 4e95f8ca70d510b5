//! Nothing passes vacuously: no behaviour passes where there is no NUMA balancing.

use std::sync::Arc;

use libtest_mimic::Trial;
use miette::miette;
use numalab::guest::mode::AcceleratorChoice;
use numalab::guest::topology::{Machine, Node};
use numalab::report::text;
use numalab::run::{RunRequest, Runner};
use numalab::scenario::Scenario;
use numalab::ui::Ui;
use numalab::verdict::Verdict;
use numalab::workspace::{Limits, Workspace};
use tokio_util::sync::CancellationToken;

use crate::{Bench, applies};
use numalab::testing::{block_on, name};

/// The kernel on which every shipped behaviour is there.
const KERNEL: &str = "cpuset-skip";

/// A kernel without `CONFIG_NUMA_BALANCING`.
const WITHOUT: &str = "no-numa-balancing";

#[derive(Debug, Clone, Copy)]
enum Where {
    /// Switched off on the kernel's command line.
    Disabled,
    /// On a machine with all CPUs and memory on one node.
    OneNode,
    /// On a kernel built without it.
    NotBuilt,
}

pub(crate) fn trials(bench: &Arc<Bench>) -> miette::Result<Vec<Trial>> {
    let mut trials = Vec::new();
    let variants = [
        ("balancing-disabled", Where::Disabled),
        ("one-node", Where::OneNode),
        (WITHOUT, Where::NotBuilt),
    ];
    let kernel = bench.workspace.wanted(KERNEL)?;
    for (index, scenario) in bench.scenarios.iter().enumerate() {
        // The smoke suite is about the guest; its facts hold with or without balancing.
        if !scenario.is_about_behaviour()
            || scenario.name.starts_with("smoke/")
            || !applies(scenario, &kernel)
        {
            continue;
        }
        for (variant, place) in variants {
            let bench = Arc::clone(bench);
            trials.push(Trial::test(name(scenario, variant), move || {
                block_on(|cancel| async move {
                    does_not_pass(&bench.workspace, &bench.scenarios[index], place, &cancel).await
                })
            }));
        }
    }
    Ok(trials)
}

async fn does_not_pass(
    workspace: &Workspace,
    scenario: &Scenario,
    place: Where,
    cancel: &CancellationToken,
) -> miette::Result<()> {
    let ui = Ui::new(false);
    let kernel = if matches!(place, Where::NotBuilt) {
        WITHOUT
    } else {
        KERNEL
    };
    let checked = Runner::check(workspace, false, AcceleratorChoice::Auto)?;
    let kernel = workspace.kernel(&workspace.wanted(kernel)?, Limits::default(), &ui, cancel)?;
    let runner = checked.ready(&kernel.id, &ui, cancel).await?;
    let append = match place {
        Where::Disabled => vec!["numa_balancing=disable".to_owned()],
        _ => vec![],
    };
    let mut request = RunRequest::new(scenario, &kernel.id, 1, None, &append)?;
    if matches!(place, Where::OneNode) {
        let own = &scenario.machine;
        let node = Node {
            cpus: own.cpus(),
            memory_mib: own.memory_mib(),
        };
        request = request.on_machine(
            Machine::new(vec![node], None, own.parameters().to_vec())
                .map_err(numalab::error::report)?,
        );
    }
    let report = runner.run(&request, &ui, cancel).await?;
    let judgement = &report.judgement;
    // It must have booted, and name the guard that did not hold: a guest that does not even
    // come up would prove nothing about the scenario.
    let named = judgement
        .reasons
        .iter()
        .any(|reason| reason.starts_with("guard: "));
    let says_so = match judgement.verdict {
        Verdict::Pass | Verdict::Measured => false,
        Verdict::Fail => true,
        Verdict::Inconclusive => named,
    };
    if report.release.is_none() || !says_so {
        return Err(miette!(
            "{}, without NUMA balancing\n{}",
            judgement.verdict,
            text::details(&report)
        ));
    }
    println!("{}: {}", judgement.verdict, judgement.reasons.join("; "));
    Ok(())
}
