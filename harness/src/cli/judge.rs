//! `numalab judge`: one step of `git bisect run`.
//!
//! Its exit codes are git's: 0 good, 1 bad, 125 skip, and 128 or more to stop. An error of
//! numalab, of this machine or of the command line must never mark a commit.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use numalab_kernels::KernelSpec;
use numalab_kernels::source::repository::{Commit, Repository, abbreviated};

use super::commit_options::CommitOptions;
use super::context::Context;
use super::exit::{Failure, INPUT};
use crate::error::Error;
use crate::guest::escape::escape;
use crate::jobs::bisect::judge::Judge;
use crate::jobs::bisect::step::Mark;
use crate::signals::INTERRUPTED;
use crate::workspace::Workspace;

/// git's code for a commit that cannot be tested.
const SKIP: u8 = 125;

// git stops at codes of 128 or more.
/// The command line or a file is wrong; git's own code for that.
const USAGE: u8 = 129;
/// This machine does not allow an answer about any commit.
const UNABLE: u8 = 131;
/// A bug of numalab.
const PANICKED: u8 = 134;

pub(super) const HELP: &str = "\
Exit codes, as `git bisect run` reads them: 0 good, 1 bad, 125 skip. git stops at 129 wrong input, \
130 interrupted, 131 this machine does not allow an answer, 134 a bug of numalab.

Example: git bisect start v6.13 v6.12 && git bisect run numalab judge vma/late-vma-scan";

#[derive(Debug, clap::Args)]
pub(super) struct JudgeArgs {
    /// The scenario: `suite/scenario` or a .yaml file.
    #[arg(value_name = "SCENARIO")]
    scenario: String,
    #[command(flatten)]
    commits: CommitOptions,
}

pub(super) async fn judge(args: &JudgeArgs, context: &Context) -> Result<u8, Failure> {
    let ui = &context.ui;
    let here = std::env::current_dir().map_err(Error::file("find", ".".into()))?;
    let repository = Repository::open(&here).ok();
    if let Some(repository) = &repository {
        check_terms(repository)?;
    }
    let asked = repository.as_ref().and_then(bisect_head);
    check_source(&here, repository.as_ref(), asked.as_ref())?;
    let workspace = Workspace::open()?;
    let (inputs, runner) = args
        .commits
        .read(&args.scenario, &workspace, context)
        .await?;
    let (spec, shown) = kernel(&workspace, &here, repository.as_ref(), asked)?;
    let method = args.commits.method(&inputs);
    if let Some(plan) = method.plan {
        ui.say(&plan.to_string());
    }
    let result = Judge::new(&workspace, runner, &method, ui, &context.cancel)
        .judge(spec, false)
        .await?;
    if let Some(what) = &result.host {
        // A skip would outlive the failure.
        return Err(Failure::Environment(miette::miette!(
            help = "run `git bisect run` again",
            "{shown} cannot be judged, and this machine may be the cause, after a second try, too: \
             {what}"
        )));
    }
    context.print(&result, || {
        format!(
            "{}: {shown}: {} (build {:.1} s, guests {:.1} s)\n",
            result.mark,
            escape(result.why.as_bytes()),
            result.build_seconds,
            result.guest_seconds
        )
    })?;
    Ok(match result.mark {
        Mark::Good => 0,
        Mark::Bad => 1,
        Mark::Skip => SKIP,
    })
}

/// Refuses a bisection whose terms do not say which of them a passing commit is. git records
/// exit code 0 as the old term, 1 as the new one.
fn check_terms(repository: &Repository) -> Result<(), Failure> {
    let words = [
        "rev-parse",
        "--path-format=absolute",
        "--git-path",
        "BISECT_TERMS",
    ];
    let file = repository.ask("find its bisection", &words)?;
    let Ok(terms) = fs::read_to_string(file.trim_end_matches('\n')) else {
        return Ok(());
    };
    let mut lines = terms.lines();
    match (lines.next(), lines.next()) {
        (Some("bad"), Some("good")) | (Some("new"), Some("old")) | (None, _) => Ok(()),
        (new, old) => Err(Failure::input(miette::miette!(
            help = "use good and bad, or old for commits that pass and new for those that fail",
            "git bisects with the terms {:?} and {:?}: they do not say which commits pass, and git \
             would record a pass as {:?}",
            old.unwrap_or_default(),
            new.unwrap_or_default(),
            old.unwrap_or_default()
        ))),
    }
}

/// The commit that git asks about without checking it out, as with `--no-checkout` and in bare
/// repositories.
fn bisect_head(repository: &Repository) -> Option<Commit> {
    let words = ["rev-parse", "--verify", "--quiet", "BISECT_HEAD^{commit}"];
    let id = repository.ask("find BISECT_HEAD", &words).ok()?;
    repository.commit(id.trim()).ok()
}

/// Refuses what is not a kernel's source. Otherwise git would skip every commit.
fn check_source(
    here: &Path,
    repository: Option<&Repository>,
    asked: Option<&Commit>,
) -> Result<(), Failure> {
    let is_kernel = |folder: &Path| folder.join("Kconfig").is_file();
    let place = match (repository, asked) {
        (Some(repository), Some(asked)) => {
            let kconfig = repository.file(&asked.id, "Kconfig")?;
            kconfig.is_none().then(|| asked.shown())
        }
        // A kernel's source may lie within another repository.
        _ => here
            .ancestors()
            .find(|folder| folder.join(".git").exists())
            .filter(|top| !is_kernel(top) && !is_kernel(here))
            .map(|top| top.display().to_string()),
    };
    match place {
        None => Ok(()),
        Some(place) => Err(Failure::input(miette::miette!(
            help = "run it in the kernel checkout that git bisects",
            "{} is not a kernel source: it has no Kconfig",
            escape(place.as_bytes())
        ))),
    }
}

/// The kernel to judge, and how to name it: the commit that git asks about, else the checked-out
/// commit, else, where files are edited, those files.
fn kernel(
    workspace: &Workspace,
    here: &Path,
    repository: Option<&Repository>,
    asked: Option<Commit>,
) -> Result<(KernelSpec, String), Error> {
    let clean = repository.filter(|repository| asked.is_some() || repository.is_clean_at_top());
    let commit = asked.or_else(|| repository?.commit("HEAD").ok());
    let shown = commit
        .as_ref()
        .map(|commit| escape(commit.shown().as_bytes()));
    let spec = match (clean, commit) {
        (Some(repository), Some(commit)) => {
            let name = format!("{}@{}", repository.name(), abbreviated(&commit.id));
            workspace.catalog.of_commit(repository, &commit, name)?
        }
        _ => workspace.catalog.resolve(".", here, &workspace.cache)?,
    };
    let shown = shown.unwrap_or_else(|| spec.name.clone());
    Ok((spec, shown))
}

/// Whether the command line, which may be wrong, is one of `judge`.
pub(super) fn is_judge(mut arguments: impl Iterator<Item = OsString>) -> bool {
    arguments
        .find(|argument| !argument.as_encoded_bytes().starts_with(b"-"))
        .is_some_and(|first| first == "judge")
}

/// Makes a panic in any thread end the process with a code that stops git: Rust's own, 101,
/// would mark the commit bad.
pub(super) fn stop_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        // Guests and builds end with this process.
        std::process::exit(i32::from(PANICKED));
    }));
}

/// The code that stops git for an exit code of the other commands.
pub(super) fn stopping(code: u8) -> u8 {
    match code {
        INPUT => USAGE,
        INTERRUPTED => INTERRUPTED,
        _ => UNABLE,
    }
}
