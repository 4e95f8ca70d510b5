//! `numalab bisect`.

use std::path::Path;

use camino::Utf8PathBuf;
use numalab_kernels::source::SourceError;
use numalab_kernels::source::repository::Repository;
use numalab_kernels::spec::{Direction, Fragment, Patch};
use numalab_kernels::{KernelError, series};
use tokio_util::sync::CancellationToken;

use super::args::{ModeName, Platform};
use super::{Failure, print};
use crate::error::Error;
use crate::jobs::bisect::confidence::{ConfidenceTarget, RepetitionPlan};
use crate::jobs::bisect::step::{Judge, Method};
use crate::jobs::bisect::{self, BisectRequest, report};
use crate::run::RunnerBuilder;
use crate::scenario::Scenario;
use crate::ui::Ui;
use crate::workspace::Workspace;

pub(super) const EXITS: &str = "Exit codes: 0 one commit was found, 2 wrong input, 3 a range, or an \
end is not what it was said to be, or no answer on this machine, 130 interrupted (the same \
command goes on).";

#[derive(Debug, clap::Args)]
pub(super) struct BisectArgs {
    /// The repository, or a work tree of it. It is only read.
    #[arg(long, value_name = "DIR", default_value = ".")]
    repo: Utf8PathBuf,
    /// A commit that passes, such as a tag.
    #[arg(long, value_name = "REVISION")]
    good: String,
    /// A later commit that fails.
    #[arg(long, value_name = "REVISION")]
    bad: String,
    /// The scenario: `suite/scenario` or a .yaml file.
    scenario: String,
    /// Goes only to first parents of merges, as `git bisect start --first-parent`.
    #[arg(long)]
    first_parent: bool,
    /// Does not verify the answer by builds from nothing, which take minutes.
    #[arg(long)]
    no_verify: bool,
    /// Throws away what an interrupted run of the same command found.
    #[arg(long)]
    restart: bool,
    #[command(flatten)]
    judging: Judging,
}

/// How commits are judged: what `bisect` and `judge` share.
#[derive(Debug, clap::Args)]
pub(super) struct Judging {
    /// A patch that is applied to each commit; can be given again. Where it is there
    /// already, it is left out; where it does not apply, the commit cannot be judged.
    #[arg(long, value_name = "PATCH")]
    apply: Vec<String>,
    /// A patch that is taken back from each commit; can be given again.
    #[arg(long, value_name = "PATCH")]
    revert: Vec<String>,
    /// Options for each commit's configuration, after those that guests need.
    #[arg(long, value_name = "FILE")]
    config_fragment: Vec<Utf8PathBuf>,
    /// Takes for bad what does not build, boot or stay clean; it cannot be judged otherwise.
    #[arg(long)]
    broken_is_bad: bool,
    /// Number of seeds that must agree, in exact mode.
    #[arg(long, default_value_t = 3)]
    seeds: u64,
    /// Live mode: how probable it is at least that an answer is right.
    #[arg(long, value_name = "P", default_value_t = 0.99)]
    confidence: f64,
    /// Live mode: the share of its runs that a bad kernel fails at least.
    #[arg(long, value_name = "R", default_value_t = 0.5)]
    rate: f64,
    /// Live mode: the share of its runs that a good kernel fails at most.
    #[arg(long, value_name = "R", default_value_t = 0.0)]
    noise: f64,
    #[command(flatten)]
    pub(super) platform: Platform,
}

/// What commits are judged by, read and checked.
pub(super) struct Means {
    pub(super) workspace: Workspace,
    scenario: Scenario,
    seeds: Vec<u64>,
    plan: Option<RepetitionPlan>,
    patches: Vec<Patch>,
    fragments: Vec<Fragment>,
}

impl Judging {
    /// Reads all that is named, before anything long begins.
    pub(super) fn means(&self, scenario: &str) -> Result<(Means, RunnerBuilder), Failure> {
        let workspace = Workspace::open()?;
        let mut scenarios = workspace.project.scenarios(&[scenario.to_owned()])?;
        if scenarios.len() > 1 {
            return Err(Failure::input(miette::miette!(
                "{scenario:?} names {} scenarios, and one is judged by: {}",
                scenarios.len(),
                scenarios
                    .iter()
                    .map(|scenario| scenario.name.as_str())
                    .collect::<Vec<_>>()
                    .join(", ")
            )));
        }
        let scenario = scenarios.remove(0);
        let live = self.platform.mode == ModeName::Live;
        let wish = ConfidenceTarget {
            rate: self.rate,
            noise: self.noise,
            confidence: self.confidence,
        };
        let plan = match live {
            true => Some(
                wish.plan()
                    .map_err(|error| Failure::Input(crate::error::report(error)))?,
            ),
            false => None,
        };
        let seeds = super::seeds(1, self.seeds)?.collect();
        let here = std::env::current_dir().map_err(Error::file("find", ".".into()))?;
        let mut patches = Vec::new();
        for (words, direction) in [
            (&self.revert, Direction::Revert),
            (&self.apply, Direction::Apply),
        ] {
            if !words.is_empty() {
                let series = series::read(words, direction, &here, &workspace.cache)
                    .map_err(|error| Failure::from(Error::Kernel(KernelError::from(error))))?;
                patches.extend(series.patches);
            }
        }
        let mut fragments = Vec::new();
        for path in &self.config_fragment {
            let text = std::fs::read_to_string(path)
                .map_err(|error| Failure::input(miette::miette!("cannot read {path}: {error}")))?;
            let name = path.to_string();
            fragments.push(Fragment { name, text });
        }
        let host = self.platform.check(&workspace)?;
        let means = Means {
            workspace,
            scenario,
            seeds,
            plan,
            patches,
            fragments,
        };
        Ok((means, host))
    }

    pub(super) fn method<'a>(&'a self, means: &'a Means) -> Method<'a> {
        Method {
            scenario: &means.scenario,
            seeds: &means.seeds,
            plan: means.plan,
            shift: self.platform.shift,
            append: &self.platform.append,
            jobs: self.platform.jobs,
            patches: &means.patches,
            fragments: &means.fragments,
            broken_is_bad: self.broken_is_bad,
        }
    }

    fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut add = |name: &str, value: &str| words.extend([name.to_owned(), value.to_owned()]);
        for patch in &self.apply {
            add("--apply", patch);
        }
        for patch in &self.revert {
            add("--revert", patch);
        }
        for path in &self.config_fragment {
            add("--config-fragment", path.as_str());
        }
        if self.seeds != 3 {
            add("--seeds", &self.seeds.to_string());
        }
        if self.platform.mode == ModeName::Live {
            add("--mode", "live");
            add("--confidence", &self.confidence.to_string());
            add("--rate", &self.rate.to_string());
            add("--noise", &self.noise.to_string());
        }
        if let Some(shift) = self.platform.shift {
            add("--shift", &shift.to_string());
        }
        for parameter in &self.platform.append {
            add("--append", parameter);
        }
        if self.broken_is_bad {
            words.push("--broken-is-bad".to_owned());
        }
        words
    }
}

pub(super) async fn bisect(
    args: &BisectArgs,
    json: bool,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<u8, Failure> {
    let repository = Repository::open(args.repo.as_std_path());
    let failed = |error| Failure::kernel(KernelError::from(SourceError::from(error)));
    let repository = repository.map_err(failed)?;
    let good = repository.commit(&args.good).map_err(failed)?;
    let bad = repository.commit(&args.bad).map_err(failed)?;
    let request = BisectRequest {
        repository: &repository,
        repeat: repeat(args, repository.path(), &good.id, &bad.id),
        good,
        bad,
        first_parent: args.first_parent,
        verify: !args.no_verify,
        restart: args.restart,
    };
    bisect::check(&request).map_err(Failure::input)?;
    let (means, host) = args.judging.means(&args.scenario)?;
    let method = args.judging.method(&means);
    let fixed = format!("{:?} {}", args.judging.platform.mode, host.identity());
    let judge = Judge::new(&means.workspace, host, &method, ui, cancel);
    let done = bisect::run(&means.workspace, &request, judge, &method, &fixed, ui).await;
    let (report, folder) = match done {
        Err(Error::Interrupted) => {
            ui.say("interrupted: the same command goes on after the last judged commit");
            return Err(Failure::Interrupted);
        }
        done => done?,
    };
    if json {
        print(&format!("{}\n", super::json(&report)?))?;
    } else {
        print(&report::text(&report))?;
        print(&format!("report: {folder}\n"))?;
    }
    Ok(report.exit_code)
}

/// The command with what names could mean another thing by then.
fn repeat(args: &BisectArgs, path: &Path, good: &str, bad: &str) -> String {
    let mut words = vec!["numalab".to_owned(), "bisect".to_owned()];
    words.extend(["--repo".to_owned(), path.display().to_string()]);
    words.extend(["--good".to_owned(), good.to_owned()]);
    words.extend(["--bad".to_owned(), bad.to_owned()]);
    if args.first_parent {
        words.push("--first-parent".to_owned());
    }
    if args.no_verify {
        words.push("--no-verify".to_owned());
    }
    words.extend(args.judging.words());
    words.push(args.scenario.clone());
    shell_words::join(words)
}
