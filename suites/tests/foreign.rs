//! A kernel that cannot read fw_cfg: the plan comes behind the initramfs, and the counters
//! are those of the kernel that can.

use std::sync::Arc;

use libtest_mimic::Trial;
use miette::{IntoDiagnostic as _, miette};
use numalab::guest::mode::AcceleratorChoice;
use numalab::report::{PlanIn, StartedFrom, text};
use numalab::run::cached_run::CachePolicy;
use numalab::run::{RunRequest, Runner};
use numalab::ui::Ui;
use numalab::verdict::Verdict;
use numalab::workspace::Limits;
use tokio_util::sync::CancellationToken;

use crate::Bench;
use numalab::testing::{block_on, name};

const KERNEL: &str = "linux-6.12";
const SCENARIO: &str = "smoke/two-nodes";

pub(crate) fn trials(bench: &Arc<Bench>) -> Vec<Trial> {
    let index = bench
        .scenarios
        .iter()
        .position(|scenario| scenario.name == SCENARIO);
    let trial = |index: usize| {
        let bench = Arc::clone(bench);
        Trial::test(name(&bench.scenarios[index], "no-fw-cfg"), move || {
            block_on(|cancel| async move { runs(&bench, index, &cancel).await })
        })
    };
    index.map(trial).into_iter().collect()
}

async fn runs(bench: &Bench, index: usize, cancel: &CancellationToken) -> miette::Result<()> {
    let (workspace, ui) = (&bench.workspace, Ui::new(false));
    let built = workspace.kernel(&workspace.wanted(KERNEL)?, Limits::default(), &ui, cancel)?;
    // The same kernel with another name for the folder that the agent looks for.
    let folder = tempfile::tempdir().into_diagnostic()?;
    let mut image = std::fs::read(&built.id.path).into_diagnostic()?;
    let name = b"qemu_fw_cfg\0";
    let mut renamed = 0;
    for at in 0..image.len().saturating_sub(name.len()) {
        if image[at..].starts_with(name) {
            image[at] = b'Q';
            renamed += 1;
        }
    }
    if renamed == 0 {
        return Err(miette!("{KERNEL} has no fw_cfg to begin with"));
    }
    let path = folder.path().join("vmlinux");
    std::fs::write(&path, image).into_diagnostic()?;
    let word = path
        .to_str()
        .ok_or_else(|| miette!("{path:?} is no text"))?;
    let theirs = workspace.kernel(&workspace.wanted(word)?, Limits::default(), &ui, cancel)?;
    if theirs.id.plan_in != PlanIn::Initramfs {
        return Err(miette!("it is not seen that it cannot read fw_cfg"));
    }
    if theirs.id.can_be_saved() || !built.id.can_be_saved() {
        return Err(miette!(
            "kernels of numalab's own configuration alone are saved"
        ));
    }
    let checked = Runner::check(workspace, false, AcceleratorChoice::Auto)?;
    let runner = checked
        .caching(CachePolicy::of_test(&bench.workspace.environment))
        .ready(&theirs.id, &ui, cancel)
        .await?;
    let request = RunRequest::new(&bench.scenarios[index], &theirs.id, 1, None, &[])?;
    let report = runner.run(&request, &ui, cancel).await?;
    if (report.started_from, report.judgement.verdict) != (StartedFrom::Cold, Verdict::Pass) {
        return Err(miette!("{}", text::details(&report)));
    }
    Ok(())
}
