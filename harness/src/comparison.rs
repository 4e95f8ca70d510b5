//! Carrying out a comparison: both kernels, all scenarios, all seeds.

use std::time::Duration;

use camino::Utf8PathBuf;
use numalab_kernels::{Class, Wanted};
use tokio_util::sync::CancellationToken;

use crate::budget::{self, LeftOut};
use crate::compare::{Side, Word, exit_code, word};
use crate::folder::RunFolder;
use crate::lab::{BootKernel, Lab, LabError, Limits};
use crate::pool;
use crate::report::{Compared, ComparisonReport, KernelId, Overall, RunReport, SCHEMA, text};
use crate::run::{self, Stand};
use crate::scenario::{DoesNotApply, Scenario};
use crate::ui::Ui;

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
pub struct Request<'a> {
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
        lab: &Lab,
        base: &Wanted,
        patched: &Wanted,
        limits: Limits,
        ui: &Ui,
        cancel: &CancellationToken,
    ) -> Result<Sides, LabError> {
        let patched_name = patched.name.clone();
        let base = lab.kernel(base, limits, ui, cancel)?;
        let patched = match lab.kernel(patched, limits, ui, cancel) {
            Ok(kernel) => Ok(kernel),
            Err(LabError::Kernel(error)) if error.class() == Class::Build => {
                Err(text::sentence(&error))
            }
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
    lab: &Lab,
    stand: run::Checked,
    sides: &Sides,
    request: &Request<'_>,
    repeat: String,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<(ComparisonReport, Utf8PathBuf), LabError> {
    let stand = stand.ready(&sides.base.id, ui, cancel).await?;
    let overall = overall(sides);
    let mut left_out = Vec::new();
    let scenarios = match (&overall, &sides.patched) {
        (None, Ok(patched)) => {
            let (base, patched) = (&sides.base.id, &patched.id);
            let afforded = afforded(&stand, base, patched, request, &mut left_out, ui)?;
            scenarios(&stand, base, patched, &afforded, request, ui, cancel).await?
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
        mode: stand.mode_name().to_owned(),
        accelerator: stand.accelerator_name(),
        qemu: stand.qemu_version(),
        image: stand.image_digest().to_owned(),
        repeat,
        left_out,
        time: stand.split(),
        exit_code,
    };
    let name = format!("compare-{}-{}", report.base.name, report.patched_name);
    let folder = RunFolder::create(&lab.project.runs(), &name)?;
    folder.write_json("report.json", &report)?;
    folder.write("report.txt", text::comparison(&report).as_bytes())?;
    Ok((report, folder.path().to_owned()))
}

fn overall(sides: &Sides) -> Option<Overall> {
    match &sides.patched {
        Err(because) => Some(Overall {
            word: Word::Broken,
            because: because.clone(),
        }),
        Ok(patched) if patched.id.digest == sides.base.id.digest => Some(Overall {
            word: Word::ChangesNothing,
            because: "both images are the same bytes: the patch changes nothing that this \
                      configuration builds"
                .into(),
        }),
        Ok(_) => None,
    }
}

/// The scenarios that the budget allows.
fn afforded<'a>(
    stand: &Stand,
    base: &'a KernelId,
    patched: &'a KernelId,
    request: &Request<'a>,
    left_out: &mut Vec<LeftOut>,
    ui: &Ui,
) -> Result<Vec<&'a Scenario>, LabError> {
    let Some(seconds) = request.budget else {
        return Ok(request.scenarios.iter().collect());
    };
    let budget = Duration::from_secs(seconds);
    let choice = budget::choose(stand, request.scenarios, budget, |scenario| {
        runs(scenario, base, patched, request)
    })?;
    ui.say(&choice.told(budget));
    *left_out = choice.left_out;
    let chosen = choice.chosen.into_iter();
    Ok(chosen.map(|index| &request.scenarios[index]).collect())
}

/// That the scenario does not apply to one of these kernels.
fn excluded(scenario: &Scenario, kernels: [&KernelId; 2]) -> Option<DoesNotApply> {
    let mut kernels = kernels.into_iter();
    kernels.find_map(|kernel| scenario.does_not_apply(&kernel.release))
}

/// One scenario's runs: the base's, one for each seed, then the patched kernel's.
fn runs<'a>(
    scenario: &'a Scenario,
    base: &'a KernelId,
    patched: &'a KernelId,
    request: &Request<'_>,
) -> Result<Vec<run::Request<'a>>, LabError> {
    let mut requests = Vec::new();
    if excluded(scenario, [base, patched]).is_some() {
        return Ok(requests);
    }
    for kernel in [base, patched] {
        for seed in request.seeds {
            let (shift, append) = (request.shift, request.append);
            requests.push(run::Request::new(scenario, kernel, *seed, shift, append)?);
        }
    }
    Ok(requests)
}

async fn scenarios(
    stand: &Stand,
    base: &KernelId,
    patched: &KernelId,
    afforded: &[&Scenario],
    request: &Request<'_>,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<Vec<Compared>, LabError> {
    let mut requests = Vec::new();
    for scenario in afforded {
        requests.extend(runs(scenario, base, patched, request)?);
    }
    let mut reports = pool::run(stand, &requests, request.jobs, ui, cancel)
        .await?
        .into_iter();
    let mut take = || -> Vec<RunReport> { reports.by_ref().take(request.seeds.len()).collect() };
    let compared = afforded.iter().map(|scenario| {
        if let Some(excluded) = excluded(scenario, [base, patched]) {
            return Compared {
                scenario: scenario.name.clone(),
                word: Word::DoesNotApply,
                because: Some(excluded.to_string()),
                base: Vec::new(),
                patched: Vec::new(),
            };
        }
        let (base, patched) = (take(), take());
        let [before, after] = [&base, &patched].map(|runs| {
            runs.iter()
                .map(|run| run.judgement.clone())
                .collect::<Vec<_>>()
        });
        let word = word(Side::of(&before), Side::of(&after));
        Compared {
            scenario: scenario.name.clone(),
            word,
            because: None,
            base,
            patched,
        }
    });
    Ok(compared.collect())
}
