//! Compares two kernels: builds both and runs every scenario with every seed on each.

use std::collections::BTreeMap;
use std::time::Duration;

use camino::Utf8PathBuf;
use numalab_kernels::{ErrorKind, KernelSpec};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::error_chain::sentence;
use crate::jobs::budget;
use crate::report::{
    Compared, ComparisonReport, KernelId, LeftOut, Overall, RunReport, SCHEMA, text,
};
use crate::run::folder::RunFolder;
use crate::run::pool;
use crate::run::{self, RunRequest, Runner};
use crate::scenario::{DoesNotApply, Scenario};
use crate::ui::Ui;
use crate::verdict::compare::{self, Change, exit_code};
use crate::workspace::{BootKernel, Limits, Workspace};

/// A patched kernel, which need not compile.
#[derive(Debug)]
pub enum PatchedKernel {
    /// It compiles.
    Built(Box<BootKernel>),
    /// It does not compile; the compiler's messages.
    DoesNotCompile(String),
}

impl PatchedKernel {
    /// Builds a kernel that may not compile.
    ///
    /// # Errors
    /// It cannot be built for any other reason, or a signal came.
    pub fn build(
        workspace: &Workspace,
        spec: &KernelSpec,
        limits: Limits,
        ui: &Ui,
        cancel: &CancellationToken,
    ) -> Result<PatchedKernel, Error> {
        match workspace.kernel(spec, limits, ui, cancel) {
            Ok(kernel) => Ok(PatchedKernel::Built(Box::new(kernel))),
            Err(Error::Kernel(error)) if error.kind() == ErrorKind::Build => {
                Ok(PatchedKernel::DoesNotCompile(sentence(&error)))
            }
            Err(error) => Err(error),
        }
    }

    /// The kernel, if it compiles.
    pub fn kernel(&self) -> Option<&BootKernel> {
        match self {
            PatchedKernel::Built(kernel) => Some(kernel),
            PatchedKernel::DoesNotCompile(_) => None,
        }
    }
}

/// The kernels of a comparison.
#[derive(Debug)]
pub struct KernelPair {
    pub(crate) base: BootKernel,
    pub(crate) patched: PatchedKernel,
    pub(crate) patched_name: String,
}

/// Which scenarios are run, with which seeds and how.
#[derive(Debug, Clone, Copy)]
pub struct TestMatrix<'a> {
    /// The scenarios.
    pub scenarios: &'a [Scenario],
    /// The seeds.
    pub seeds: &'a [u64],
    /// Overrides the scenarios' `-icount` shift.
    pub shift: Option<u8>,
    /// Kernel parameters added to the scenarios' own.
    pub append: &'a [String],
    /// How many guests run at a time.
    pub jobs: Option<usize>,
    /// Seconds that the guests may take; without it all scenarios are run.
    pub budget: Option<u64>,
}

impl KernelPair {
    /// Builds both kernels. The patched one may fail to compile; the base may not.
    ///
    /// # Errors
    /// The base cannot be built, a patch is wrong, or this machine cannot build kernels.
    pub fn build(
        workspace: &Workspace,
        base: &KernelSpec,
        patched: &KernelSpec,
        limits: Limits,
        ui: &Ui,
        cancel: &CancellationToken,
    ) -> Result<KernelPair, Error> {
        Ok(KernelPair {
            base: workspace.kernel(base, limits, ui, cancel)?,
            patched: PatchedKernel::build(workspace, patched, limits, ui, cancel)?,
            patched_name: patched.name.clone(),
        })
    }

    /// Both kernels' ids, if the patched one compiles and is another image than the base.
    pub(crate) fn differing(&self) -> Option<[&KernelId; 2]> {
        let (base, patched) = (&self.base.id, &self.patched.kernel()?.id);
        (base.digest != patched.digest).then_some([base, patched])
    }

    /// The result that decides before any scenario is run.
    fn overall(&self) -> Option<Overall> {
        let (word, because) = match &self.patched {
            PatchedKernel::DoesNotCompile(messages) => (Change::Broken, messages.clone()),
            PatchedKernel::Built(_) if self.differing().is_some() => return None,
            PatchedKernel::Built(_) => {
                let because = "both images are identical: this configuration builds nothing that \
                               the patch changes";
                (Change::ChangesNothing, because.to_owned())
            }
        };
        Some(Overall { word, because })
    }

    /// Puts a report together.
    pub(crate) fn report(
        &self,
        runner: &Runner,
        seeds: &[u64],
        scenarios: Vec<Compared>,
        left_out: Vec<LeftOut>,
        repeat: String,
    ) -> ComparisonReport {
        let overall = self.overall();
        let words = overall.iter().map(|overall| overall.word);
        let words = words.chain(scenarios.iter().map(|compared| compared.word));
        ComparisonReport {
            schema: SCHEMA,
            base: self.base.id.clone(),
            patched_name: self.patched_name.clone(),
            patched: self.patched.kernel().map(|kernel| kernel.id.clone()),
            exit_code: exit_code(words),
            overall,
            scenarios,
            seeds: seeds.to_vec(),
            mode: runner.mode_name().to_owned(),
            accelerator: runner.accelerator_name(),
            qemu: runner.qemu_version(),
            image: runner.image_digest().to_owned(),
            repeat,
            left_out,
            time: runner.split(),
        }
    }
}

/// Runs a comparison and writes its report into a folder, which is returned with it.
///
/// # Errors
/// This machine cannot run guests, a folder cannot be written, or a signal came.
pub async fn run(
    workspace: &Workspace,
    runner: run::RunnerBuilder,
    kernels: &KernelPair,
    matrix: &TestMatrix<'_>,
    repeat: String,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<(ComparisonReport, Utf8PathBuf), Error> {
    let runner = runner.ready(&kernels.base.id, ui, cancel).await?;
    let (mut compared, mut left_out) = (Vec::new(), Vec::new());
    if let Some([base, patched]) = kernels.differing() {
        let ids = [base, patched];
        let (scenarios, too_long) = within_budget(&runner, &ids, matrix, ui)?;
        left_out = too_long;
        let results = Results::get(&runner, &ids, &scenarios, matrix, ui, cancel).await?;
        compared = results.compare(base, patched, &scenarios);
    }
    let report = kernels.report(&runner, matrix.seeds, compared, left_out, repeat);
    let name = format!("compare-{}-{}", report.base.name, report.patched_name);
    let folder = RunFolder::create(&workspace.project.runs(), &name)?;
    folder.write_json("report.json", &report)?;
    folder.write("report.txt", text::comparison(&report).as_bytes())?;
    Ok((report, folder.path().to_owned()))
}

/// The scenarios that fit into the budget, and those that do not.
///
/// # Errors
/// The kernel parameters are wrong.
pub fn within_budget<'a>(
    runner: &Runner,
    kernels: &[&'a KernelId],
    matrix: &TestMatrix<'a>,
    ui: &Ui,
) -> Result<(Vec<&'a Scenario>, Vec<LeftOut>), Error> {
    let Some(seconds) = matrix.budget else {
        return Ok((matrix.scenarios.iter().collect(), Vec::new()));
    };
    let budget = Duration::from_secs(seconds);
    let selection = budget::select(runner, matrix.scenarios, budget, |scenario| {
        runs(scenario, kernels, matrix)
    })?;
    ui.say(&selection.describe(budget));
    let selected = selection.scenarios.into_iter();
    let selected = selected.map(|index| &matrix.scenarios[index]).collect();
    Ok((selected, selection.left_out))
}

/// Why a scenario cannot judge the patched kernel, where the patch takes away what it needs:
/// a patch that switches scanning off does so to every scenario that waits for a scan.
fn lost_guards(
    scenario: &str,
    base: &[compare::Seen<'_>],
    patched: &[compare::Seen<'_>],
) -> Option<String> {
    let lost = compare::Lost::of(base, patched);
    if lost.reasons.is_empty() {
        return None;
    }
    let mut text = format!(
        "{scenario} cannot judge the patched kernel. In all of its runs, and in none of the base's:"
    );
    for reason in &lost.reasons {
        text.push_str("\n  ");
        text.push_str(reason);
    }
    if lost.idle {
        text.push_str(
            "\n  A guard demands activity and sees 0: the patch may switch NUMA balancing off \
             for these tasks.",
        );
    }
    Some(text)
}

fn does_not_apply(scenario: &Scenario, kernels: &[&KernelId]) -> Option<DoesNotApply> {
    let mut kernels = kernels.iter();
    kernels.find_map(|kernel| scenario.does_not_apply(&kernel.release))
}

/// One scenario's runs, one for each kernel and seed; none if it does not apply to a kernel.
fn runs<'a>(
    scenario: &'a Scenario,
    kernels: &[&'a KernelId],
    matrix: &TestMatrix<'_>,
) -> Result<Vec<RunRequest<'a>>, Error> {
    let mut requests = Vec::new();
    if does_not_apply(scenario, kernels).is_none() {
        for kernel in kernels {
            for seed in matrix.seeds {
                let (shift, append) = (matrix.shift, matrix.append);
                requests.push(RunRequest::new(scenario, kernel, *seed, shift, append)?);
            }
        }
    }
    Ok(requests)
}

/// The runs of several kernels. Kernels with the same image share their runs.
#[derive(Debug)]
pub struct Results {
    /// By the image's digest and the scenario's name.
    runs: BTreeMap<(String, String), Vec<RunReport>>,
    /// Scenarios that do not apply to one of the kernels, and why.
    not_run: BTreeMap<String, String>,
}

impl Results {
    /// Runs the scenarios that apply to all kernels, with all seeds.
    ///
    /// # Errors
    /// The kernel parameters are wrong, a folder cannot be written, or a signal came.
    pub async fn get(
        runner: &Runner,
        kernels: &[&KernelId],
        scenarios: &[&Scenario],
        matrix: &TestMatrix<'_>,
        ui: &Ui,
        cancel: &CancellationToken,
    ) -> Result<Results, Error> {
        let mut images: Vec<&KernelId> = Vec::new();
        for kernel in kernels {
            if images.iter().all(|known| known.digest != kernel.digest) {
                images.push(kernel);
            }
        }
        let mut requests = Vec::new();
        let mut not_run = BTreeMap::new();
        for scenario in scenarios {
            if let Some(why) = does_not_apply(scenario, &images) {
                not_run.insert(scenario.name.clone(), why.to_string());
            }
            requests.extend(runs(scenario, &images, matrix)?);
        }
        let reports = pool::run(runner, &requests, matrix.jobs, ui, cancel).await?;
        let mut runs: BTreeMap<(String, String), Vec<RunReport>> = BTreeMap::new();
        for report in reports {
            let inputs = &report.inputs;
            let key = (inputs.kernel.digest.clone(), inputs.scenario.clone());
            runs.entry(key).or_default().push(report);
        }
        Ok(Results { runs, not_run })
    }

    /// Compares two of the kernels.
    pub fn compare(
        &self,
        base: &KernelId,
        patched: &KernelId,
        scenarios: &[&Scenario],
    ) -> Vec<Compared> {
        let runs = |kernel: &KernelId, scenario: &Scenario| -> Vec<RunReport> {
            let key = (kernel.digest.clone(), scenario.name.clone());
            self.runs.get(&key).cloned().unwrap_or_default()
        };
        let compared = scenarios.iter().map(|scenario| {
            let (base, patched) = (runs(base, scenario), runs(patched, scenario));
            let [before, after] = [&base, &patched].map(|runs| seen(runs));
            let not_run = self.not_run.get(&scenario.name).cloned();
            let (word, faults) = match &not_run {
                Some(_) => (Change::DoesNotApply, compare::Difference::default()),
                None => compare::compare(&before, &after),
            };
            let because = not_run.or_else(|| match word {
                Change::Unclear if scenario.expectations.is_empty() => Some(format!(
                    "{} has no `expect`, so there is nothing to compare",
                    scenario.name
                )),
                Change::Unclear => lost_guards(&scenario.name, &before, &after),
                _ => None,
            });
            Compared {
                scenario: scenario.name.clone(),
                word,
                because,
                base,
                patched,
                faults,
            }
        });
        compared.collect()
    }
}

/// What a comparison needs of runs.
pub(crate) fn seen(runs: &[RunReport]) -> Vec<compare::Seen<'_>> {
    runs.iter().map(RunReport::seen).collect()
}
