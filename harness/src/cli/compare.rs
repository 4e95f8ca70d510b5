//! `numalab compare`.

use camino::Utf8Path;
use tokio_util::sync::CancellationToken;

use super::args::{CompareArgs, ModeName};
use super::{Failure, print};
use crate::jobs::comparison::{self, Sides};
use crate::report::text;
use crate::scenario::Scenario;
use crate::ui::Ui;
use crate::workspace::{Limits, Workspace};

pub(super) async fn compare(
    args: &CompareArgs,
    json: bool,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<u8, Failure> {
    let workspace = Workspace::open()?;
    let scenarios = workspace.project.scenarios(&args.scenarios)?;
    for doubt in scenarios.iter().flat_map(Scenario::doubts) {
        ui.warn(&doubt);
    }
    let words = [
        args.configuring.word(&args.base)?,
        args.configuring.word(&args.patched)?,
    ];
    let base = workspace.wanted(&words[0])?;
    let patched = workspace.wanted(&words[1])?;
    let runner = args.platform.check(&workspace)?;
    let seeds: Vec<u64> = super::seeds(1, args.seeds)?.collect();

    let limits = Limits {
        jobs: args.platform.jobs,
    };
    let sides = Sides::build(&workspace, &base, &patched, limits, ui, cancel)?;
    let request = comparison::CompareRequest {
        scenarios: &scenarios,
        seeds: &seeds,
        shift: args.platform.shift,
        append: &args.platform.append,
        jobs: args.platform.jobs,
        budget: args.budget.seconds,
    };
    let repeat = repeat(args, [&base.word, &patched.word]);
    let (report, folder) =
        comparison::run(&workspace, runner, &sides, &request, repeat, ui, cancel).await?;
    if json {
        print(&format!("{}\n", super::json(&report)?))?;
    } else {
        print(&text::comparison(&report))?;
        print(&format!("report: {folder}\n"))?;
    }
    ui.say(&format!("time: {}", report.time));
    Ok(report.exit_code)
}

/// The command that repeats it, from whatever folder.
fn repeat(args: &CompareArgs, kernels: [&String; 2]) -> String {
    let mut words = vec!["numalab".to_owned(), "compare".to_owned()];
    words.extend(kernels.into_iter().cloned());
    words.extend(args.scenarios.iter().map(|word| anywhere(word)));
    if let Some(seconds) = args.budget.seconds {
        words.extend(["--budget".to_owned(), seconds.to_string()]);
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
    shell_words::join(words)
}

/// A scenario's word, where it is a file's path, from whatever folder.
fn anywhere(word: &str) -> String {
    let path = Utf8Path::new(word);
    match camino::absolute_utf8(path) {
        Ok(absolute) if path.extension() == Some("yaml") => absolute.into_string(),
        _ => word.to_owned(),
    }
}
