//! `numalab run`.

use std::collections::{BTreeMap, BTreeSet};

use tokio_util::sync::CancellationToken;

use super::args::{ModeName, RunArgs};
use super::{BAD, Failure, GOOD, INCONCLUSIVE, print};
use crate::lab::{Lab, Limits};
use crate::pool;
use crate::report::{RunReport, text};
use crate::run::Request;
use crate::ui::{self, Ui};
use crate::verdict::Verdict;

pub(super) async fn run(
    args: &RunArgs,
    json: bool,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<u8, Failure> {
    let lab = Lab::open()?;
    // What the user wrote is checked before anything long begins.
    let scenarios = lab.project.scenarios(&args.scenarios)?;
    let wanted = lab.wanted(&args.kernel)?;
    let live = args.platform.mode == ModeName::Live;
    let stand = args.platform.check(&lab)?;
    let kernel = lab.kernel(
        &wanted,
        Limits {
            jobs: args.platform.jobs,
        },
        ui,
        cancel,
    )?;
    let stand = stand.ready(&kernel.id, ui, cancel).await?;

    let repeat = args.repeat.unwrap_or(if live { 3 } else { 1 });
    let mut requests = Vec::new();
    let mut excluded = Vec::new();
    for scenario in &scenarios {
        if let Some(reason) = scenario.does_not_apply(&kernel.id.release) {
            excluded.push(reason);
            continue;
        }
        for seed in super::seeds(args.seed, repeat)? {
            let platform = &args.platform;
            requests.push(Request::new(
                scenario,
                &kernel.id,
                seed,
                platform.shift,
                &platform.append,
            )?);
        }
    }
    let jobs = args.platform.jobs;
    let reports = pool::run(&stand, &requests, jobs, ui, cancel).await?;
    if json {
        print(&format!("{}\n", super::json(&reports)?))?;
    } else {
        print(&text::runs(&reports))?;
    }
    for reason in &excluded {
        if json {
            // No result: a script that reads results finds none.
            ui::put(&reason.to_string());
        } else {
            print(&format!("{reason}\n"))?;
        }
    }
    Ok(exit_code(&reports))
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
