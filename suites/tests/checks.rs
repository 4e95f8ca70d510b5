//! Checks of series whose faults are known: what is said of each, and with which exit code.

use std::sync::Arc;

use libtest_mimic::Trial;
use miette::miette;
use numalab::guest::mode::AcceleratorChoice;
use numalab::jobs::check::touched::touched;
use numalab::jobs::check::{self, text};
use numalab::jobs::comparison::TestMatrix;
use numalab::run::Runner;
use numalab::scenario::Scenario;
use numalab::ui::Ui;
use numalab::workspace::Limits;
use numalab_kernels::series;
use numalab_kernels::spec::Direction;
use tokio_util::sync::CancellationToken;

use crate::Bench;
use numalab::testing::block_on;

/// A series and what is to be said of it.
struct Case {
    name: &'static str,
    base: &'static str,
    /// Patches of this folder, which the base has as well.
    below: &'static [&'static str],
    /// Patch files, from the project's folder.
    series: &'static [&'static str],
    each: bool,
    debug: bool,
    /// Whether it is told which lines ran, and where the kernels part.
    watched: bool,
    scenario: &'static str,
    exit_code: u8,
    /// What the report must say.
    says: &'static [&'static str],
    /// What it must not.
    never: &'static [&'static str],
}

const LATE: &str = "vma/late-vma-scan";
const SKIP: &str = "cpuset/single-node-skip";

const CASES: [Case; 8] = [
    Case {
        name: "not-exercised",
        base: "linux-6.12",
        below: &[],
        series: &["suites/tests/patches/tiering-only.patch"],
        each: false,
        debug: false,
        watched: true,
        scenario: LATE,
        exit_code: 3,
        says: &[
            "\nnot exercised\n  no changed line runs in vma/late-vma-scan\n",
            "first trace event that differs",
        ],
        never: &["\nholds\n", "pass on both kernels"],
    },
    Case {
        name: "each-patch",
        base: "linux-6.12",
        below: &[],
        series: &[
            "kernels/patches/no-scan-period-limit.patch",
            "suites/tests/patches/does-not-compile.patch",
            "kernels/patches/no-late-vma-scan.patch",
        ],
        each: true,
        debug: false,
        watched: false,
        scenario: LATE,
        exit_code: 1,
        says: &[
            "patch 2 does not build",
            "patch 3 (without patch 2) breaks vma/late-vma-scan",
        ],
        never: &["patch 1 breaks", "patch 1 does not"],
    },
    Case {
        name: "panics-at-boot",
        base: "linux-6.12",
        below: &[],
        series: &["suites/tests/patches/panics-at-boot.patch"],
        each: true,
        debug: false,
        watched: false,
        scenario: "smoke/two-nodes",
        exit_code: 1,
        says: &[
            "it does not boot",
            "patch 1 does not boot",
            "a panic on purpose",
        ],
        never: &["patch 1 breaks"],
    },
    Case {
        name: "base-that-warns",
        base: "linux-6.12",
        below: &["warns-at-boot"],
        series: &["kernels/patches/cpuset-skip.patch"],
        each: false,
        debug: false,
        watched: false,
        scenario: SKIP,
        exit_code: 0,
        says: &[
            "it fixes cpuset/single-node-skip",
            "both kernels print, so it is ignored, at boot",
        ],
        never: &["only the patched kernel prints"],
    },
    Case {
        name: "warns-on-scan",
        base: "linux-6.12",
        below: &["warns-at-boot"],
        series: &["suites/tests/patches/warns-on-scan.patch"],
        each: false,
        debug: false,
        watched: false,
        scenario: LATE,
        exit_code: 1,
        says: &[
            "it breaks vma/late-vma-scan",
            "only the patched kernel prints, after boot",
            "a warning of a scan on purpose",
        ],
        never: &["only the base prints"],
    },
    Case {
        name: "config-guard",
        base: "linux-6.12",
        below: &[],
        series: &["suites/tests/patches/not-compiled.patch"],
        each: false,
        debug: false,
        watched: false,
        scenario: LATE,
        exit_code: 0,
        says: &[
            "changes nothing",
            "mm/zswap.c: it is compiled only with CONFIG_ZSWAP, which is not set",
        ],
        never: &["broken"],
    },
    Case {
        name: "debug-leak",
        base: "linux-6.12",
        below: &[],
        series: &["suites/tests/patches/leaks-on-each-scan.patch"],
        each: false,
        debug: true,
        watched: false,
        scenario: LATE,
        exit_code: 1,
        says: &[
            "pass on both kernels: vma/late-vma-scan",
            "only the patched debug kernel prints a fault in vma/late-vma-scan",
            "unreferenced object",
        ],
        never: &["only the base prints"],
    },
    Case {
        name: "debug-locks",
        base: "linux-6.12",
        below: &[],
        series: &["suites/tests/patches/locks-both-ways.patch"],
        each: false,
        debug: true,
        watched: false,
        scenario: LATE,
        exit_code: 1,
        says: &[
            "pass on both kernels: vma/late-vma-scan",
            "only the patched debug kernel prints a fault in vma/late-vma-scan",
            "possible circular locking dependency",
        ],
        never: &["only the base prints"],
    },
];

pub(crate) fn trials(bench: &Arc<Bench>) -> Vec<Trial> {
    let trials = CASES.iter().map(|case| {
        let bench = Arc::clone(bench);
        let trial = Trial::test(format!("check::{}::{}", case.base, case.name), move || {
            block_on(|cancel| async move { said(&bench, case, &cancel).await })
        });
        // A kernel that checks itself takes long to build from nothing, twice as long as a
        // lean one: these are run when asked for.
        trial.with_ignored_flag(case.debug)
    });
    trials.collect()
}

async fn said(bench: &Bench, case: &Case, cancel: &CancellationToken) -> miette::Result<()> {
    let (workspace, ui) = (&bench.workspace, Ui::new(false));
    let suites = workspace.project.suites();
    let root = suites.parent().unwrap_or(&suites);
    let word = case.below.iter().fold(case.base.to_owned(), |word, name| {
        format!("{word}+{suites}/tests/patches/{name}.patch")
    });
    let base = workspace.wanted(&word)?;
    let words: Vec<String> = case.series.iter().map(|word| (*word).to_owned()).collect();
    let series = series::read(
        &words,
        Direction::Apply,
        root.as_std_path(),
        &workspace.cache,
    )
    .map_err(|error| miette!("{error}"))?;
    let scenarios: Vec<Scenario> = bench
        .scenarios
        .iter()
        .filter(|scenario| scenario.name == case.scenario)
        .cloned()
        .collect();
    let runner = Runner::check(workspace, false, AcceleratorChoice::Auto)?;
    let limits = Limits::default();
    let touched = touched(workspace, &base, &series, limits, &ui, cancel)?;
    let options = check::CheckOptions {
        base: &base,
        series: &series,
        touched: &touched,
        matrix: TestMatrix {
            scenarios: &scenarios,
            seeds: &[1],
            shift: None,
            append: &[],
            // The test runner already runs as many guests as fit.
            jobs: Some(1),
            budget: None,
        },
        selected: &[],
        each: case.each,
        debug: case.debug,
        coverage: case.watched,
        trace: case.watched,
        allow_unexercised: false,
        folder: None,
        repeat: "numalab check ...",
    };
    let (report, folder) = check::run(workspace, runner, &options, limits, &ui, cancel).await?;
    let text = text::check(&report);
    let missing: Vec<_> = case
        .says
        .iter()
        .filter(|says| !text.contains(**says))
        .collect();
    let wrong: Vec<_> = case
        .never
        .iter()
        .filter(|never| text.contains(**never))
        .collect();
    if !missing.is_empty() || !wrong.is_empty() || report.exit_code != case.exit_code {
        return Err(miette!(
            "exit code {}, and {} is expected; {missing:?} is missing, {wrong:?} must not be there\n{text}report: {folder}",
            report.exit_code,
            case.exit_code,
        ));
    }
    println!("{text}");
    Ok(())
}
