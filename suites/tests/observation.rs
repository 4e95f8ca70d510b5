//! What is told besides verdicts: which changed lines ran, where two kernels part, and a run
//! packed so that QEMU alone repeats it.

use std::process::{Command, Stdio};
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use libtest_mimic::Trial;
use miette::{IntoDiagnostic as _, miette};
use numalab::guest::mode::AcceleratorChoice;
use numalab::jobs::comparison::TestMatrix;
use numalab::jobs::coverage::{self, Executed};
use numalab::jobs::divergence::{self, DivergencePoint};
use numalab::run::bundle;
use numalab::run::{RunRequest, Runner};
use numalab::scenario::Scenario;
use numalab::ui::Ui;
use numalab::workspace::Limits;
use numalab_kernels::profile::Side;
use tokio_util::sync::CancellationToken;

use crate::Bench;
use numalab::testing::block_on;

const BASE: &str = "linux-6.12";
const SKIP: &str = "cpuset/single-node-skip";
const SCAN: &str = "vma/late-vma-scan";

pub(crate) fn trials(bench: &Arc<Bench>) -> Vec<Trial> {
    let trial = |name: &str| (format!("observe::{name}"), Arc::clone(bench));
    let (coverage, divergence, bundle) = (trial("coverage"), trial("divergence"), trial("bundle"));
    vec![
        Trial::test(coverage.0, move || {
            block_on(|cancel| async move { changed_lines(&coverage.1, &cancel).await })
        }),
        Trial::test(divergence.0, move || {
            block_on(|cancel| async move { first_divergence(&divergence.1, &cancel).await })
        }),
        Trial::test(bundle.0, move || {
            block_on(|cancel| async move { packed(&bundle.1, &cancel).await })
        }),
    ]
}

fn scenarios(bench: &Bench, name: &str) -> Vec<Scenario> {
    let all = bench.scenarios.iter();
    all.filter(|scenario| scenario.name == name)
        .cloned()
        .collect()
}

fn matrix(scenarios: &[Scenario]) -> TestMatrix<'_> {
    TestMatrix {
        scenarios,
        seeds: &[1],
        shift: None,
        append: &[],
        jobs: Some(1),
        budget: None,
    }
}

/// Patches of which a scenario runs an added line, no line, and a removed line.
async fn changed_lines(bench: &Bench, cancel: &CancellationToken) -> miette::Result<()> {
    let (workspace, ui) = (&bench.workspace, Ui::new(false));
    let base = workspace.wanted(BASE)?;
    let kernel = workspace.kernel(&base, Limits::default(), &ui, cancel)?;
    let runner = Runner::check(workspace, false, AcceleratorChoice::Auto)?;
    let runner = runner.ready(&kernel.id, &ui, cancel).await?;
    let patches = workspace.project.suites().join("tests/patches");
    for (word, scenario, side, expected) in [
        ("cpuset-skip".to_owned(), SKIP, Side::Patched, Executed::Yes),
        (
            format!("{BASE}+{patches}/tiering-only.patch"),
            SCAN,
            Side::Base,
            Executed::No,
        ),
        // It only removes lines.
        (
            format!("{BASE}+{patches}/no-scan-delay.patch"),
            SKIP,
            Side::Base,
            Executed::Yes,
        ),
    ] {
        let patched = workspace.wanted(&word)?;
        let scenarios = scenarios(bench, scenario);
        let matrix = matrix(&scenarios);
        let coverage =
            coverage::measure(workspace, &runner, &base, &patched, &matrix, &ui, cancel).await?;
        let text = coverage::text::coverage(&coverage);
        println!("{text}");
        if coverage.executed(scenario) != expected {
            return Err(miette!(
                "{word} is {expected:?} by {scenario}, but:\n{text}"
            ));
        }
        let lines = coverage.files.iter().filter(|file| file.side == side);
        let lines = lines.flat_map(|file| &file.lines);
        // Comments and blank lines have no count; each of these patches changes a condition.
        let counts: Vec<u64> = lines.filter_map(|line| line.steps[scenario]).collect();
        let ran = counts.iter().any(|count| *count > 0);
        if counts.is_empty() || ran != (expected == Executed::Yes) {
            return Err(miette!(
                "the changed lines of {word} ran {counts:?} times\n{text}"
            ));
        }
    }
    Ok(())
}

/// The fix and its base part in the scenario that it fixes; a kernel and itself never do.
async fn first_divergence(bench: &Bench, cancel: &CancellationToken) -> miette::Result<()> {
    let (workspace, ui) = (&bench.workspace, Ui::new(false));
    let base = workspace.kernel(&workspace.wanted(BASE)?, Limits::default(), &ui, cancel)?;
    let fixed = workspace.kernel(
        &workspace.wanted("cpuset-skip")?,
        Limits::default(),
        &ui,
        cancel,
    )?;
    let runner = Runner::check(workspace, false, AcceleratorChoice::Auto)?;
    let runner = runner.ready(&base.id, &ui, cancel).await?;
    let scenarios = scenarios(bench, SKIP);
    let mut all = Vec::new();
    for patched in [&fixed, &base] {
        let (ids, matrix) = ([&base.id, &patched.id], matrix(&scenarios));
        all.extend(divergence::find(&runner, ids, &matrix, &ui, cancel).await?);
    }
    let text = divergence::text::divergences(&all);
    println!("{text}");
    match (&all[0].found, &all[1].found) {
        (DivergencePoint::Differs { base: Some(_), .. }, DivergencePoint::Same { events })
            if *events > 0 =>
        {
            Ok(())
        }
        _ => Err(miette!(
            "the fix differs from its base, and the base from nothing:\n{text}"
        )),
    }
}

/// A bundle that is unpacked elsewhere gives the same digits where there is no numalab.
async fn packed(bench: &Bench, cancel: &CancellationToken) -> miette::Result<()> {
    let (workspace, ui) = (&bench.workspace, Ui::new(false));
    let kernel = workspace.kernel(
        &workspace.wanted("cpuset-skip")?,
        Limits::default(),
        &ui,
        cancel,
    )?;
    let runner = Runner::check(workspace, false, AcceleratorChoice::Auto)?;
    let runner = runner.ready(&kernel.id, &ui, cancel).await?;
    let scenarios = scenarios(bench, SKIP);
    let request = RunRequest::new(&scenarios[0], &kernel.id, 1, None, &[])?;
    let report = runner.run(&request, &ui, cancel).await?;

    let elsewhere = tempfile::tempdir().into_diagnostic()?;
    let elsewhere = Utf8Path::from_path(elsewhere.path()).ok_or_else(|| miette!("not UTF-8"))?;
    let file = elsewhere.join("a bundle.tar.xz");
    let made = bundle::make(workspace, &report.folder, Some(&file))?;
    let again = bundle::make(
        workspace,
        &report.folder,
        Some(&elsewhere.join("again.tar.xz")),
    )?;
    let bytes = |file: &Utf8PathBuf| std::fs::read(file).into_diagnostic();
    if bytes(&made.file)? != bytes(&again.file)? || !made.left_out.is_empty() {
        return Err(miette!(
            "two bundles of one run differ, or lack something: {made:?}"
        ));
    }
    println!("{} bytes", made.bytes);
    run(Command::new("tar")
        .arg("xf")
        .arg(&file)
        .current_dir(elsewhere))?;
    let folder = elsewhere.join("cpuset-single-node-skip-cpuset-skip-seed1");
    let mut repeat = Command::new("sh");
    repeat.arg(folder.join("run.sh")).env_clear();
    for variable in ["PATH", "QEMU"] {
        let name = if variable == "QEMU" {
            "NUMALAB_QEMU"
        } else {
            variable
        };
        repeat.envs(std::env::var_os(name).map(|value| (variable, value)));
    }
    // Neither a home nor a cache.
    repeat.env("HOME", "/nonexistent").current_dir("/");
    let said = run(&mut repeat)?;
    println!("{said}");
    let line = |counter: &str| {
        let line = said.lines().find(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.first() == Some(&"wide") && words.get(1) == Some(&counter)
        });
        let words: Vec<i64> = line?
            .split_whitespace()
            .skip(2)
            .filter_map(|word| word.parse().ok())
            .collect();
        Some(words)
    };
    let value = report.measurements["wide"]["numa_pte_updates"];
    if line("numa_pte_updates") != Some(vec![value, value]) || !said.contains("identical: ") {
        return Err(miette!("the bundle does not give {value} again:\n{said}"));
    }
    // One bit of the plan, and it is told.
    let page = folder.join("plan.page0");
    let mut plan = bytes(&page)?;
    plan[100] ^= 1;
    std::fs::write(&page, plan).into_diagnostic()?;
    match run(&mut repeat) {
        Err(error) if format!("{error:?}").contains("damaged") => Ok(()),
        other => Err(miette!("a damaged bundle was repeated: {other:?}")),
    }
}

fn run(command: &mut Command) -> miette::Result<String> {
    let output = command.stdin(Stdio::null()).output().into_diagnostic()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    Err(miette!("{command:?}: {}\n{out}{err}", output.status))
}
