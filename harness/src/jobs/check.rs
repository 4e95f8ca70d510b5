//! Checking a series before it is sent: what it fixes, what it breaks, what it does not
//! touch, on kernels built with and without it.
//!
//! Decides what is built and run and in which order, and puts together what came of it.
//! Which patches words mean is `numalab_kernels`' to tell; the words for scenarios are
//! `compare`'s.

pub mod choice;
pub mod paste;
pub mod report;
pub mod text;
pub mod touched;

mod bootlog;
mod conclusion;
mod evidence;
mod passes;
mod unchanged;

use camino::{Utf8Path, Utf8PathBuf};
use numalab_kernels::patch::Touched;
use numalab_kernels::spec::{Direction, Origin};
use numalab_kernels::{ErrorKind, KernelSpec, Series};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::error_chain::sentence;
use crate::jobs::comparison::{self, Results};
use crate::report::{Compared, ComparisonReport, KernelId, Overall, SCHEMA};
use crate::run::folder::RunFolder;
use crate::run::{self, Runner};
use crate::scenario::Scenario;
use crate::ui::Ui;
use crate::verdict::compare::{Change, exit_code};
use crate::workspace::{BootKernel, Limits, Workspace};
use choice::Chosen;
use evidence::Evidence;
use report::{CheckReport, PatchId, SeriesId, Step};

/// What is checked, and how.
#[derive(Debug, Clone, Copy)]
pub struct CheckRequest<'a> {
    /// The kernel without the series.
    pub base: &'a KernelSpec,
    /// The series.
    pub series: &'a Series,
    /// What the series touches, by [`touched::touched`].
    pub touched: &'a Touched,
    /// What is run, and with which seeds.
    pub runs: comparison::CompareRequest<'a>,
    /// Why each scenario is run.
    pub chosen: &'a [Chosen],
    /// Whether each patch is looked at by itself, too.
    pub each: bool,
    /// Whether kernels that check themselves run the scenarios, too.
    pub debug: bool,
    /// Whether it is told which changed lines ran.
    pub coverage: bool,
    /// Whether the first trace event in which the kernels differ is looked for.
    pub trace: bool,
    /// The run folder to use instead of a new one.
    pub folder: Option<&'a Utf8Path>,
    /// The command that repeats the check.
    pub repeat: &'a str,
}

/// With what kernels are built.
#[derive(Debug, Clone, Copy)]
struct Workshop<'a> {
    workspace: &'a Workspace,
    limits: Limits,
    ui: &'a Ui,
    cancel: &'a CancellationToken,
}

/// The word of a kernel that a command line cannot name.
const NO_WORD: &str = "";

/// A kernel that was asked for: built, or the words of the compiler that refuses it.
type Attempt = Result<BootKernel, String>;

impl Workshop<'_> {
    fn build(&self, wanted: &KernelSpec) -> Result<Attempt, Error> {
        match self
            .workspace
            .kernel(wanted, self.limits, self.ui, self.cancel)
        {
            Ok(mut kernel) => {
                if kernel.id.word == NO_WORD {
                    // What no word means is named by its image.
                    kernel.id.word = kernel.id.path.to_string();
                }
                Ok(Ok(kernel))
            }
            Err(Error::Kernel(error)) if error.kind() == ErrorKind::Build => {
                Ok(Err(sentence(&error)))
            }
            Err(error) => Err(error),
        }
    }
}

/// The base with some of a series' patches.
fn patched(request: &CheckRequest<'_>, numbers: &[usize]) -> Result<KernelSpec, Error> {
    let mut wanted = request.base.clone();
    let Origin::Recipe(recipe) = &mut wanted.origin else {
        let word = request.base.word.clone();
        return Err(Error::Unpatchable { word });
    };
    let patches = &request.series.patches;
    recipe
        .patches
        .extend(numbers.iter().map(|number| patches[number - 1].clone()));
    // What a kernel with somebody's patch should do is the scenarios' to say.
    wanted.expected.clear();
    let name = &request.series.name;
    let part = match numbers {
        _ if numbers.len() == patches.len() => String::new(),
        [first, .., last] if last - first + 1 == numbers.len() => format!(":{first}-{last}"),
        _ => {
            let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
            format!(":{}", numbers.join(","))
        }
    };
    let is_revert = patches
        .iter()
        .any(|patch| patch.direction == Direction::Revert);
    let sign = if is_revert { "+revert-" } else { "+" };
    wanted.name = format!("{}{sign}{name}{part}", wanted.name);
    wanted.word = word(request, numbers).unwrap_or_else(|| NO_WORD.to_owned());
    Ok(wanted)
}

/// The word of a command line for the base with some patches: all of a file's or none.
fn word(request: &CheckRequest<'_>, numbers: &[usize]) -> Option<String> {
    let patches = &request.series.patches;
    let is_whole = numbers.len() == patches.len();
    let mut word = request.base.word.clone();
    let mut given: Vec<&std::path::Path> = Vec::new();
    let mut chosen: Vec<_> = numbers.iter().map(|number| &patches[number - 1]).collect();
    if let Some(Direction::Revert) = chosen.first().map(|patch| patch.direction) {
        // They are named in their own order and taken back in the other.
        chosen.reverse();
    }
    for patch in chosen {
        if patch.mail.is_some() && !is_whole {
            return None;
        }
        if !given.contains(&patch.path.as_path()) {
            given.push(&patch.path);
            let sign = match patch.direction {
                Direction::Apply => "+",
                Direction::Revert => "+revert:",
            };
            let path = std::path::absolute(&patch.path).ok()?;
            if !path.exists() {
                return None;
            }
            word.push_str(&format!("{sign}{}", path.display()));
        }
    }
    Some(word)
}

/// Makes a check and keeps its report; the folder is returned with it.
///
/// # Errors
/// The base cannot be built, a patch is wrong or cannot be applied, the machine cannot be
/// used, or a signal came.
pub async fn run(
    workspace: &Workspace,
    runner: run::RunnerBuilder,
    request: &CheckRequest<'_>,
    limits: Limits,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<(CheckReport, Utf8PathBuf), Error> {
    let workshop = Workshop {
        workspace,
        limits,
        ui,
        cancel,
    };
    let count = request.series.patches.len();
    let all: Vec<usize> = (1..=count).collect();
    let whole = patched(request, &all)?;
    let base = workshop
        .build(request.base)?
        .map_err(|why| base_refused(request, &why))?;
    let patched = workshop.build(&whole)?;
    let stack = match request.each {
        true => passes::stack(&workshop, request, &base, &patched)?,
        false => Vec::new(),
    };
    let debug = match request.debug {
        true => Some(passes::debug_kernels(&workshop, request, &whole)?),
        false => None,
    };

    let runner = runner.ready(&base.id, ui, cancel).await?;
    let mut kernels = vec![&base.id];
    kernels.extend(patched.as_ref().ok().map(|kernel| &kernel.id));
    kernels.extend(stack.iter().filter_map(|layer| layer.kernel()));
    let mut scenarios: Vec<&Scenario> = request.runs.scenarios.iter().collect();
    let (mut left_out, mut results) = (Vec::new(), None);
    if needs_guests(&kernels) {
        (scenarios, left_out) = comparison::afforded(&runner, &kernels, &request.runs, ui)?;
        let runs = &request.runs;
        results = Some(Results::get(&runner, &kernels, &scenarios, runs, ui, cancel).await?);
    }
    let debug = match debug {
        Some(kernels) => {
            let runs = &request.runs;
            Some(passes::debug_pass(&runner, &kernels, &scenarios, runs, ui, cancel).await?)
        }
        None => None,
    };
    let each: Vec<Step> = passes::steps(&stack, &base.id, results.as_ref(), &scenarios);
    let mut compared = match (&patched, &results) {
        (Ok(patched), Some(results)) if patched.id.digest != base.id.digest => {
            results.compared(&base.id, &patched.id, &scenarios)
        }
        _ => Vec::new(),
    };
    let evidence = match &patched {
        Ok(patched) if !compared.is_empty() => {
            let kernels = evidence::Kernels {
                base: &base.id,
                patched: &patched.id,
                wanted: &whole,
            };
            evidence::gather(&workshop, &runner, request, kernels, &compared, cancel).await?
        }
        _ => Evidence::default(),
    };
    evidence.mark(&mut compared);
    let whole = ComparisonReport {
        left_out,
        patched_name: whole.name,
        ..whole_report(&runner, request, &base, &patched, compared)
    };
    let words = whole
        .overall
        .iter()
        .map(|overall| overall.word)
        .chain(whole.scenarios.iter().map(|compared| compared.word))
        .chain(each.iter().map(|step| step.word))
        .chain(debug.iter().flat_map(passes::words));
    let words: Vec<Change> = words.collect();
    let exit_code = exit_code(words.iter().copied());
    let mut report = CheckReport {
        schema: SCHEMA,
        numalab: env!("CARGO_PKG_VERSION").to_owned(),
        series: series_id(request.series),
        chosen: request.chosen.to_vec(),
        unchanged: match &whole.overall {
            Some(overall) if overall.word == Change::ChangesNothing => {
                unchanged::of(request.touched, &workspace.cache, base.built())
            }
            _ => Vec::new(),
        },
        touched: request.touched.clone(),
        each,
        coverage: evidence.coverage,
        uncovered: evidence.uncovered,
        divergences: evidence.divergences,
        debug,
        verdict: words.iter().copied().min().unwrap_or(Change::Unclear),
        conclusions: Vec::new(),
        repeat: request.repeat.to_owned(),
        exit_code,
        whole,
    };
    report.conclusions = conclusion::of(&report);
    let folder = keep(workspace, request.folder, &report)?;
    Ok((report, folder))
}

/// Whether anything is to be run: kernels of the same bytes need no guest.
fn needs_guests(kernels: &[&KernelId]) -> bool {
    kernels
        .iter()
        .any(|kernel| kernel.digest != kernels[0].digest)
}

fn base_refused(request: &CheckRequest<'_>, why: &str) -> Error {
    Error::Base {
        name: request.base.name.clone(),
        why: why.to_owned(),
    }
}

fn whole_report(
    runner: &Runner,
    request: &CheckRequest<'_>,
    base: &BootKernel,
    patched: &Attempt,
    scenarios: Vec<Compared>,
) -> ComparisonReport {
    let overall = match patched {
        Err(because) => Some(Overall {
            word: Change::Broken,
            because: because.clone(),
        }),
        Ok(patched) if patched.id.digest == base.id.digest => Some(Overall {
            word: Change::ChangesNothing,
            because: "both images are the same bytes: the series changes nothing that this \
                      config builds"
                .into(),
        }),
        Ok(_) => None,
    };
    let words = overall.iter().map(|overall| overall.word);
    let words = words.chain(scenarios.iter().map(|compared| compared.word));
    ComparisonReport {
        schema: SCHEMA,
        base: base.id.clone(),
        patched_name: String::new(),
        patched: patched.as_ref().ok().map(|kernel| kernel.id.clone()),
        exit_code: exit_code(words),
        overall,
        scenarios,
        seeds: request.runs.seeds.to_vec(),
        mode: runner.mode_name().to_owned(),
        accelerator: runner.accelerator_name(),
        qemu: runner.qemu_version(),
        image: runner.image_digest().to_owned(),
        repeat: request.repeat.to_owned(),
        left_out: Vec::new(),
        time: runner.split(),
    }
}

fn series_id(series: &Series) -> SeriesId {
    let reverted = |patch: &numalab_kernels::spec::Patch| patch.direction == Direction::Revert;
    SeriesId {
        name: series.name.clone(),
        title: series.title.clone(),
        reverted: series.patches.iter().any(reverted),
        patches: (1..=series.patches.len())
            .map(|number| patch_id(series, number))
            .collect(),
        notes: series.notes.clone(),
    }
}

fn patch_id(series: &Series, number: usize) -> PatchId {
    let patch = &series.patches[number - 1];
    PatchId {
        number,
        of: series.patches.len(),
        subject: patch.subject.clone().unwrap_or_else(|| patch.name()),
        file: patch.name(),
        digest: patch.digest().to_string(),
    }
}

/// Fills the report's folder.
fn keep(
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
    let mut differences = String::new();
    for compared in &report.whole.scenarios {
        let (Some(base), Some(patched)) = (compared.base.first(), compared.patched.first()) else {
            continue;
        };
        let difference = match bootlog::difference(base, patched) {
            None => "a console cannot be read any more\n".to_owned(),
            Some(text) if text.is_empty() => "no line differs\n".to_owned(),
            Some(text) => text,
        };
        differences.push_str(&format!("# {}\n{difference}", compared.scenario));
    }
    folder.write("boot-logs.diff", differences.as_bytes())?;
    Ok(folder.path().to_owned())
}
