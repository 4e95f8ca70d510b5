//! How commits are judged: the options that `bisect` and `judge` share, and what they name.

use camino::Utf8PathBuf;
use numalab_kernels::catalog::Setting;
use numalab_kernels::spec::{Direction, Patch};
use numalab_kernels::{KernelError, series};

use super::context::{Context, seeds};
use super::exit::Failure;
use super::options::{GuestOptions, KernelOptions};
use super::patches;
use crate::jobs::bisect::confidence::{ConfidenceTarget, RepetitionPlan};
use crate::jobs::bisect::judge::Method;
use crate::run::RunnerBuilder;
use crate::scenario::Scenario;
use crate::workspace::Workspace;

#[derive(Debug, clap::Args)]
pub(super) struct CommitOptions {
    /// Apply a patch to each commit; repeatable. A commit that has it already is left as it is;
    /// one that it does not apply to is skipped.
    #[arg(long, value_name = "PATCH")]
    apply: Vec<String>,
    /// Revert a patch from each commit; repeatable.
    #[arg(long, value_name = "PATCH")]
    revert: Vec<String>,
    /// Treat commits that fail to build, boot or stay clean as bad [default: skip].
    #[arg(long)]
    broken_is_bad: bool,
    /// Exact mode: number of seeds that must agree.
    #[arg(long, default_value_t = 3)]
    seeds: u64,
    /// Live mode: the least probability that a mark is right.
    #[arg(long, value_name = "P", default_value_t = 0.99)]
    confidence: f64,
    /// Live mode: the least share of its runs that a bad kernel fails.
    #[arg(long, value_name = "R", default_value_t = 0.5)]
    rate: f64,
    /// Live mode: the greatest share of its runs that a good kernel fails.
    #[arg(long, value_name = "R", default_value_t = 0.0)]
    noise: f64,
    #[command(flatten)]
    pub(super) kernels: KernelOptions,
    #[command(flatten)]
    pub(super) guests: GuestOptions,
}

/// What the options name, read and checked.
pub(super) struct Inputs {
    scenario: Scenario,
    seeds: Vec<u64>,
    plan: Option<RepetitionPlan>,
    patches: Vec<Patch>,
    settings: Vec<Setting>,
    /// The values of --apply and --revert in words that mean the same in any folder.
    pub(super) apply: Vec<String>,
    pub(super) revert: Vec<String>,
    /// The run folder that keeps standard input.
    pub(super) folder: Option<Utf8PathBuf>,
}

impl CommitOptions {
    /// Reads all that is named, before anything long begins.
    pub(super) async fn read(
        &self,
        scenario: &str,
        workspace: &Workspace,
        context: &Context,
    ) -> Result<(Inputs, RunnerBuilder), Failure> {
        let mut scenarios = workspace.project.scenarios(&[scenario.to_owned()])?;
        if scenarios.len() > 1 {
            let names = scenarios.iter().map(|scenario| scenario.name.as_str());
            return Err(Failure::input(miette::miette!(
                help = "name one of them",
                "{scenario:?} is a suite of {} scenarios ({}); commits are judged by a single one",
                scenarios.len(),
                names.collect::<Vec<_>>().join(", ")
            )));
        }
        let scenario = scenarios.remove(0);
        let target = ConfidenceTarget {
            rate: self.rate,
            noise: self.noise,
            confidence: self.confidence,
        };
        let plan = match self.guests.is_live() {
            true => Some(
                target
                    .plan()
                    .map_err(|error| Failure::Input(crate::error::report(error)))?,
            ),
            false => None,
        };
        let seeds = seeds(1, self.seeds)?.collect();
        let settings = self.kernels.settings(workspace)?;
        let given = [self.revert.as_slice(), &self.apply].concat();
        let (mut revert, folder) =
            patches::from_any_folder(&given, "bisect-stdin", workspace, context).await?;
        let apply = revert.split_off(self.revert.len());
        let here = workspace.here()?;
        let mut patches = Vec::new();
        for (words, direction) in [(&revert, Direction::Revert), (&apply, Direction::Apply)] {
            if !words.is_empty() {
                let series = series::read(words, direction, here.as_std_path(), &workspace.cache);
                patches.extend(series.map_err(KernelError::from)?.patches);
            }
        }
        let runner = self.guests.runner(workspace, self.kernels.jobs)?;
        let inputs = Inputs {
            scenario,
            seeds,
            plan,
            patches,
            settings,
            apply,
            revert,
            folder,
        };
        Ok((inputs, runner))
    }

    pub(super) fn method<'a>(&'a self, inputs: &'a Inputs) -> Method<'a> {
        Method {
            scenario: &inputs.scenario,
            seeds: &inputs.seeds,
            plan: inputs.plan,
            shift: self.guests.shift,
            append: &self.guests.append,
            jobs: self.kernels.jobs,
            patches: &inputs.patches,
            settings: &inputs.settings,
            broken_is_bad: self.broken_is_bad,
        }
    }
}
