//! `numalab bisect`.

use camino::Utf8PathBuf;
use numalab_kernels::source::repository::Repository;

use super::commit_options::CommitOptions;
use super::context::Context;
use super::exit::Failure;
use crate::error::Error;
use crate::jobs::bisect::judge::Judge;
use crate::jobs::bisect::{self, BisectRequest, report};
use crate::workspace::Workspace;

pub(super) const HELP: &str = "\
Exit codes: 0 the first bad commit was found, 2 wrong input, 3 only a range was found, an end is \
not what it is said to be, or this machine does not allow an answer, 130 interrupted (the same \
command resumes).

Example: numalab bisect --repo ~/linux --good v6.12 --bad HEAD vma/late-vma-scan";

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
    /// Follow only the first parents of merges, as `git bisect start --first-parent` does.
    #[arg(long)]
    first_parent: bool,
    /// Do not verify the answer with builds from scratch, which take minutes.
    #[arg(long)]
    no_verify: bool,
    /// Discard the results of an interrupted run of the same command.
    #[arg(long)]
    restart: bool,
    #[command(flatten)]
    commits: CommitOptions,
}

pub(super) async fn bisect(args: &BisectArgs, context: &Context) -> Result<u8, Failure> {
    let repository = Repository::open(args.repo.as_std_path())?;
    let mut request = BisectRequest {
        repository: &repository,
        good: repository.commit(&args.good)?,
        bad: repository.commit(&args.bad)?,
        first_parent: args.first_parent,
        verify: !args.no_verify,
        restart: args.restart,
        repeat: String::new(),
    };
    bisect::check(&request).map_err(Failure::input)?;
    let workspace = Workspace::open()?;
    let (inputs, runner) = args
        .commits
        .read(&args.scenario, &workspace, context)
        .await?;
    // Names of revisions may mean other commits by then.
    request.repeat = context.command_line.repeat(&[
        ("repo", &[repository.path().display().to_string()]),
        ("good", &[request.good.id.clone()]),
        ("bad", &[request.bad.id.clone()]),
        ("apply", &inputs.apply),
        ("revert", &inputs.revert),
    ]);
    let method = args.commits.method(&inputs);
    let host = format!(
        "live: {}, {}",
        args.commits.guests.is_live(),
        runner.identity()
    );
    let judge = Judge::new(&workspace, runner, &method, &context.ui, &context.cancel);
    let folder = inputs.folder.clone();
    let done = bisect::run(
        &workspace,
        &request,
        judge,
        &method,
        &host,
        folder,
        &context.ui,
    )
    .await;
    if let Err(Error::Interrupted) = done {
        let ui = &context.ui;
        ui.say("interrupted; the same command resumes after the last judged commit");
    }
    let (report, folder) = done?;
    context.print(&report, || {
        format!("{}report: {folder}\n", report::text(&report))
    })?;
    Ok(report.exit_code)
}
