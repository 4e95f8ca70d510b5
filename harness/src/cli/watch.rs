//! `numalab watch`.

use std::time::Instant;

use numalab_kernels::KernelSpec;
use tokio_util::sync::CancellationToken;

use super::args::WatchArgs;
use super::{Failure, print};
use crate::error::Error;
use crate::error_chain::sentence;
use crate::jobs::watch::{self, Last, Saves, Watching};
use crate::run::RunRequest;
use crate::run::pool;
use crate::scenario::Scenario;
use crate::ui::Ui;
use crate::workspace::{Limits, Workspace};

pub(super) async fn watch(
    args: &WatchArgs,
    json: bool,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<u8, Failure> {
    if json {
        return Err(Failure::Input(miette::miette!(
            help = "each round's results are in report.json of its runs' folders",
            "watch goes on until it is interrupted, and prints no JSON"
        )));
    }
    let workspace = Workspace::open()?;
    let scenarios = workspace.project.scenarios(&args.scenarios)?;
    let seeds: Vec<u64> = super::seeds(1, args.seeds)?.collect();
    let tree = args
        .tree
        .canonicalize_utf8()
        .map_err(|source| Failure::Input(Error::file("find", &args.tree)(source).into()))?;
    let wanted = workspace.wanted(tree.as_str())?;
    let watching = Watching::begin(tree.as_std_path())
        .map_err(|error| Failure::Environment(crate::error::report(error)))?;
    let mut saves = watching.saves();
    let mut session = Session {
        args,
        workspace: &workspace,
        wanted: &wanted,
        scenarios: &scenarios,
        seeds: &seeds,
        tree: tree.as_std_path(),
        ui,
        image: None,
        last: Last::default(),
    };
    // What was saved since the last round that came to its end.
    let mut saved = std::collections::BTreeSet::new();
    loop {
        saves.quiet().await;
        saved.extend(watching.take());
        let round = round_token(cancel, watching.saves());
        match session.round(&saved, &round.token).await {
            Ok(()) => saved.clear(),
            Err(Failure::Interrupted) if cancel.is_cancelled() => return Err(Failure::Interrupted),
            Err(Failure::Interrupted) => {
                ui.say("the tree changed: starting again");
                continue;
            }
            // A tree in the middle of an edit may be anything; the next save may mend it.
            Err(Failure::Input(report) | Failure::Environment(report)) => {
                crate::ui::put(&format!("{report:?}"));
            }
        }
        drop(round);
        print("waiting for a save\n")?;
        tokio::select! {
            () = saves.next() => {}
            () = cancel.cancelled() => return Err(Failure::Interrupted),
        }
    }
}

/// A token that ends a round: the user's own end, or the next save.
struct Round {
    token: CancellationToken,
    listener: tokio::task::JoinHandle<()>,
}

impl Drop for Round {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

fn round_token(cancel: &CancellationToken, mut saves: Saves) -> Round {
    let token = cancel.child_token();
    // A task of its own: a build blocks the one that asked for it.
    let listener = tokio::spawn({
        let token = token.clone();
        async move {
            saves.next().await;
            token.cancel();
        }
    });
    Round { token, listener }
}

struct Session<'a> {
    args: &'a WatchArgs,
    workspace: &'a Workspace,
    wanted: &'a KernelSpec,
    scenarios: &'a [Scenario],
    seeds: &'a [u64],
    tree: &'a std::path::Path,
    ui: &'a Ui,
    /// The image of the last round that came to its end.
    image: Option<String>,
    last: Last,
}

impl Session<'_> {
    /// Builds, and runs what the saved files touch first, then the rest.
    async fn round(
        &mut self,
        saved: &std::collections::BTreeSet<std::path::PathBuf>,
        cancel: &CancellationToken,
    ) -> Result<(), Failure> {
        let platform = &self.args.platform;
        let start = Instant::now();
        let limits = Limits {
            jobs: platform.jobs,
        };
        let kernel = match self.workspace.kernel(self.wanted, limits, self.ui, cancel) {
            Ok(kernel) => kernel,
            Err(Error::Kernel(error)) if error.kind() == numalab_kernels::ErrorKind::Build => {
                print(&format!("does not build: {}\n", sentence(&error)))?;
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let built = start.elapsed();
        if self.image.as_ref() == Some(&kernel.id.digest) {
            print("the image is the same: nothing was saved that this configuration builds\n")?;
            return Ok(());
        }
        let runner = platform
            .check(self.workspace)?
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
                        platform.shift,
                        &platform.append,
                    )?);
                }
            }
            let reports = pool::run(&runner, &requests, platform.jobs, self.ui, cancel).await?;
            for turned in self.last.turn(&reports) {
                print(&format!("{turned}\n"))?;
            }
        }
        self.image = Some(kernel.id.digest.clone());
        print(&format!(
            "{}; {:.1} s, of which {:.1} s for the build\n",
            self.last.sum(),
            start.elapsed().as_secs_f64(),
            built.as_secs_f64()
        ))?;
        Ok(())
    }
}
