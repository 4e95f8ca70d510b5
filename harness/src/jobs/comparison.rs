//! Carrying out a comparison: both kernels, all scenarios, all seeds.

use std::collections::BTreeMap;
use std::time::Duration;

use camino::Utf8PathBuf;
use numalab_kernels::{ErrorKind, KernelSpec};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::error_chain::sentence;
use crate::jobs::budget;
use crate::report::LeftOut;
use crate::report::{Compared, ComparisonReport, KernelId, Overall, RunReport, SCHEMA, text};
use crate::run::folder::RunFolder;
use crate::run::pool;
use crate::run::{self, Runner};
use crate::scenario::{DoesNotApply, Scenario};
use crate::ui::Ui;
use crate::verdict::compare::{self, Change, exit_code};
use crate::workspace::{BootKernel, Limits, Workspace};

/// Both kernels.
#[derive(Debug)]
pub struct Sides {
    base: BootKernel,
    /// The patched kernel, or the words of the compiler that refuses it.
    patched: Result<BootKernel, String>,
    patched_name: String,
}

/// What is compared.
#[derive(Debug, Clone, Copy)]
pub struct CompareRequest<'a> {
    /// The scenarios.
    pub scenarios: &'a [Scenario],
    /// The seeds.
    pub seeds: &'a [u64],
    /// Another shift than the scenarios' own.
    pub shift: Option<u8>,
    /// Kernel parameters added to the scenarios' own.
    pub append: &'a [String],
    /// Guests at a time.
    pub jobs: Option<usize>,
    /// Seconds that the guests may take; all scenarios are run unless it is given.
    pub budget: Option<u64>,
}

impl Sides {
    /// Builds both kernels. A patched kernel that does not compile, where the base does, is
    /// a result.
    ///
    /// # Errors
    /// The base cannot be built; the patch is wrong; or this machine does not allow it.
    pub fn build(
        workspace: &Workspace,
        base: &KernelSpec,
        patched: &KernelSpec,
        limits: Limits,
        ui: &Ui,
        cancel: &CancellationToken,
    ) -> Result<Sides, Error> {
        let patched_name = patched.name.clone();
        let base = workspace.kernel(base, limits, ui, cancel)?;
        let patched = match workspace.kernel(patched, limits, ui, cancel) {
            Ok(kernel) => Ok(kernel),
            Err(Error::Kernel(error)) if error.kind() == ErrorKind::Build => Err(sentence(&error)),
            Err(error) => return Err(error),
        };
        Ok(Sides {
            base,
            patched,
            patched_name,
        })
    }
}

/// Runs a comparison and keeps its report; the folder is returned with it.
///
/// # Errors
/// The machine cannot be used, a folder cannot be written, or a signal came.
pub async fn run(
    workspace: &Workspace,
    runner: run::RunnerBuilder,
    sides: &Sides,
    request: &CompareRequest<'_>,
    repeat: String,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<(ComparisonReport, Utf8PathBuf), Error> {
    let runner = runner.ready(&sides.base.id, ui, cancel).await?;
    let overall = overall(sides);
    let mut left_out = Vec::new();
    let scenarios = match (&overall, &sides.patched) {
        (None, Ok(patched)) => {
            let kernels = [&sides.base.id, &patched.id];
            let (afforded, too_long) = afforded(&runner, &kernels, request, ui)?;
            left_out = too_long;
            let results = Results::get(&runner, &kernels, &afforded, request, ui, cancel).await?;
            results.compared(kernels[0], kernels[1], &afforded)
        }
        _ => Vec::new(),
    };
    let exit_code = match &overall {
        Some(overall) => exit_code([overall.word]),
        None => exit_code(scenarios.iter().map(|compared| compared.word)),
    };
    let report = ComparisonReport {
        schema: SCHEMA,
        base: sides.base.id.clone(),
        patched_name: sides.patched_name.clone(),
        patched: sides.patched.as_ref().ok().map(|kernel| kernel.id.clone()),
        overall,
        scenarios,
        seeds: request.seeds.to_vec(),
        mode: runner.mode_name().to_owned(),
        accelerator: runner.accelerator_name(),
        qemu: runner.qemu_version(),
        image: runner.image_digest().to_owned(),
        repeat,
        left_out,
        time: runner.split(),
        exit_code,
    };
    let name = format!("compare-{}-{}", report.base.name, report.patched_name);
    let folder = RunFolder::create(&workspace.project.runs(), &name)?;
    folder.write_json("report.json", &report)?;
    folder.write("report.txt", text::comparison(&report).as_bytes())?;
    Ok((report, folder.path().to_owned()))
}

fn overall(sides: &Sides) -> Option<Overall> {
    match &sides.patched {
        Err(because) => Some(Overall {
            word: Change::Broken,
            because: because.clone(),
        }),
        Ok(patched) if patched.id.digest == sides.base.id.digest => Some(Overall {
            word: Change::ChangesNothing,
            because: "both images are the same bytes: the patch changes nothing that this \
                      configuration builds"
                .into(),
        }),
        Ok(_) => None,
    }
}

/// The scenarios that the budget allows, and those that it does not.
///
/// # Errors
/// The kernel parameters are wrong.
pub fn afforded<'a>(
    runner: &Runner,
    kernels: &[&'a KernelId],
    request: &CompareRequest<'a>,
    ui: &Ui,
) -> Result<(Vec<&'a Scenario>, Vec<LeftOut>), Error> {
    let Some(seconds) = request.budget else {
        return Ok((request.scenarios.iter().collect(), Vec::new()));
    };
    let budget = Duration::from_secs(seconds);
    let choice = budget::choose(runner, request.scenarios, budget, |scenario| {
        runs(scenario, kernels, request)
    })?;
    ui.say(&choice.told(budget));
    let chosen = choice.chosen.into_iter();
    let chosen = chosen.map(|index| &request.scenarios[index]).collect();
    Ok((chosen, choice.left_out))
}

/// That a scenario cannot speak of the patched kernel, which takes away what it needs: a
/// patch that switches scanning off does so to all that wait for a scan.
fn silenced(
    scenario: &str,
    base: &[compare::Seen<'_>],
    patched: &[compare::Seen<'_>],
) -> Option<String> {
    let lost = compare::Lost::of(base, patched);
    if lost.reasons.is_empty() {
        return None;
    }
    let mut said = format!(
        "{scenario} says nothing of the patched kernel; in all of its runs, and in none of the \
         base's:"
    );
    for reason in &lost.reasons {
        said.push_str("\n  ");
        said.push_str(reason);
    }
    if lost.idle {
        said.push_str(
            "\n  Where a guard demands activity and sees 0, the patch may have switched NUMA \
             balancing off for these tasks.",
        );
    }
    Some(said)
}

/// That the scenario does not apply to one of these kernels.
fn excluded(scenario: &Scenario, kernels: &[&KernelId]) -> Option<DoesNotApply> {
    let mut kernels = kernels.iter();
    kernels.find_map(|kernel| scenario.does_not_apply(&kernel.release))
}

/// One scenario's runs: each kernel's, one for each seed.
fn runs<'a>(
    scenario: &'a Scenario,
    kernels: &[&'a KernelId],
    request: &CompareRequest<'_>,
) -> Result<Vec<run::RunRequest<'a>>, Error> {
    let mut requests = Vec::new();
    if excluded(scenario, kernels).is_some() {
        return Ok(requests);
    }
    for kernel in kernels {
        for seed in request.seeds {
            let (shift, append) = (request.shift, request.append);
            requests.push(run::RunRequest::new(
                scenario, kernel, *seed, shift, append,
            )?);
        }
    }
    Ok(requests)
}

/// The runs of several kernels; each image is run once, however many names it has.
#[derive(Debug)]
pub struct Results {
    /// By the image's digest and the scenario's name.
    runs: BTreeMap<(String, String), Vec<RunReport>>,
    /// Scenarios that were not run, because they do not apply to one of the kernels, and why.
    excluded: BTreeMap<String, String>,
}

impl Results {
    /// Runs those of the scenarios that apply to all kernels, with all seeds.
    ///
    /// # Errors
    /// The kernel parameters are wrong, a folder cannot be written, or a signal came.
    pub async fn get(
        runner: &Runner,
        kernels: &[&KernelId],
        scenarios: &[&Scenario],
        request: &CompareRequest<'_>,
        ui: &Ui,
        cancel: &CancellationToken,
    ) -> Result<Results, Error> {
        let mut images: Vec<&KernelId> = Vec::new();
        for kernel in kernels {
            if images.iter().all(|known| known.digest != kernel.digest) {
                images.push(kernel);
            }
        }
        let (mut requests, mut keys) = (Vec::new(), Vec::new());
        let mut not_run = BTreeMap::new();
        for scenario in scenarios {
            if let Some(why) = excluded(scenario, &images) {
                not_run.insert(scenario.name.clone(), why.to_string());
            }
            let of_scenario = runs(scenario, &images, request)?;
            let digests = images
                .iter()
                .flat_map(|kernel| request.seeds.iter().map(|_| kernel.digest.clone()));
            let names = digests.map(|digest| (digest, scenario.name.clone()));
            keys.extend(names.take(of_scenario.len()));
            requests.extend(of_scenario);
        }
        let reports = pool::run(runner, &requests, request.jobs, ui, cancel).await?;
        let mut runs: BTreeMap<(String, String), Vec<RunReport>> = BTreeMap::new();
        for (key, report) in keys.into_iter().zip(reports) {
            runs.entry(key).or_default().push(report);
        }
        Ok(Results {
            runs,
            excluded: not_run,
        })
    }

    /// Compares two of the kernels.
    pub fn compared(
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
            let [before, after] =
                [&base, &patched].map(|runs| runs.iter().map(RunReport::seen).collect::<Vec<_>>());
            let excluded = self.excluded.get(&scenario.name).cloned();
            let (word, faults) = match &excluded {
                Some(_) => (Change::DoesNotApply, compare::Difference::default()),
                None => compare::compare(&before, &after),
            };
            let because = excluded.or_else(|| match word {
                Change::Unclear => silenced(&scenario.name, &before, &after),
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
