//! `numalab check`.

use numalab_kernels::patch::Touched;
use numalab_kernels::spec::Direction;
use numalab_kernels::{KernelError, series};

use super::context::{Context, seeds};
use super::exit::{Failure, INCONCLUSIVE};
use super::options::{Budget, GuestOptions, KernelOptions};
use super::patches;
use crate::jobs::check::selection::{self, Selected};
use crate::jobs::check::touched::touched;
use crate::jobs::check::{self, paste, text};
use crate::jobs::comparison::TestMatrix;
use crate::scenario::Scenario;
use crate::workspace::Workspace;

pub(super) const HELP: &str = "\
Exit codes: 0 nothing is broken or unclear, 1 something is broken, 2 wrong input, 3 something is \
unclear, no scenario runs a changed line, or there is nothing to run, 130 interrupted.

Example: numalab check 0001-fix.patch --base linux-6.12 --scenario vma";

#[derive(Debug, clap::Args)]
pub(super) struct CheckArgs {
    /// The series: diffs, mails, an mbox, a folder of these, `-` for standard input, or a
    /// revision range A..B of the repository in the current folder.
    #[arg(required = true, value_name = "PATCH")]
    series: Vec<String>,
    /// The kernel spec that the series applies to: a shipped name, a definition (.yaml), or a
    /// source folder.
    #[arg(long, short, value_name = "KERNEL")]
    base: String,
    /// Scenarios: `suite/scenario`, a whole suite, or a .yaml file [default: all].
    #[arg(long = "scenario", short = 'S', value_name = "SCENARIO", num_args = 1..)]
    scenarios: Vec<String>,
    /// Run only scenarios whose declared subject, a function or a file, the series touches. If
    /// there is none, nothing runs and the exit code is 3.
    #[arg(long)]
    touching: bool,
    /// Revert the patches, from the last to the first, instead of applying them.
    #[arg(long)]
    revert: bool,
    /// Also build, boot and run each patch on top of those before it.
    #[arg(long)]
    each: bool,
    /// Also run the scenarios with one seed on slower kernels that check themselves (lockdep,
    /// `DEBUG_VM`, KASAN, kmemleak). Only their messages count, not their counters.
    #[arg(long)]
    debug: bool,
    /// Do not build kernels with gcov to count how often the changed lines run.
    #[arg(long)]
    no_coverage: bool,
    /// Also run each scenario on both kernels with trace events, and show the first event in
    /// which they differ.
    #[arg(long)]
    trace: bool,
    /// Exit with 0 instead of 3 if no scenario runs a changed line.
    #[arg(long)]
    allow_unexercised: bool,
    /// Print the text to paste under a patch's `---` line instead of the report.
    #[arg(long)]
    paste: bool,
    /// Number of seeds that must agree.
    #[arg(long, default_value_t = 3)]
    seeds: u64,
    #[command(flatten)]
    kernels: KernelOptions,
    #[command(flatten)]
    guests: GuestOptions,
    #[command(flatten)]
    budget: Budget,
}

pub(super) async fn check(args: &CheckArgs, context: &Context) -> Result<u8, Failure> {
    let Context { ui, cancel, .. } = context;
    let (kernels, guests) = (&args.kernels, &args.guests);
    let workspace = Workspace::open()?;
    let scenarios = workspace.project.scenarios(&args.scenarios)?;
    let mut base = workspace.wanted(&args.base)?;
    let base_word = base.word.clone();
    kernels.configure(&workspace, [&mut base])?;
    let seeds: Vec<u64> = seeds(1, args.seeds)?.collect();
    let direction = match args.revert {
        true => Direction::Revert,
        false => Direction::Apply,
    };
    let (words, folder) =
        patches::from_any_folder(&args.series, "check-stdin", &workspace, context).await?;
    let repeat = context
        .command_line
        .repeat(&[("series", &words), ("base", &[base_word])]);
    let here = workspace.here()?;
    let series = series::read(&words, direction, here.as_std_path(), &workspace.cache)
        .map_err(KernelError::from)?;
    for note in &series.notes {
        ui.say(note);
    }
    let touched = touched(&workspace, &base, &series, kernels.limits(), ui, cancel)?;
    let all = scenarios;
    let (scenarios, selected) = select(args, &all, &touched);
    if scenarios.is_empty() {
        ui.warn(&selection::nothing(&all, &touched));
        return Ok(INCONCLUSIVE);
    }
    let runner = guests.runner(&workspace, kernels.jobs)?;
    let options = check::CheckOptions {
        base: &base,
        series: &series,
        touched: &touched,
        matrix: TestMatrix {
            scenarios: &scenarios,
            seeds: &seeds,
            shift: guests.shift,
            append: &guests.append,
            jobs: kernels.jobs,
            budget: args.budget.seconds,
        },
        selected: &selected,
        each: args.each,
        debug: args.debug,
        coverage: !args.no_coverage,
        trace: args.trace,
        allow_unexercised: args.allow_unexercised,
        folder: folder.as_deref(),
        repeat: &repeat,
    };
    let (report, folder) =
        check::run(&workspace, runner, &options, kernels.limits(), ui, cancel).await?;
    let reason = report.exit_reason.iter();
    let last_line: String = reason.map(|reason| format!("{reason}\n")).collect();
    context.print(&report, || match args.paste {
        true => paste::text(&report),
        false => format!(
            "{}report: {folder}\nto paste below a patch's ---: {folder}/paste.txt\n{last_line}",
            text::check(&report)
        ),
    })?;
    if args.paste {
        ui.say(&format!("report: {folder}"));
        if let Some(reason) = &report.exit_reason {
            ui.warn(reason);
        }
    }
    Ok(report.exit_code)
}

/// The scenarios to run, and why --touching selects each.
fn select(
    args: &CheckArgs,
    scenarios: &[Scenario],
    touched: &Touched,
) -> (Vec<Scenario>, Vec<Selected>) {
    if !args.touching {
        return (scenarios.to_vec(), Vec::new());
    }
    selection::touching(scenarios, touched)
        .into_iter()
        .map(|(scenario, selected)| (scenario.clone(), selected))
        .unzip()
}
