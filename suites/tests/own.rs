//! A kernel of somebody's own: every scenario compared between `NUMALAB_BASE` and
//! `NUMALAB_KERNEL`, any kernels in the words of the command line.

use std::sync::Arc;

use libtest_mimic::Trial;
use miette::miette;
use numalab::guest::mode::AcceleratorChoice;
use numalab::jobs::comparison::{self, KernelPair, TestMatrix};
use numalab::report::text;
use numalab::run::Runner;
use numalab::run::cached_run::CachePolicy;
use numalab::ui::Ui;
use numalab::verdict::compare::Change;
use numalab::workspace::{Limits, OwnKernels};
use tokio_util::sync::CancellationToken;

use crate::{Bench, applies};
use numalab::testing::{block_on, name};

/// One test a scenario and mode.
pub(crate) fn trials(bench: &Arc<Bench>, own: &OwnKernels) -> miette::Result<Vec<Trial>> {
    // A misspelt kernel fails the list, and not every test.
    let (base, wanted) = (
        bench.workspace.wanted(&own.base)?,
        bench.workspace.wanted(&own.kernel)?,
    );
    let kernel = plain(&wanted.name);
    let mut trials = Vec::new();
    for index in 0..bench.scenarios.len() {
        // What does not apply must not be listed as something that passes.
        if ![&base, &wanted]
            .into_iter()
            .all(|kernel| applies(&bench.scenarios[index], kernel))
        {
            continue;
        }
        for live in [false, true] {
            let variant = if live {
                format!("{kernel}::live")
            } else {
                kernel.clone()
            };
            let name = name(&bench.scenarios[index], &variant);
            let (bench, own) = (Arc::clone(bench), own.clone());
            trials.push(Trial::test(name, move || {
                block_on(|cancel| async move { said(&bench, &own, index, live, &cancel).await })
            }));
        }
    }
    Ok(trials)
}

async fn said(
    bench: &Bench,
    own: &OwnKernels,
    index: usize,
    live: bool,
    cancel: &CancellationToken,
) -> miette::Result<()> {
    let (workspace, ui) = (&bench.workspace, Ui::new(false));
    let (base, kernel) = (workspace.wanted(&own.base)?, workspace.wanted(&own.kernel)?);
    let checked = Runner::check(workspace, live, AcceleratorChoice::Auto)?;
    let checked = checked.caching(CachePolicy::of_test(&workspace.environment));
    let kernels = KernelPair::build(workspace, &base, &kernel, Limits::default(), &ui, cancel)?;
    let matrix = TestMatrix {
        scenarios: &bench.scenarios[index..=index],
        seeds: &[1, 2, 3],
        shift: None,
        append: &[],
        // The test runner already runs as many guests as fit.
        jobs: Some(1),
        budget: None,
    };
    let scenario = &bench.scenarios[index].name;
    let repeat = format!("numalab compare {} {} {scenario}", own.base, own.kernel);
    let (report, folder) =
        comparison::run(workspace, checked, &kernels, &matrix, repeat, &ui, cancel).await?;
    let words = report.scenarios.iter().map(|compared| compared.word);
    let word = report
        .overall
        .as_ref()
        .map(|overall| overall.word)
        .or(words.min());
    let text = format!("{}report: {folder}", text::comparison(&report));
    match word {
        Some(Change::Broken | Change::Unclear | Change::DoesNotApply) | None => {
            let word = word.map_or("nothing was compared".into(), |word| word.to_string());
            Err(miette!("{word}\n{text}"))
        }
        Some(_) => {
            println!("{text}");
            Ok(())
        }
    }
}

/// A name that nextest's filters take without quoting.
fn plain(name: &str) -> String {
    let name = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.=-".contains(c);
    name.chars()
        .map(|c| if plain(c) { c } else { '-' })
        .collect()
}
