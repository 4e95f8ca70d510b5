//! Finding the commit that broke a scenario.
//!
//! Both ends are judged first. Then git chooses commits and each is judged, until one is left
//! or what is left cannot be judged. The answer is verified once more by builds from nothing.
//! Nothing is written into the repository; how a commit is judged is the module `step`'s.

pub mod answer;
pub mod confidence;
mod graph;
pub mod report;
mod search;
mod state;
pub mod step;
#[cfg(test)]
mod tests;

use camino::Utf8PathBuf;
use numalab_kernels::Digest;
use numalab_kernels::digest::Digester;
use numalab_kernels::source::SourceError;
use numalab_kernels::source::repository::{Commit, Repository, RepositoryError, abbreviated};
use numalab_kernels::spec::Direction;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::report::SCHEMA;
use crate::run::folder::RunFolder;
use crate::ui::Ui;
use crate::workspace::Workspace;
use graph::Graph;
use report::Report;
use search::Search;
use state::State;
use step::{Judge, Judged, Method};

/// The oldest kernel that can be built for a guest.
const OLDEST: (u64, u64) = (5, 0);

/// What to search.
#[derive(Debug)]
pub struct BisectRequest<'a> {
    /// The repository.
    pub repository: &'a Repository,
    /// A commit that passes.
    pub good: Commit,
    /// A later one that fails.
    pub bad: Commit,
    /// Whether only first parents of merges are gone to.
    pub first_parent: bool,
    /// Whether the answer is verified by builds from nothing.
    pub verify: bool,
    /// Whether what an interrupted one found is thrown away.
    pub restart: bool,
    /// The command that repeats it.
    pub repeat: String,
}

/// One judged commit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Step {
    /// What it was judged for.
    pub role: Role,
    /// The commit's whole id.
    pub commit: String,
    /// The first line of its message.
    pub subject: String,
    /// Whether it was built from nothing, without the compiler's cache.
    pub clean: bool,
    /// What came of it.
    #[serde(flatten)]
    pub judged: Judged,
}

/// What a commit is judged for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It was said to be good.
    GoodEnd,
    /// It was said to be bad.
    BadEnd,
    /// The two ends have parted from it.
    MergeBase,
    /// The search.
    Search,
    /// It is the answer, or the answer's parent.
    Verification,
}

/// Why there is no search.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum BisectError {
    /// The ends are the same.
    #[error("--good and --bad are the same commit, {shown}")]
    Same {
        /// The commit.
        shown: String,
    },
    /// The ends are the wrong way round.
    #[error("--bad {bad} is an ancestor of --good {good}: what is good must be older")]
    #[diagnostic(help(
        "to find the commit that mended something, bisect a scenario that states the fault"
    ))]
    Reversed {
        /// The good end.
        good: String,
        /// The bad end.
        bad: String,
    },
    /// The ends have nothing in common.
    #[error("--good {good} and --bad {bad} have no common ancestor here{}", if *shallow { ": the clone is shallow, `git fetch --unshallow` gets its history" } else { "" })]
    Apart {
        /// The good end.
        good: String,
        /// The bad end.
        bad: String,
        /// Whether history ends early.
        shallow: bool,
    },
    /// The good end is too old to be built.
    #[error("--good {good} is Linux {version}: kernels before {}.{} cannot be judged", OLDEST.0, OLDEST.1)]
    #[diagnostic(help(
        "they have no PVH entry, by which QEMU starts a vmlinux; choose a later good commit"
    ))]
    Old {
        /// The good end.
        good: String,
        /// Its version.
        version: String,
    },
}

/// Checks the two ends, as far as that needs no build.
///
/// # Errors
/// They are no ends of a search.
pub fn check(request: &BisectRequest<'_>) -> Result<(), BisectError> {
    let BisectRequest {
        repository,
        good,
        bad,
        ..
    } = request;
    let graph = Graph::new(repository, request.first_parent);
    if good.id == bad.id {
        return Err(BisectError::Same {
            shown: good.shown(),
        });
    }
    let ends = || (good.shown(), bad.shown());
    if graph.is_ancestor(&bad.id, &good.id).unwrap_or(false) {
        let (good, bad) = ends();
        return Err(BisectError::Reversed { good, bad });
    }
    if graph.merge_bases(&good.id, &bad.id).is_empty() {
        let (good, bad) = ends();
        let shallow = graph.is_shallow();
        return Err(BisectError::Apart { good, bad, shallow });
    }
    let makefile = repository.file(&good.id, "Makefile").ok().flatten();
    if let Some(version) = makefile
        .as_deref()
        .and_then(numalab_kernels::version::of_makefile)
    {
        let mut numbers = version
            .split('.')
            .map(|part| part.parse::<u64>().unwrap_or(0));
        let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if found < OLDEST {
            let (good, _) = ends();
            return Err(BisectError::Old { good, version });
        }
    }
    Ok(())
}

/// Carries a search out and keeps its report; the folder is returned with it.
///
/// # Errors
/// This machine does not allow an answer, or a signal came; then the same request goes on
/// after the last step.
pub async fn run(
    workspace: &Workspace,
    request: &BisectRequest<'_>,
    judge: Judge<'_>,
    method: &Method<'_>,
    fixed: &str,
    ui: &Ui,
) -> Result<(Report, Utf8PathBuf), Error> {
    let state = State::open(
        &workspace.cache,
        &key(request, method, fixed),
        request.restart,
    )?;
    let resumed = state.steps().len();
    let repository = request.repository;
    let kernels = Kernels {
        workspace,
        repository,
        judge,
    };
    let mut search = Search::new(request, kernels, state, ui);
    search.announce(method.plan)?;
    let (outcome, verified) = search.search().await?;
    let runner = search.judge.judge.runner();
    let report = Report {
        schema: SCHEMA,
        scenario: method.scenario.name.clone(),
        repository: request.repository.path().to_owned(),
        good: request.good.id.clone(),
        bad: request.bad.id.clone(),
        steps: search.state.steps().to_vec(),
        resumed,
        exit_code: outcome.exit_code(),
        outcome,
        verified,
        seeds: method.seeds.to_vec(),
        plan: method.plan,
        mode: runner.map(|runner| runner.mode_name().to_owned()),
        accelerator: runner.map(crate::run::Runner::accelerator_name),
        qemu: runner.map(crate::run::Runner::qemu_version),
        guest_image: runner.map(|runner| runner.image_digest().to_owned()),
        repeat: request.repeat.clone(),
    };
    let name = format!("bisect-{}", method.scenario.name.replace('/', "-"));
    let folder = RunFolder::create(&workspace.project.runs(), &name)?;
    folder.write_json("report.json", &report)?;
    folder.write("report.txt", report::text(&report).as_bytes())?;
    Ok((report, folder.path().to_owned()))
}

/// Everything that decides what the steps say.
fn key(request: &BisectRequest<'_>, method: &Method<'_>, fixed: &str) -> Digest {
    let mut digester = Digester::new();
    let common = request.repository.common().as_os_str();
    digester
        .field("repository", common.as_encoded_bytes())
        .field("good", &request.good.id)
        .field("bad", &request.bad.id)
        .field("first parent", [u8::from(request.first_parent)])
        .field("scenario", &method.scenario.text)
        .field("seeds", format!("{:?}", method.seeds))
        .field("plan", format!("{:?}", method.plan))
        .field("shift", format!("{:?}", method.shift))
        .field("append", format!("{:?}", method.append))
        .field("broken is bad", [u8::from(method.broken_is_bad)])
        .field("host", fixed);
    for patch in method.patches {
        let way = match patch.direction {
            Direction::Apply => "apply",
            Direction::Revert => "revert",
        };
        digester.field(way, patch.digest().to_string());
    }
    for fragment in method.fragments {
        digester.field("fragment", &fragment.text);
    }
    digester.finish()
}

/// Who judges commits.
trait Commits {
    /// Judges one; `clean` builds it from nothing.
    async fn judge(&mut self, commit: &Commit, clean: bool) -> Result<Judged, Error>;
}

/// Commits as kernels that are built and run.
struct Kernels<'a, 'b> {
    workspace: &'a Workspace,
    repository: &'a Repository,
    judge: Judge<'b>,
}

impl Commits for Kernels<'_, '_> {
    async fn judge(&mut self, commit: &Commit, clean: bool) -> Result<Judged, Error> {
        let name = format!("{}@{}", self.repository.name(), abbreviated(&commit.id));
        let wanted = self
            .workspace
            .catalog
            .of_commit(self.repository, commit, name)?;
        self.judge.judge(wanted, clean).await
    }
}

fn fault(error: RepositoryError) -> Error {
    Error::Kernel(SourceError::from(error).into())
}
