//! A bisection of kernels, from the request to its report.

use camino::Utf8PathBuf;
use numalab_kernels::Digest;
use numalab_kernels::digest::Digester;
use numalab_kernels::source::repository::{Commit, Repository, abbreviated};
use numalab_kernels::spec::Direction;

use super::ends::BisectRequest;
use super::judge::{Judge, Method};
use super::report::{self, Report};
use super::search::{Commits, Search};
use super::state::State;
use super::step::CommitResult;
use crate::error::Error;
use crate::report::SCHEMA;
use crate::run::Runner;
use crate::run::folder::RunFolder;
use crate::ui::Ui;
use crate::workspace::Workspace;

/// Carries out a bisection and writes its report into `folder`, or into a new run folder, which
/// is returned with it.
///
/// # Errors
/// This machine does not allow an answer, or a signal came; then the same request goes on
/// after the last step.
pub async fn run(
    workspace: &Workspace,
    request: &BisectRequest<'_>,
    judge: Judge<'_>,
    method: &Method<'_>,
    host: &str,
    folder: Option<Utf8PathBuf>,
    ui: &Ui,
) -> Result<(Report, Utf8PathBuf), Error> {
    let key = key(request, method, host);
    let state = State::open(&workspace.cache, &key, request.restart)?;
    let resumed = state.steps().len();
    let kernels = Kernels {
        workspace,
        repository: request.repository,
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
        accelerator: runner.map(Runner::accelerator_name),
        qemu: runner.map(Runner::qemu_version),
        guest_image: runner.map(|runner| runner.image_digest().to_owned()),
        repeat: request.repeat.clone(),
    };
    let folder = match folder {
        Some(folder) => RunFolder::at(folder),
        None => {
            let name = format!("bisect-{}", method.scenario.name.replace('/', "-"));
            RunFolder::create(&workspace.project.runs(), &name)?
        }
    };
    folder.write_json("report.json", &report)?;
    folder.write("report.txt", report::text(&report).as_bytes())?;
    Ok((report, folder.path().to_owned()))
}

/// A digest of everything that decides the marks. `host` describes QEMU and the guest image.
fn key(request: &BisectRequest<'_>, method: &Method<'_>, host: &str) -> Digest {
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
        .field("settings", format!("{:?}", method.settings))
        .field("broken is bad", [u8::from(method.broken_is_bad)])
        .field("host", host);
    for patch in method.patches {
        let direction = match patch.direction {
            Direction::Apply => "apply",
            Direction::Revert => "revert",
        };
        digester.field(direction, patch.digest().to_string());
    }
    digester.finish()
}

/// Judges commits by building and running them.
struct Kernels<'a, 'b> {
    workspace: &'a Workspace,
    repository: &'a Repository,
    judge: Judge<'b>,
}

impl Commits for Kernels<'_, '_> {
    async fn judge(&mut self, commit: &Commit, clean: bool) -> Result<CommitResult, Error> {
        let name = format!("{}@{}", self.repository.name(), abbreviated(&commit.id));
        let catalog = &self.workspace.catalog;
        let spec = catalog.of_commit(self.repository, commit, name)?;
        self.judge.judge(spec, clean).await
    }
}
