//! `numalab run`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::context::{Context, seeds};
use super::exit::{BAD, Failure, GOOD, INCONCLUSIVE};
use super::options::{Budget, GuestOptions, KernelOptions};
use crate::error::Error;
use crate::jobs::budget;
use crate::report::{RunReport, RunsReport, SCHEMA, text};
use crate::run::RunRequest;
use crate::run::folder::RunFolder;
use crate::run::pool;
use crate::scenario::Scenario;
use crate::verdict::Verdict;
use crate::workspace::Workspace;

pub(super) const HELP: &str = "\
Exit codes: 0 every scenario passes, or is measured because it expects nothing, 1 a scenario fails with every seed, 2 wrong input, 3 \
inconclusive, 130 interrupted.

Example: numalab run vma/late-vma-scan --kernel linux-6.12+fix.patch --repeat 3";

#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    /// Scenarios: `suite/scenario`, a whole suite, or a .yaml file [default: all].
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// The kernel spec: a shipped name, a definition (.yaml), an image (vmlinux, bzImage), a
    /// distribution's package (.deb), a source folder, a commit (`git:PATH@REVISION`), a tarball
    /// or its `https://...#sha256=...`. `+PATCH` applies patches (a diff, mails, a folder, or
    /// revisions `A..B`), `+revert:PATCH` reverts them, `+CONFIG_X=y` sets an option.
    #[arg(long, short)]
    kernel: String,
    /// The first seed. Each seed gives another, equally repeatable run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of seeds to run each scenario with [default: 1, in live mode 3].
    #[arg(long)]
    repeat: Option<u64>,
    /// Print everything that was measured. Scenarios without `expect` always print it.
    #[arg(long)]
    counters: bool,
    #[command(flatten)]
    kernels: KernelOptions,
    #[command(flatten)]
    guests: GuestOptions,
    #[command(flatten)]
    budget: Budget,
}

pub(super) async fn run(args: &RunArgs, context: &Context) -> Result<u8, Failure> {
    let Context { ui, cancel, .. } = context;
    let RunArgs {
        kernels, guests, ..
    } = args;
    let workspace = Workspace::open()?;
    // All input is checked before anything long begins.
    let mut scenarios = workspace.project.scenarios(&args.scenarios)?;
    for doubt in scenarios.iter().flat_map(Scenario::doubts) {
        ui.warn(&doubt);
    }
    let mut spec = workspace.wanted(&args.kernel)?;
    kernels.configure(&workspace, [&mut spec])?;
    let repeat = args.repeat.unwrap_or(if guests.is_live() { 3 } else { 1 });
    let seeds = seeds(args.seed, repeat)?;
    let runner = guests.runner(&workspace, kernels.jobs)?;
    let kernel = workspace.kernel(&spec, kernels.limits(), ui, cancel)?;
    let runner = runner.ready(&kernel.id, ui, cancel).await?;

    let mut excluded = Vec::new();
    scenarios.retain(|scenario| {
        let reason = scenario.does_not_apply(&kernel.id.release);
        let applies = reason.is_none();
        excluded.extend(reason);
        applies
    });
    let runs = |scenario| -> Result<Vec<RunRequest<'_>>, Error> {
        let run = |seed| RunRequest::new(scenario, &kernel.id, seed, guests.shift, &guests.append);
        seeds.clone().map(run).collect()
    };
    let (mut chosen, mut left_out) = ((0..scenarios.len()).collect(), Vec::new());
    if let Some(seconds) = args.budget.seconds.filter(|_| !scenarios.is_empty()) {
        let budget = Duration::from_secs(seconds);
        let selection = budget::select(&runner, &scenarios, budget, runs)?;
        ui.say(&selection.describe(budget));
        (chosen, left_out) = (selection.scenarios, selection.left_out);
    }
    let mut requests = Vec::new();
    for index in chosen {
        requests.extend(runs(&scenarios[index])?);
    }
    let mut reports = pool::run(&runner, &requests, kernels.jobs, ui, cancel).await?;
    // Each run's own report has them, too.
    let shown = |run: &RunReport| args.counters || run.judgement.expectations.is_empty();
    for run in reports.iter_mut().filter(|run| !shown(run)) {
        run.values.clear();
    }
    let report = RunsReport {
        schema: SCHEMA,
        exit_code: exit_code(&reports),
        kernel: kernel.id.clone(),
        runs: reports,
        left_out,
        does_not_apply: excluded,
        time: runner.split(),
    };
    let mut text = format!(
        "{}{}{}{}",
        text::runs(&report.runs),
        text::counters(&report.runs),
        text::does_not_apply(&report.does_not_apply),
        text::left_out(&report.left_out)
    );
    // A single run has a report in its own folder.
    if report.runs.len() > 1 {
        let name = format!("run-{}", report.kernel.name);
        let folder = RunFolder::create(&workspace.project.runs(), &name)?;
        folder.write_json("report.json", &report)?;
        folder.write("report.txt", text.as_bytes())?;
        text.push_str(&format!("report: {}\n", folder.path()));
    }
    context.print(&report, || text)?;
    ui.say(&format!("time: {}", report.time));
    Ok(report.exit_code)
}

/// A scenario's repetitions must agree; one that fails for certain wins over one that gives
/// no answer.
fn exit_code(reports: &[RunReport]) -> u8 {
    let mut by_scenario: BTreeMap<&str, BTreeSet<Verdict>> = BTreeMap::new();
    for report in reports {
        by_scenario
            .entry(&report.inputs.scenario)
            .or_default()
            .insert(report.judgement.verdict);
    }
    let all = |verdict| move |seen: &BTreeSet<Verdict>| seen.len() == 1 && seen.contains(&verdict);
    if by_scenario.values().any(all(Verdict::Fail)) {
        BAD
    } else if !reports.is_empty()
        && by_scenario
            .values()
            .all(|seen| all(Verdict::Pass)(seen) || all(Verdict::Measured)(seen))
    {
        GOOD
    } else {
        INCONCLUSIVE
    }
}
