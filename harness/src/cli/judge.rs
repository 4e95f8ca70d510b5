//! `numalab judge`: one step of `git bisect run`.
//!
//! Its exit codes are git's: 0 good, 1 bad, 125 cannot be judged, and 128 or more to stop. A
//! fault of ours, of the machine's or of the command line's must never mark a commit.

use std::ffi::OsString;
use std::path::Path;

use numalab_kernels::KernelSpec;
use numalab_kernels::source::repository::Repository;
use numalab_kernels::source::repository::abbreviated;
use tokio_util::sync::CancellationToken;

use super::bisect::Judging;
use super::{Failure, INPUT, print};
use crate::cli::signals::INTERRUPTED;
use crate::error::Error;
use crate::jobs::bisect::answer::Answer;
use crate::jobs::bisect::step::Judge;
use crate::ui::Ui;
use crate::workspace::Workspace;

/// git's word for a commit that cannot be tested.
const SKIP: u8 = 125;

// git goes on for codes below 128. 130 is an interruption's.
/// The command line or a file is wrong; git's own code for that.
pub(super) const USAGE: u8 = 129;
/// This machine does not allow an answer about any commit.
const UNABLE: u8 = 131;
/// numalab has failed.
const PANICKED: u8 = 134;

pub(super) const EXITS: &str = "Exit codes, as `git bisect run` takes them: 0 good, 1 bad, 125 cannot \
be judged (it is skipped); git stops at 129 wrong input, 130 interrupted, 131 no answer on this \
machine, 134 a fault of numalab.";

#[derive(Debug, clap::Args)]
pub(super) struct JudgeArgs {
    /// The scenario: `suite/scenario` or a .yaml file.
    scenario: String,
    #[command(flatten)]
    judging: Judging,
}

pub(super) async fn judge(
    args: &JudgeArgs,
    json: bool,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<u8, Failure> {
    let here = std::env::current_dir().map_err(Error::file("find", ".".into()))?;
    // Else every commit of a repository that is no kernel's would be skipped. A kernel's
    // source may lie within another repository.
    let is_kernel = |folder: &Path| folder.join("Kconfig").is_file();
    let top = here.ancestors().find(|folder| folder.join(".git").exists());
    if let Some(top) = top.filter(|top| !is_kernel(top) && !is_kernel(&here)) {
        return Err(Failure::Input(miette::miette!(
            help = "run it inside the checkout of the kernel that git bisects",
            "{} is no kernel source: it has no Kconfig",
            top.display()
        )));
    }
    let (means, host) = args.judging.means(&args.scenario)?;
    let wanted = checkout(&means.workspace, &here)?;
    let method = args.judging.method(&means);
    if let Some(plan) = method.plan {
        ui.say(&plan.to_string());
    }
    let name = wanted.name.clone();
    let judged = Judge::new(&means.workspace, host, &method, ui, cancel)
        .judge(wanted, false)
        .await?;
    if json {
        print(&format!("{}\n", super::json(&judged)?))?;
    } else {
        let head = Repository::open(&here).and_then(|found| found.commit("HEAD"));
        let shown = head.map_or(name, |head| {
            format!("{} (\"{}\")", abbreviated(&head.id), head.subject)
        });
        let why = crate::guest::escape::escape(judged.why.as_bytes());
        print(&format!(
            "{}: {shown}: {why} (build {:.1} s, guests {:.1} s)\n",
            judged.answer, judged.build_seconds, judged.guest_seconds
        ))?;
    }
    Ok(match judged.answer {
        Answer::Good => 0,
        Answer::Bad => 1,
        Answer::CannotJudge => SKIP,
    })
}

/// The kernel of a work tree: of its commit where nothing is edited, which is read from git's
/// objects, else of its files.
fn checkout(workspace: &Workspace, here: &Path) -> Result<KernelSpec, Error> {
    let repository = Repository::open(here).ok();
    if let Some(repository) = repository.filter(|found| found.is_clean_at_top())
        && let Ok(commit) = repository.commit("HEAD")
    {
        let name = format!("{}@{}", repository.name(), abbreviated(&commit.id));
        return Ok(workspace.catalog.of_commit(&repository, &commit, name)?);
    }
    Ok(workspace.catalog.resolve(".", here, &workspace.cache)?)
}

/// Whether the command line is one of `judge`, as far as that can be told of one that may be
/// wrong.
pub(super) fn is_meant(mut arguments: impl Iterator<Item = OsString>) -> bool {
    arguments
        .find(|argument| !argument.as_encoded_bytes().starts_with(b"-"))
        .is_some_and(|first| first == "judge")
}

/// Makes a panic in any thread end the process with a code that stops git: the usual 101
/// would mark the commit bad.
pub(super) fn stop_on_panic() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        usual(panic);
        // Guests and builds die with this process.
        std::process::exit(i32::from(PANICKED));
    }));
}

/// An exit code of the other commands as git is to take it: it stops.
pub(super) fn stopping(code: u8) -> u8 {
    match code {
        INPUT => USAGE,
        INTERRUPTED => INTERRUPTED,
        _ => UNABLE,
    }
}
