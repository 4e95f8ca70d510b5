//! `numalab run`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::args::{ModeName, RunArgs};
use super::{BAD, Failure, GOOD, INCONCLUSIVE, print};
use crate::error::Error;
use crate::jobs::budget;
use crate::report::{RunReport, RunsReport, SCHEMA, text};
use crate::run::RunRequest;
use crate::run::folder::RunFolder;
use crate::run::pool;
use crate::scenario::Scenario;
use crate::ui::Ui;
use crate::verdict::Verdict;
use crate::workspace::{Limits, Workspace};

pub(super) async fn run(
    args: &RunArgs,
    json: bool,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<u8, Failure> {
    let workspace = Workspace::open()?;
    // What the user wrote is checked before anything long begins.
    let mut scenarios = workspace.project.scenarios(&args.scenarios)?;
    for doubt in scenarios.iter().flat_map(Scenario::doubts) {
        ui.warn(&doubt);
    }
    let wanted = workspace.wanted(&args.configuring.word(&args.kernel)?)?;
    let live = args.platform.mode == ModeName::Live;
    let runner = args.platform.check(&workspace)?;
    let kernel = workspace.kernel(
        &wanted,
        Limits {
            jobs: args.platform.jobs,
        },
        ui,
        cancel,
    )?;
    let runner = runner.ready(&kernel.id, ui, cancel).await?;

    let mut excluded = Vec::new();
    scenarios.retain(|scenario| {
        let reason = scenario.does_not_apply(&kernel.id.release);
        let applies = reason.is_none();
        excluded.extend(reason);
        applies
    });
    let repeat = args.repeat.unwrap_or(if live { 3 } else { 1 });
    let platform = &args.platform;
    let seeds = super::seeds(args.seed, repeat)?;
    let runs = |scenario| -> Result<Vec<RunRequest<'_>>, Error> {
        let (shift, append) = (platform.shift, &platform.append);
        let run = |seed| RunRequest::new(scenario, &kernel.id, seed, shift, append);
        seeds.clone().map(run).collect()
    };
    let (mut chosen, mut left_out) = ((0..scenarios.len()).collect(), Vec::new());
    if let Some(seconds) = args.budget.seconds.filter(|_| !scenarios.is_empty()) {
        let budget = Duration::from_secs(seconds);
        let choice = budget::choose(&runner, &scenarios, budget, runs)?;
        ui.say(&choice.told(budget));
        (chosen, left_out) = (choice.chosen, choice.left_out);
    }
    let mut requests = Vec::new();
    for index in chosen {
        requests.extend(runs(&scenarios[index])?);
    }
    let reports = pool::run(&runner, &requests, platform.jobs, ui, cancel).await?;
    let report = RunsReport {
        schema: SCHEMA,
        exit_code: exit_code(&reports),
        kernel: kernel.id.clone(),
        runs: reports,
        left_out,
        does_not_apply: excluded,
        time: runner.split(),
    };
    let text = format!(
        "{}{}{}",
        text::runs(&report.runs),
        text::does_not_apply(&report.does_not_apply),
        text::left_out(&report.left_out)
    );
    let mut kept = None;
    // One alone has said it all in its own folder.
    if report.runs.len() > 1 {
        let name = format!("run-{}", report.kernel.name);
        let folder = RunFolder::create(&workspace.project.runs(), &name)?;
        folder.write_json("report.json", &report)?;
        folder.write("report.txt", text.as_bytes())?;
        kept = Some(folder.path().to_owned());
    }
    if json {
        print(&format!("{}\n", super::json(&report)?))?;
    } else {
        print(&text)?;
        if let Some(folder) = kept {
            print(&format!("report: {folder}\n"))?;
        }
    }
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
    } else if !reports.is_empty() && by_scenario.values().all(all(Verdict::Pass)) {
        GOOD
    } else {
        INCONCLUSIVE
    }
}
