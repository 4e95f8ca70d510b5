//! `numalab replay`.

use camino::Utf8PathBuf;

use super::context::Context;
use super::exit::{BAD, Failure, GOOD, INCONCLUSIVE};
use crate::run::record_diff::RecordDiff;
use crate::run::replay;
use crate::workspace::Workspace;

pub(super) const HELP: &str = "\
Exit codes: 0 the records are identical, 1 they differ, 2 the folder is not a recorded run, 3 they \
differ and so does QEMU or the guest image, 130 interrupted.

Example: numalab replay target/numalab/runs/20260101-120000-run";

#[derive(Debug, clap::Args)]
pub(super) struct ReplayArgs {
    /// The run's folder.
    run: Utf8PathBuf,
}

pub(super) async fn replay(args: &ReplayArgs, context: &Context) -> Result<u8, Failure> {
    let workspace = Workspace::open()?;
    let kept = replay::Kept::read(&args.run).map_err(Failure::input)?;
    let (replay, again, changed) =
        replay::run(&workspace, &kept, &context.ui, &context.cancel).await?;
    let result = serde_json::json!({ "outcome": replay, "again": again, "changed": changed });
    context.print(&result, || {
        let notes: String = changed
            .iter()
            .map(|change| format!("note: {change}\n"))
            .collect();
        format!("{replay}\nagain: {again}\n{notes}")
    })?;
    Ok(match replay {
        RecordDiff::Identical { .. } => GOOD,
        // Another QEMU or guest image may give other records without any fault.
        RecordDiff::Differs { .. } if !changed.is_empty() => INCONCLUSIVE,
        RecordDiff::Differs { .. } => BAD,
    })
}
