//! Comparisons of `linux-6.12` with kernels whose change is known: what is said of each, and
//! with which exit code.

use std::sync::Arc;

use libtest_mimic::Trial;
use miette::miette;
use numalab::guest::mode::AcceleratorChoice;
use numalab::jobs::comparison::{self, KernelPair, TestMatrix};
use numalab::report::text;
use numalab::run::Runner;
use numalab::run::cached_run::CachePolicy;
use numalab::scenario::Scenario;
use numalab::ui::Ui;
use numalab::verdict::compare::Change;
use numalab::workspace::Limits;
use tokio_util::sync::CancellationToken;

use crate::Bench;
use numalab::testing::block_on;

const BASE: &str = "linux-6.12";

/// A kernel and what is to be said of it.
struct Case {
    /// The test's name, and that of the patch file if there is one.
    name: &'static str,
    kernel: Kernel,
    scenarios: &'static [&'static str],
    /// For each scenario; one alone is said of the whole comparison.
    words: &'static [Change],
    exit_code: u8,
    /// Words that the report must contain.
    says: &'static str,
}

#[derive(Clone, Copy)]
enum Kernel {
    Shipped,
    /// The base with a patch of this folder.
    Patched,
}

const BEHAVIOURS: &[&str] = &["cpuset/single-node-skip", "vma/late-vma-scan"];

const CASES: [Case; 7] = [
    Case {
        name: "cpuset-skip",
        kernel: Kernel::Shipped,
        scenarios: BEHAVIOURS,
        words: &[Change::Fixed, Change::Holds],
        exit_code: 0,
        says: "fixed: cpuset/single-node-skip\nholds: vma/late-vma-scan",
    },
    Case {
        name: "no-late-vma-scan",
        kernel: Kernel::Shipped,
        scenarios: BEHAVIOURS,
        words: &[Change::StillFailing, Change::Broken],
        exit_code: 1,
        says: "broken: vma/late-vma-scan",
    },
    Case {
        name: "no-scan-period-limit",
        kernel: Kernel::Shipped,
        scenarios: BEHAVIOURS,
        words: &[Change::StillFailing, Change::Holds],
        exit_code: 0,
        says: "not because of this patch: cpuset/single-node-skip",
    },
    Case {
        name: "comment-only",
        kernel: Kernel::Patched,
        scenarios: BEHAVIOURS,
        words: &[Change::ChangesNothing],
        exit_code: 0,
        says: "changes nothing",
    },
    Case {
        name: "does-not-compile",
        kernel: Kernel::Patched,
        scenarios: BEHAVIOURS,
        words: &[Change::Broken],
        exit_code: 1,
        says: "this_variable_does_not_exist",
    },
    Case {
        name: "warns-at-boot",
        kernel: Kernel::Patched,
        scenarios: &["smoke/two-nodes"],
        words: &[Change::Broken],
        exit_code: 1,
        says: "WARNING: ",
    },
    Case {
        name: "panics-at-boot",
        kernel: Kernel::Patched,
        scenarios: &["smoke/two-nodes"],
        words: &[Change::Broken],
        exit_code: 1,
        says: "a panic on purpose",
    },
];

pub(crate) fn trials(bench: &Arc<Bench>) -> Vec<Trial> {
    let excluded = {
        let bench = Arc::clone(bench);
        Trial::test(format!("compare::{BASE}::does-not-apply"), move || {
            block_on(|cancel| async move { not_run(&bench, &cancel).await })
        })
    };
    let upstream = {
        let bench = Arc::clone(bench);
        Trial::test("patch::linux-7.2::cpuset-skip", move || {
            block_on(|cancel| async move { already_there(&bench, &cancel) })
        })
    };
    let trials = CASES.iter().map(|case| {
        let bench = Arc::clone(bench);
        Trial::test(format!("compare::{BASE}::{}", case.name), move || {
            block_on(|cancel| async move { said(&bench, case, &cancel).await })
        })
    });
    trials.chain([excluded, upstream]).collect()
}

/// A patch that upstream has taken in another form does not apply, and the error names the
/// hunk.
fn already_there(bench: &Bench, cancel: &CancellationToken) -> miette::Result<()> {
    let patch = bench
        .workspace
        .project
        .kernels()
        .join("patches/cpuset-skip.patch");
    let wanted = bench.workspace.wanted(&format!("linux-7.2+{patch}"))?;
    let said = match bench
        .workspace
        .kernel(&wanted, Limits::default(), &Ui::new(false), cancel)
    {
        Ok(kernel) => return Err(miette!("it was built: {}", kernel.id.shown())),
        Err(error) => numalab::error_chain::sentence(&error),
    };
    let expected = "kernel/sched/fair.c, hunk 1 (@@";
    if !said.contains(expected) {
        return Err(miette!("{said}\nexpected: {expected}"));
    }
    Ok(())
}

/// A scenario about something that came later than both kernels is not run, is named with
/// the reason, and proves nothing.
async fn not_run(bench: &Bench, cancel: &CancellationToken) -> miette::Result<()> {
    let (workspace, ui) = (&bench.workspace, Ui::new(false));
    let shipped = bench
        .scenarios
        .iter()
        .find(|scenario| scenario.name == BEHAVIOURS[0])
        .ok_or_else(|| miette!("{} is not there", BEHAVIOURS[0]))?;
    let text = format!(
        "{}\nsince: {{ release: v99.0, because: it is of the future }}\n",
        shipped.text
    );
    let scenarios = [Scenario::parse(&shipped.file, &text)?];
    let checked = Runner::check(workspace, false, AcceleratorChoice::Auto)?;
    let (base, patched) = (workspace.wanted(BASE)?, workspace.wanted("cpuset-skip")?);
    let kernels = KernelPair::build(workspace, &base, &patched, Limits::default(), &ui, cancel)?;
    let matrix = TestMatrix {
        scenarios: &scenarios,
        seeds: &[1, 2, 3],
        shift: None,
        append: &[],
        jobs: Some(1),
        budget: None,
    };
    let (report, folder) = comparison::run(
        workspace,
        checked,
        &kernels,
        &matrix,
        String::new(),
        &ui,
        cancel,
    )
    .await?;
    let text = text::comparison(&report);
    let words: Vec<Change> = report.scenarios.iter().map(|one| one.word).collect();
    let reason = format!(
        "{} does not apply to {}: it is about v99.0 and later: it is of the future",
        shipped.name, report.base.release
    );
    let runs: usize = report.scenarios.iter().map(|one| one.base.len()).sum();
    if words != [Change::DoesNotApply]
        || runs != 0
        || report.exit_code != 3
        || !text.contains(&reason)
    {
        return Err(miette!(
            "{words:?} with {runs} runs and exit code {}, and a scenario that does not apply is \
             expected\n{text}report: {folder}",
            report.exit_code
        ));
    }
    Ok(())
}

async fn said(bench: &Bench, case: &Case, cancel: &CancellationToken) -> miette::Result<()> {
    let (workspace, ui) = (&bench.workspace, Ui::new(false));
    let word = match case.kernel {
        Kernel::Shipped => case.name.to_owned(),
        Kernel::Patched => {
            format!(
                "{BASE}+{}/tests/patches/{}.patch",
                workspace.project.suites(),
                case.name
            )
        }
    };
    let scenarios: Vec<Scenario> = bench
        .scenarios
        .iter()
        .filter(|scenario| case.scenarios.contains(&scenario.name.as_str()))
        .cloned()
        .collect();
    let checked = Runner::check(workspace, false, AcceleratorChoice::Auto)?;
    let checked = checked.caching(CachePolicy::of_test(&bench.workspace.environment));
    let (base, patched) = (workspace.wanted(BASE)?, workspace.wanted(&word)?);
    let kernels = KernelPair::build(workspace, &base, &patched, Limits::default(), &ui, cancel)?;
    let matrix = TestMatrix {
        scenarios: &scenarios,
        seeds: &[1, 2, 3],
        shift: None,
        append: &[],
        // The test runner already runs as many guests as fit.
        jobs: Some(1),
        budget: None,
    };
    let repeat = format!("numalab compare {BASE} {word} {}", case.scenarios.join(" "));
    let (report, folder) =
        comparison::run(workspace, checked, &kernels, &matrix, repeat, &ui, cancel).await?;
    let words: Vec<Change> = match &report.overall {
        Some(overall) => vec![overall.word],
        None => report
            .scenarios
            .iter()
            .map(|compared| compared.word)
            .collect(),
    };
    let text = text::comparison(&report);
    if words != case.words || report.exit_code != case.exit_code || !text.contains(case.says) {
        return Err(miette!(
            "{words:?} with exit code {}, and {:?} with {} and the words {:?} are expected\n{text}report: {folder}",
            report.exit_code,
            case.words,
            case.exit_code,
            case.says
        ));
    }
    println!("{text}");
    Ok(())
}
