//! `numalab check`.

use numalab_kernels::patch::Touched;
use numalab_kernels::series;
use numalab_kernels::spec::Direction;
use tokio_util::sync::CancellationToken;

use super::args::{CheckArgs, ModeName};
use super::{Failure, INCONCLUSIVE, print};
use crate::jobs::check::choice::{self, Chosen};
use crate::jobs::check::touched::touched;
use crate::jobs::check::{self, paste, text};
use crate::jobs::comparison;
use crate::scenario::Scenario;
use crate::ui::Ui;
use crate::workspace::{Limits, Workspace};

pub(super) async fn check(
    args: &CheckArgs,
    json: bool,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<u8, Failure> {
    let workspace = Workspace::open()?;
    let scenarios = workspace.project.scenarios(&args.scenarios)?;
    let base = workspace.wanted(&args.base)?;
    let direction = if args.revert {
        Direction::Revert
    } else {
        Direction::Apply
    };
    let here = crate::workspace::here()?;
    let series = series::read(
        &args.series,
        direction,
        here.as_std_path(),
        &workspace.cache,
    )
    .map_err(|error| Failure::kernel(error.into()))?;
    for note in &series.notes {
        ui.say(note);
    }
    let limits = Limits {
        jobs: args.platform.jobs,
    };
    let seeds: Vec<u64> = super::seeds(1, args.seeds)?.collect();
    let touched = touched(&workspace, &base, &series, limits, ui, cancel)?;
    let all = scenarios;
    let (scenarios, chosen) = choose(args, &all, &touched);
    if scenarios.is_empty() {
        ui.warn(&choice::nothing(&all, &touched));
        return Ok(INCONCLUSIVE);
    }
    let runner = args.platform.check(&workspace)?;
    let request = check::CheckRequest {
        base: &base,
        series: &series,
        touched: &touched,
        runs: comparison::CompareRequest {
            scenarios: &scenarios,
            seeds: &seeds,
            shift: args.platform.shift,
            append: &args.platform.append,
            jobs: args.platform.jobs,
            budget: args.budget.seconds,
        },
        chosen: &chosen,
        each: args.each,
        debug: args.debug,
        coverage: !args.no_coverage,
        trace: args.trace,
        repeat: &repeat(args),
    };
    let (report, folder) = check::run(&workspace, runner, &request, limits, ui, cancel).await?;
    if json {
        print(&format!("{}\n", super::json(&report)?))?;
    } else if args.paste {
        print(&paste::text(&report))?;
        ui.say(&format!("report: {folder}"));
    } else {
        print(&text::check(&report))?;
        print(&format!("report: {folder}\n"))?;
        let paste = folder.join("paste.txt");
        print(&format!("to paste below a patch's ---: {paste}\n"))?;
    }
    Ok(report.exit_code)
}

/// The scenarios that are run, with the reason of each where there is a choice.
fn choose(
    args: &CheckArgs,
    scenarios: &[Scenario],
    touched: &Touched,
) -> (Vec<Scenario>, Vec<Chosen>) {
    if !args.touching {
        return (scenarios.to_vec(), Vec::new());
    }
    choice::touching(scenarios, touched)
        .into_iter()
        .map(|(scenario, chosen)| (scenario.clone(), chosen))
        .unzip()
}

fn repeat(args: &CheckArgs) -> String {
    let mut words = vec!["numalab".to_owned(), "check".to_owned()];
    words.extend(args.series.iter().cloned());
    words.extend(["--base".to_owned(), args.base.clone()]);
    for (flag, set) in [
        ("--revert", args.revert),
        ("--each", args.each),
        ("--debug", args.debug),
        ("--no-coverage", args.no_coverage),
        ("--trace", args.trace),
        ("--touching", args.touching),
    ] {
        words.extend(set.then(|| flag.to_owned()));
    }
    if args.seeds != 3 {
        words.extend(["--seeds".to_owned(), args.seeds.to_string()]);
    }
    if args.platform.mode == ModeName::Live {
        words.extend(["--mode".to_owned(), "live".to_owned()]);
    }
    if let Some(shift) = args.platform.shift {
        words.extend(["--shift".to_owned(), shift.to_string()]);
    }
    for parameter in &args.platform.append {
        words.extend(["--append".to_owned(), parameter.clone()]);
    }
    if let Some(budget) = args.budget.seconds {
        words.extend(["--budget".to_owned(), budget.to_string()]);
    }
    if !args.scenarios.is_empty() {
        words.push("--scenario".to_owned());
        words.extend(args.scenarios.iter().cloned());
    }
    shell_words::join(words)
}
