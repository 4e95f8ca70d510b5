//! Checks a series before it is sent: what it fixes and breaks, on kernels built with and
//! without it.
//!
//! The order of a check, and its report. Which patches a command line means is decided in
//! `numalab_kernels::series`, and what a scenario's runs mean in `verdict::compare`.

pub mod options;
pub mod paste;
pub mod report;
pub mod selection;
pub mod text;
pub mod touched;

mod bootlog;
mod builder;
mod conclusion;
mod debug_pass;
mod each_patch;
mod extra_runs;
mod unchanged;
mod warnings;

use camino::{Utf8Path, Utf8PathBuf};
use numalab_kernels::{CompilerWarning, KernelError};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::jobs::comparison::{self, KernelPair, Results};
use crate::report::{ComparisonReport, KernelId, SCHEMA};
use crate::run;
use crate::run::folder::RunFolder;
use crate::scenario::Scenario;
use crate::ui::Ui;
use crate::verdict::compare::{Change, exit_code};
use crate::workspace::{BootKernel, Limits, Workspace};
use builder::Builder;
use extra_runs::ExtraRuns;
pub use options::CheckOptions;
use report::{CheckReport, DebugPass, Step};

/// Runs a check and writes its report into a folder, which is returned with it.
///
/// # Errors
/// The base cannot be built, a patch is wrong or does not apply, this machine cannot run
/// guests, or a signal came.
pub async fn run(
    workspace: &Workspace,
    runner: run::RunnerBuilder,
    options: &CheckOptions<'_>,
    limits: Limits,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<(CheckReport, Utf8PathBuf), Error> {
    let builder = Builder {
        workspace,
        limits,
        ui,
        cancel,
    };
    let all: Vec<usize> = (1..=options.series.patches.len()).collect();
    let spec = options.patched(&all)?;
    let kernels = builder.pair(options.base, &spec)?;
    let each = match options.each {
        true => each_patch::build(&builder, options, &kernels)?,
        false => Vec::new(),
    };
    let debug = match options.debug {
        true => Some(debug_pass::build(&builder, options.base, &spec)?),
        false => None,
    };

    let base = &kernels.base.id;
    let runner = runner.ready(base, ui, cancel).await?;
    let patched = kernels.patched.kernel().map(|kernel| &kernel.id);
    let between = each.iter().filter_map(|patch| patch.kernel());
    let ids: Vec<&KernelId> = [base].into_iter().chain(patched).chain(between).collect();
    let matrix = &options.matrix;
    let mut scenarios: Vec<&Scenario> = matrix.scenarios.iter().collect();
    let (mut left_out, mut results) = (Vec::new(), None);
    if ids.iter().any(|id| id.digest != base.digest) {
        (scenarios, left_out) = comparison::within_budget(&runner, &ids, matrix, ui)?;
        results = Some(Results::get(&runner, &ids, &scenarios, matrix, ui, cancel).await?);
    }
    let debug = match debug {
        Some(pair) => Some(debug_pass::run(&runner, &pair, &scenarios, matrix, ui, cancel).await?),
        None => None,
    };
    let each = each_patch::compare(&each, base, results.as_ref(), &scenarios);
    let (mut compared, mut extra) = (Vec::new(), ExtraRuns::default());
    if let (Some([base, patched]), Some(results)) = (kernels.differing(), &results) {
        compared = results.compare(base, patched, &scenarios);
        let ids = [base, patched];
        extra = extra_runs::gather(&builder, &runner, options, &spec, ids, &compared).await?;
        extra.mark(&mut compared);
    }
    let repeat = options.repeat.to_owned();
    let whole = kernels.report(&runner, matrix.seeds, compared, left_out, repeat);
    let new_warnings = new_warnings(options, &kernels)?;
    let mut report = report(options, whole, each, extra, debug, new_warnings);
    if let Some(overall) = &report.whole.overall
        && overall.word == Change::ChangesNothing
    {
        let (cache, base) = (&workspace.cache, kernels.base.built());
        report.unchanged = unchanged::of(options.touched, cache, base);
    }
    let folder = write(workspace, options.folder, &report)?;
    Ok((report, folder))
}

/// The new compiler warnings; `None` if a kernel does not compile, or if those of a kernel are
/// not known.
fn new_warnings(
    options: &CheckOptions<'_>,
    kernels: &KernelPair,
) -> Result<Option<Vec<CompilerWarning>>, Error> {
    let Some(patched) = kernels.patched.kernel() else {
        return Ok(None);
    };
    let of = |kernel: &BootKernel| kernel.built().warnings().map_err(KernelError::from);
    Ok(match (of(&kernels.base)?, of(patched)?) {
        (Some(base), Some(patched)) => Some(warnings::new(options.touched, &base, patched)),
        _ => None,
    })
}

fn report(
    options: &CheckOptions<'_>,
    whole: ComparisonReport,
    each: Vec<Step>,
    extra: ExtraRuns,
    debug: Option<DebugPass>,
    new_warnings: Option<Vec<CompilerWarning>>,
) -> CheckReport {
    let words: Vec<Change> = whole
        .overall
        .iter()
        .map(|overall| overall.word)
        .chain(whole.scenarios.iter().map(|compared| compared.word))
        .chain(each.iter().map(|step| step.word))
        .chain(debug.iter().flat_map(DebugPass::words))
        .chain(new_warnings.iter().flatten().map(|_| Change::Broken))
        .collect();
    let mut exit_code = exit_code(words.iter().copied());
    let mut exit_reason = None;
    if exit_code == 0 && !options.allow_unexercised && extra.is_unexercised() {
        exit_code = 3;
        exit_reason = Some(
            "exit code 3: no scenario runs a line that the series changes, so the check proves \
             nothing; --allow-unexercised accepts this"
                .to_owned(),
        );
    }
    let mut report = CheckReport {
        schema: SCHEMA,
        numalab: env!("CARGO_PKG_VERSION").to_owned(),
        series: options.series_id(),
        selected: options.selected.to_vec(),
        unchanged: Vec::new(),
        touched: options.touched.clone(),
        each,
        coverage: extra.coverage,
        uncovered: extra.uncovered,
        divergences: extra.divergences,
        debug,
        verdict: words.iter().copied().min().unwrap_or(Change::Unclear),
        conclusions: Vec::new(),
        repeat: options.repeat.to_owned(),
        exit_code,
        exit_reason,
        new_warnings,
        whole,
    };
    report.conclusions = conclusion::of(&report);
    report
}

/// Writes the files of a check's folder.
fn write(
    workspace: &Workspace,
    folder: Option<&Utf8Path>,
    report: &CheckReport,
) -> Result<Utf8PathBuf, Error> {
    let name = format!("check-{}-{}", report.whole.base.name, report.series.name);
    let folder = match folder {
        Some(folder) => RunFolder::at(folder.to_owned()),
        None => RunFolder::create(&workspace.project.runs(), &name)?,
    };
    folder.write_json("report.json", report)?;
    folder.write("report.txt", text::check(report).as_bytes())?;
    folder.write("paste.txt", paste::text(report).as_bytes())?;
    let differences = bootlog::differences(&report.whole.scenarios);
    folder.write("boot-logs.diff", differences.as_bytes())?;
    Ok(folder.path().to_owned())
}
