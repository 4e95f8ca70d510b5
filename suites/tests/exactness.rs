//! Exact mode's promise: the same bytes of console and records, whatever the host does, and
//! whether a guest boots cold or is restored.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use camino::Utf8Path;
use libtest_mimic::Trial;
use miette::{IntoDiagnostic as _, miette};
use numalab::guest::mode::AcceleratorChoice;
use numalab::report::{RunReport, StartedFrom, text};
use numalab::run::{RunRequest, Runner};
use numalab::scenario::Scenario;
use numalab::ui::Ui;
use numalab::workspace::{Limits, Workspace};
use numalab_kernels::Cache;
use tokio_util::sync::CancellationToken;

use crate::Bench;
use numalab::testing::{block_on, name};

const KERNEL: &str = "linux-6.12";

/// Kernels on which it is held for some scenarios: how a guest boots is what differs.
const OTHERS: [&str; 2] = ["linux-6.1", "linux-7.2"];

/// The second gave other bytes when it was restored on 7.2, while a guest did not rest
/// before its other CPUs came.
const SOME: [&str; 2] = ["cpuset/single-node-skip", "smoke/two-nodes"];

/// More than this many bytes of records, so that a UART that stalls would show.
const MANY: usize = 100 * 1024;

pub(crate) fn trials(bench: &Arc<Bench>) -> miette::Result<Vec<Trial>> {
    let kernel = bench.workspace.wanted(KERNEL)?;
    let scenarios: Vec<Scenario> = bench
        .scenarios
        .iter()
        .filter(|scenario| scenario.is_about_behaviour() && !scenario.name.starts_with("smoke/"))
        .filter(|scenario| crate::applies(scenario, &kernel))
        .cloned()
        .collect();
    let mut trials = Vec::new();
    for name in SOME {
        let scenario = bench
            .scenarios
            .iter()
            .find(|scenario| scenario.name == name)
            .ok_or_else(|| miette!("there is no {name}"))?;
        trials.extend(OTHERS.map(|kernel| {
            let variant = format!("exactness::{kernel}");
            trial(bench, scenario.clone(), kernel, &variant, 0)
        }));
    }
    trials.extend(
        scenarios
            .into_iter()
            .map(|scenario| trial(bench, scenario, KERNEL, "exactness", 0)),
    );
    trials.push(trial(bench, many_records()?, KERNEL, "exactness", MANY));
    Ok(trials)
}

fn trial(
    bench: &Arc<Bench>,
    scenario: Scenario,
    kernel: &'static str,
    variant: &str,
    at_least: usize,
) -> Trial {
    let bench = Arc::clone(bench);
    Trial::test(name(&scenario, variant), move || {
        block_on(|cancel| async move {
            same_bytes(&bench.workspace, &scenario, kernel, at_least, &cancel).await
        })
    })
}

/// Cold runs of two seeds, one of them again with the host's processors kept busy; then both
/// seeds restored from a guest that is booted and saved anew, at whatever moment the busy host
/// finds for it.
async fn same_bytes(
    workspace: &Workspace,
    scenario: &Scenario,
    kernel: &str,
    at_least: usize,
    cancel: &CancellationToken,
) -> miette::Result<()> {
    let ui = Ui::new(false);
    let kernel = workspace.kernel(&workspace.wanted(kernel)?, Limits::default(), &ui, cancel)?;
    let runner = async |workspace: &Workspace, cold| -> miette::Result<Runner> {
        let checked = Runner::check(workspace, false, AcceleratorChoice::Auto)?.cold(cold);
        Ok(checked.ready(&kernel.id, &ui, cancel).await?)
    };
    let run = async |runner: &Runner, seed| -> miette::Result<RunReport> {
        let request = RunRequest::new(scenario, &kernel.id, seed, None, &[])?;
        Ok(runner.run(&request, &ui, cancel).await?)
    };
    let cold = runner(workspace, true).await?;
    let first = run(&cold, 1).await?;
    let second = run(&cold, 2).await?;
    let fresh = tempfile::tempdir().into_diagnostic()?;
    let mut elsewhere = Workspace::open()?;
    elsewhere.cache = Cache::open(fresh.path()).into_diagnostic()?;
    let restoring = runner(&elsewhere, false).await?;
    let (busy, restored) = {
        let _load = Load::start();
        (run(&cold, 1).await?, run(&restoring, 1).await?)
    };
    let restored_second = run(&restoring, 2).await?;

    for (one, other, started_from) in [
        (&first, &busy, StartedFrom::Cold),
        (&first, &restored, StartedFrom::Restored),
        (&second, &restored_second, StartedFrom::Restored),
    ] {
        if one.started_from != StartedFrom::Cold || other.started_from != started_from {
            return Err(miette!(
                "a run did not begin as it was to: {}",
                other.folder
            ));
        }
        for file in ["console.log", "records.jsonl"] {
            let (one_bytes, other_bytes) = (read(one, file)?, read(other, file)?);
            if one_bytes.is_empty() || one_bytes != other_bytes {
                return Err(miette!(
                    "{file} of two runs with one seed differ\n{}{}",
                    text::details(one),
                    text::details(other)
                ));
            }
        }
    }
    let records = read(&first, "records.jsonl")?;
    if records == read(&second, "records.jsonl")? {
        return Err(miette!(
            "seed 2 gives the records of seed 1: {}",
            first.folder
        ));
    }
    if records.len() < at_least {
        return Err(miette!(
            "{} bytes of records, and {at_least} are wanted",
            records.len()
        ));
    }
    Ok(())
}

fn read(report: &RunReport, file: &str) -> miette::Result<Vec<u8>> {
    std::fs::read(report.folder.join(file)).into_diagnostic()
}

/// Many measurements, each with all counters.
fn many_records() -> miette::Result<Scenario> {
    let measures: String = (0..16)
        .map(|n| {
            format!(
                "  - {{ measure: m{n}, run: [ {{ task: worker, touch: 1MiB, for: 20ms }} ] }}\n"
            )
        })
        .collect();
    let yaml = format!(
        "summary: many records\nmachine: {{ nodes: 2 }}\ntasks: {{ worker: {{ cpus: \"1\", threads: 2 }} }}\n\
         steps:\n{measures}expect:\n  - {{ fact: nodes, equals: 2, because: two were asked for }}\n"
    );
    Ok(Scenario::parse(
        Utf8Path::new("smoke/many-records.yaml"),
        &yaml,
    )?)
}

/// Keeps every processor busy until it is dropped.
struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<u64>>,
}

impl Load {
    fn start() -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let count = std::thread::available_parallelism().map_or(2, usize::from);
        let threads = (0..count)
            .map(|_| {
                let stop = Arc::clone(&stop);
                std::thread::spawn(move || {
                    let mut n = 0_u64;
                    while !stop.load(Ordering::Relaxed) {
                        n = std::hint::black_box(n.wrapping_add(1));
                    }
                    n
                })
            })
            .collect();
        Load { stop, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that only counts cannot fail.
            let _ = thread.join();
        }
    }
}
