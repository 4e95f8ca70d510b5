//! `numalab watch`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use camino::Utf8PathBuf;
use numalab_kernels::{ErrorKind, KernelSpec};
use tokio_util::sync::CancellationToken;

use super::context::{Context, print, seeds};
use super::exit::Failure;
use super::options::{GuestOptions, KernelOptions};
use crate::error::Error;
use crate::error_chain::sentence;
use crate::jobs::watch::{self, LastResults, Saves, TreeWatcher};
use crate::run::RunRequest;
use crate::run::pool;
use crate::scenario::Scenario;
use crate::ui::Ui;
use crate::workspace::Workspace;

pub(super) const HELP: &str = "\
It runs until it is interrupted. Exit codes: 2 wrong input, 3 the tree cannot be watched, 130 \
interrupted.

Example: numalab watch --tree ~/linux vma";

#[derive(Debug, clap::Args)]
pub(super) struct WatchArgs {
    /// Scenarios: `suite/scenario`, a whole suite, or a .yaml file [default: all].
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// The kernel tree that is being edited. It is only read.
    #[arg(long, value_name = "DIR")]
    tree: Utf8PathBuf,
    /// Number of seeds that must agree.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    #[command(flatten)]
    kernels: KernelOptions,
    #[command(flatten)]
    guests: GuestOptions,
}

pub(super) async fn watch(args: &WatchArgs, context: &Context) -> Result<u8, Failure> {
    let Context { ui, cancel, .. } = context;
    if context.json {
        return Err(Failure::input(miette::miette!(
            help = "each run's folder has its results in report.json",
            "watch runs until it is interrupted, and prints no JSON"
        )));
    }
    let workspace = Workspace::open()?;
    let scenarios = workspace.project.scenarios(&args.scenarios)?;
    let seeds: Vec<u64> = seeds(1, args.seeds)?.collect();
    let tree = args
        .tree
        .canonicalize_utf8()
        .map_err(|source| Failure::input(Error::file("find", &args.tree)(source)))?;
    let mut spec = workspace.wanted(tree.as_str())?;
    args.kernels.configure(&workspace, [&mut spec])?;
    let watcher = TreeWatcher::new(tree.as_std_path())
        .map_err(|error| Failure::Environment(crate::error::report(error)))?;
    let mut saves = watcher.saves();
    let mut session = Session {
        args,
        workspace: &workspace,
        spec: &spec,
        scenarios: &scenarios,
        seeds: &seeds,
        tree: tree.as_std_path(),
        ui,
        image: None,
        last: LastResults::default(),
    };
    // Files saved since the last round that was not interrupted.
    let mut saved = BTreeSet::new();
    loop {
        saves.quiet().await;
        saved.extend(watcher.take());
        let round = round_token(cancel, watcher.saves());
        let _ends_with_the_round = round.clone().drop_guard();
        match session.round(&saved, &round).await {
            Ok(()) => saved.clear(),
            Err(Failure::Interrupted) if cancel.is_cancelled() => return Err(Failure::Interrupted),
            Err(Failure::Interrupted) => {
                ui.say("the tree changed: starting again");
                continue;
            }
            // In the middle of an edit a tree may be anything; the next save may fix it.
            Err(Failure::Input(report) | Failure::Environment(report)) => {
                crate::ui::put(&format!("{report:?}"));
            }
        }
        print("waiting for a save\n")?;
        tokio::select! {
            () = saves.next() => {}
            () = cancel.cancelled() => return Err(Failure::Interrupted),
        }
    }
}

/// A token for one round, which a signal or the next save cancels.
fn round_token(cancel: &CancellationToken, mut saves: Saves) -> CancellationToken {
    let token = cancel.child_token();
    // A build blocks the task that asks for it, so this is another one.
    tokio::spawn({
        let token = token.clone();
        async move {
            tokio::select! {
                () = saves.next() => token.cancel(),
                () = token.cancelled() => {}
            }
        }
    });
    token
}

struct Session<'a> {
    args: &'a WatchArgs,
    workspace: &'a Workspace,
    spec: &'a KernelSpec,
    scenarios: &'a [Scenario],
    seeds: &'a [u64],
    tree: &'a Path,
    ui: &'a Ui,
    /// The digest of the last complete round's image.
    image: Option<String>,
    last: LastResults,
}

impl Session<'_> {
    /// Builds, then runs the scenarios that the saved files concern, then the others.
    async fn round(
        &mut self,
        saved: &BTreeSet<PathBuf>,
        cancel: &CancellationToken,
    ) -> Result<(), Failure> {
        let WatchArgs {
            kernels, guests, ..
        } = self.args;
        let start = Instant::now();
        let limits = kernels.limits();
        let kernel = match self.workspace.kernel(self.spec, limits, self.ui, cancel) {
            Ok(kernel) => kernel,
            Err(Error::Kernel(error)) if error.kind() == ErrorKind::Build => {
                print(&format!("does not build: {}\n", sentence(&error)))?;
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let built = start.elapsed();
        if self.image.as_ref() == Some(&kernel.id.digest) {
            print("the image is unchanged: this configuration builds none of the saved files\n")?;
            return Ok(());
        }
        let runner = guests
            .runner(self.workspace, kernels.jobs)?
            .ready(&kernel.id, self.ui, cancel)
            .await?;
        let (first, rest): (Vec<&Scenario>, Vec<&Scenario>) = self
            .scenarios
            .iter()
            .partition(|scenario| watch::touches(scenario, self.tree, saved));
        for scenarios in [first, rest] {
            let mut requests = Vec::new();
            for scenario in scenarios {
                for seed in self.seeds {
                    requests.push(RunRequest::new(
                        scenario,
                        &kernel.id,
                        *seed,
                        guests.shift,
                        &guests.append,
                    )?);
                }
            }
            let reports = pool::run(&runner, &requests, kernels.jobs, self.ui, cancel).await?;
            for change in self.last.record(&reports) {
                print(&format!("{change}\n"))?;
            }
        }
        self.image = Some(kernel.id.digest.clone());
        print(&format!(
            "{}; {:.1} s, {:.1} s of it for the build\n",
            self.last.summary(),
            start.elapsed().as_secs_f64(),
            built.as_secs_f64()
        ))?;
        Ok(())
    }
}
