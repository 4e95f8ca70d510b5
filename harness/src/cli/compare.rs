//! `numalab compare`.

use super::context::{Context, seeds};
use super::exit::Failure;
use super::options::{Budget, GuestOptions, KernelOptions};
use crate::jobs::comparison::{self, KernelPair, TestMatrix};
use crate::report::text;
use crate::scenario::Scenario;
use crate::workspace::Workspace;

pub(super) const HELP: &str = "\
Exit codes: 0 nothing is broken or unclear, 1 something is broken, 2 wrong input, 3 something is \
unclear, 130 interrupted.

Example: numalab compare linux-6.12 linux-6.12+fix.patch vma/late-vma-scan";

#[derive(Debug, clap::Args)]
pub(super) struct CompareArgs {
    /// The kernel spec without the change.
    base: String,
    /// The kernel spec with it, such as `linux-6.12+fix.patch`.
    patched: String,
    /// Scenarios: `suite/scenario`, a whole suite, or a .yaml file [default: all].
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<String>,
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

pub(super) async fn compare(args: &CompareArgs, context: &Context) -> Result<u8, Failure> {
    let Context { ui, cancel, .. } = context;
    let (kernels, guests) = (&args.kernels, &args.guests);
    let workspace = Workspace::open()?;
    let scenarios = workspace.project.scenarios(&args.scenarios)?;
    for doubt in scenarios.iter().flat_map(Scenario::doubts) {
        ui.warn(&doubt);
    }
    let mut base = workspace.wanted(&args.base)?;
    let mut patched = workspace.wanted(&args.patched)?;
    let repeat = context.command_line.repeat(&[
        ("base", &[base.word.clone()]),
        ("patched", &[patched.word.clone()]),
    ]);
    kernels.configure(&workspace, [&mut base, &mut patched])?;
    let seeds: Vec<u64> = seeds(1, args.seeds)?.collect();
    let runner = guests.runner(&workspace, kernels.jobs)?;

    let pair = KernelPair::build(&workspace, &base, &patched, kernels.limits(), ui, cancel)?;
    let matrix = TestMatrix {
        scenarios: &scenarios,
        seeds: &seeds,
        shift: guests.shift,
        append: &guests.append,
        jobs: kernels.jobs,
        budget: args.budget.seconds,
    };
    let (report, folder) =
        comparison::run(&workspace, runner, &pair, &matrix, repeat, ui, cancel).await?;
    context.print(&report, || {
        format!("{}report: {folder}\n", text::comparison(&report))
    })?;
    ui.say(&format!("time: {}", report.time));
    Ok(report.exit_code)
}
