//! A repository with a known culprit is bisected, by `numalab bisect`'s own functions and by
//! `git bisect run numalab judge`.
//!
//! The repository is made by `ci/bisect-repository`, which says what is in it: the short form
//! here, and the long one as well with `NUMALAB_BISECT=long` in the environment. The first
//! commit is a whole build; each further one is a file or two.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use libtest_mimic::Trial;
use miette::{IntoDiagnostic as _, miette};
use numalab::guest::mode::AcceleratorChoice;
use numalab::jobs::bisect::judge::{Judge, Method};
use numalab::jobs::bisect::report::{self, Outcome};
use numalab::jobs::bisect::{self, BisectRequest};
use numalab::run::Runner;
use numalab::ui::Ui;
use numalab_kernels::source::repository::Repository;
use tokio_util::sync::CancellationToken;

use crate::Bench;
use numalab::testing::block_on;

const SCENARIO: &str = "vma/late-vma-scan";

pub(crate) fn trials(bench: &Arc<Bench>) -> Vec<Trial> {
    let long = std::env::var("NUMALAB_BISECT").is_ok_and(|form| form == "long");
    let forms = ["short", "long"].into_iter().take(1 + usize::from(long));
    let trials = forms.map(|form| {
        let bench = Arc::clone(bench);
        Trial::test(format!("bisect::{form}"), move || {
            block_on(|cancel| async move { found(&bench, form, &cancel).await })
        })
        // Each builds a kernel from nothing in a tree of its own, the long one three.
        .with_ignored_flag(form == "long")
    });
    trials.collect()
}

async fn found(bench: &Bench, form: &str, cancel: &CancellationToken) -> miette::Result<()> {
    let workspace = &bench.workspace;
    let place = repository(bench, form)?;
    let repository = Repository::open(&place).into_diagnostic()?;
    let commit = |name| repository.commit(name).into_diagnostic();
    let culprit = commit("culprit")?;
    let scenario = bench
        .scenarios
        .iter()
        .find(|scenario| scenario.name == SCENARIO)
        .ok_or_else(|| miette!("{SCENARIO} is gone"))?;
    let method = Method {
        scenario,
        seeds: &[1, 2, 3],
        plan: None,
        shift: None,
        append: &[],
        jobs: None,
        patches: &[],
        settings: &[],
        broken_is_bad: false,
    };
    let request = BisectRequest {
        repository: &repository,
        good: commit("good")?,
        bad: commit("bad")?,
        first_parent: false,
        // Two more whole builds; the long form has the time.
        verify: form == "long",
        restart: true,
        repeat: format!(
            "numalab bisect --repo {} --good good --bad bad {SCENARIO}",
            place.display()
        ),
    };
    bisect::check(&request)?;
    let host = Runner::check(workspace, false, AcceleratorChoice::Auto)?;
    let ui = Ui::new(false);
    let judge = Judge::new(workspace, host, &method, &ui, cancel);
    let (report, folder) =
        bisect::run(workspace, &request, judge, &method, form, None, &ui).await?;
    let text = report::text(&report);
    println!("{text}report: {folder}");
    let expected = Outcome::Found {
        commit: culprit.id.clone(),
    };
    if report.outcome != expected {
        return Err(miette!("{} is the culprit\n{text}", culprit.shown()));
    }
    by_git(&place, &culprit.id)?;
    if form == "short" {
        // Two gigabytes, made again in a minute.
        std::fs::remove_dir_all(&place).into_diagnostic()?;
    }
    Ok(())
}

/// The same by plain git, which marks commits by `judge`'s exit codes.
fn by_git(place: &Path, culprit: &str) -> miette::Result<()> {
    let program = program()?;
    git(place, &["bisect", "reset"])?;
    git(place, &["bisect", "start", "bad", "good"])?;
    let program = program.to_string_lossy();
    let said = git(place, &["bisect", "run", &program, "judge", SCENARIO])?;
    let found = git(place, &["rev-parse", "refs/bisect/bad"])?;
    let log = git(place, &["bisect", "log"])?;
    git(place, &["bisect", "reset"])?;
    println!("{said}\n{log}");
    if found.trim() != culprit || !said.contains("is the first bad commit") {
        return Err(miette!(
            "git finds {found}, and {culprit} is the culprit\n{said}"
        ));
    }
    Ok(())
}

/// The command, which the test runner has built beside this test.
fn program() -> miette::Result<PathBuf> {
    let own = std::env::current_exe().into_diagnostic()?;
    let folders = own.ancestors().skip(1).take(2);
    folders
        .map(|folder| folder.join("numalab"))
        .find(|program| program.is_file())
        .ok_or_else(|| miette!("there is no `numalab` near {own:?}: `cargo build` makes it"))
}

/// The repository, made if it is not there.
fn repository(bench: &Bench, form: &str) -> miette::Result<PathBuf> {
    let root = bench.workspace.project.suites().join("..");
    let place = root.join("target/numalab/bisect").join(form);
    let place = place.into_std_path_buf();
    if git(&place, &["rev-parse", "--verify", "bad^{commit}"]).is_ok() {
        return Ok(place);
    }
    let _ = std::fs::remove_dir_all(&place);
    let output = Command::new(root.join("ci/bisect-repository"))
        .arg(&place)
        .arg(form)
        .env("NUMALAB_CACHE", bench.workspace.cache.root())
        .output()
        .into_diagnostic()?;
    said("ci/bisect-repository", &output)?;
    Ok(place)
}

fn git(place: &Path, words: &[&str]) -> miette::Result<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(place)
        .args(words)
        .output();
    said(
        &format!("git {}", words.join(" ")),
        &output.into_diagnostic()?,
    )
}

fn said(what: &str, output: &Output) -> miette::Result<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    match output.status.success() {
        true => Ok(out),
        false => Err(miette!("{what}: {}\n{out}{errors}", output.status)),
    }
}
