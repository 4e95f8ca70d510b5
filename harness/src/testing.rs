//! A folder of scenarios as tests: a `main` for a test target with `harness = false`.
//!
//! The test runner sees one test for each scenario and kernel, so `cargo nextest run`
//! lists, filters and runs them like any others.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use libtest_mimic::{Arguments, Failed, Trial};
use miette::miette;
use tokio_util::sync::CancellationToken;

use crate::report::text;
use crate::run::cached_run::CachePolicy;
use crate::scenario::Scenario;
use crate::signals::cancel_on_signals;
use crate::verdict::Verdict;
use crate::workspace::{OwnKernels, Workspace};

/// The kernel of a test target that names none.
const DEFAULT_KERNEL: &str = "linux-6.12";

/// Makes the `main` function of a test target whose tests are the scenarios of a folder.
///
/// In `Cargo.toml`:
///
/// ```toml
/// [[test]]
/// name = "scenarios"
/// harness = false
/// ```
///
/// and in `tests/scenarios.rs`:
///
/// ```no_run
/// numalab::tests_main!("scenarios/");
/// ```
///
/// The folder is relative to the crate's `Cargo.toml` and is searched recursively for
/// `*.yaml`. A test is called `<suite>::<scenario>::<kernel>` and passes if the verdict is
/// `pass`. The kernel is `linux-6.12`, or those that follow the folder:
/// `tests_main!("scenarios/", "linux-6.1", "linux-6.12")`. `NUMALAB_KERNEL` in the
/// environment replaces them all.
#[macro_export]
macro_rules! tests_main {
    ($folder:literal $(, $kernel:literal)* $(,)?) => {
        fn main() -> ::std::process::ExitCode {
            $crate::testing::main(
                concat!(env!("CARGO_MANIFEST_DIR"), "/", $folder),
                &[$($kernel),*],
            )
        }
    };
}

/// Runs the scenarios of a folder as tests on some kernels; see [`tests_main!`](crate::tests_main).
///
/// Exits with 0 if all tests pass, with 101 if one fails, and with 2 if a scenario or a
/// kernel spec cannot be used: a scenario never vanishes from the list in silence.
pub fn main(folder: &str, kernels: &[&str]) -> ExitCode {
    let arguments = Arguments::from_args();
    crate::ui::show_errors_plainly();
    match trials(Utf8Path::new(folder), kernels) {
        Ok(trials) => libtest_mimic::run(&arguments, trials).exit_code(),
        Err(report) => {
            eprintln!("{report:?}");
            ExitCode::from(2)
        }
    }
}

fn trials(folder: &Utf8Path, kernels: &[&str]) -> miette::Result<Vec<Trial>> {
    let workspace = Arc::new(Workspace::open()?);
    let own = OwnKernels::of(&workspace.environment)?.map(|own| own.kernel);
    let kernels: Vec<String> = match own {
        Some(own) => vec![own],
        None if kernels.is_empty() => vec![DEFAULT_KERNEL.to_owned()],
        None => kernels.iter().map(|&kernel| kernel.to_owned()).collect(),
    };
    let specs: Vec<(String, Option<String>)> = kernels
        .into_iter()
        .map(|kernel| {
            let release = workspace.wanted(&kernel)?.release();
            Ok((kernel, release))
        })
        .collect::<miette::Result<_>>()?;
    let mut trials = Vec::new();
    for file in yaml_files(folder)? {
        let scenario = Arc::new(Scenario::load(&file)?);
        for (kernel, release) in &specs {
            let does_not_apply = release
                .as_deref()
                .is_some_and(|release| scenario.does_not_apply(release).is_some());
            if does_not_apply {
                continue;
            }
            let (workspace, scenario) = (Arc::clone(&workspace), Arc::clone(&scenario));
            let kernel = kernel.clone();
            trials.push(Trial::test(name(&scenario, &kernel), move || {
                block_on(|cancel| async move {
                    let policy = CachePolicy::of_test(&workspace.environment);
                    let runner = workspace.runner_with(&kernel, policy, cancel).await?;
                    let report = runner.run(&scenario, 1).await?;
                    match report.judgement.verdict {
                        Verdict::Pass => Ok(()),
                        verdict => Err(miette!("{verdict}\n{}", text::details(&report))),
                    }
                })
            }));
        }
    }
    Ok(trials)
}

/// The YAML files under a folder, sorted by path.
fn yaml_files(folder: &Utf8Path) -> miette::Result<Vec<Utf8PathBuf>> {
    let mut files = Vec::new();
    for entry in walkdir::WalkDir::new(folder).sort_by_file_name() {
        let entry = entry.map_err(|error| miette!("scenarios in {folder}: {error}"))?;
        let is_yaml = entry.path().extension() == Some("yaml".as_ref());
        if entry.file_type().is_file() && is_yaml {
            files.push(utf8(entry.path())?);
        }
    }
    if files.is_empty() {
        return Err(miette!(
            "there is no scenario (*.yaml) in {folder}; the folder is relative to Cargo.toml"
        ));
    }
    Ok(files)
}

fn utf8(path: &Path) -> miette::Result<Utf8PathBuf> {
    Utf8PathBuf::try_from(path.to_owned())
        .map_err(|_| miette!("{}: the path is not UTF-8", path.display()))
}

/// The name of a test: `<suite>::<scenario>::<variant>`.
pub fn name(scenario: &Scenario, variant: &str) -> String {
    format!("{}::{variant}", scenario.name.replace('/', "::"))
}

/// Runs a test's body on a runtime of its own. SIGINT and SIGTERM, which test runners send,
/// cancel the token.
///
/// # Errors
/// What the body returns.
pub fn block_on<F>(body: impl FnOnce(CancellationToken) -> F) -> Result<(), Failed>
where
    F: Future<Output = miette::Result<()>>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(async { body(cancel_on_signals()).await });
    result.map_err(|report| Failed::from(format!("{report:?}")))
}
