//! `numalab replay`.

use camino::Utf8Path;
use tokio_util::sync::CancellationToken;

use super::{BAD, Failure, GOOD, INCONCLUSIVE, print};
use crate::run::record_diff::RecordDiff;
use crate::run::replay;
use crate::ui::Ui;
use crate::workspace::Workspace;

pub(super) async fn replay(
    folder: &Utf8Path,
    json: bool,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<u8, Failure> {
    let workspace = Workspace::open()?;
    let kept = replay::Kept::read(folder).map_err(Failure::input)?;
    let (replay, again, changed) = replay::run(&workspace, &kept, ui, cancel).await?;
    if json {
        let value = serde_json::json!({ "outcome": replay, "again": again, "changed": changed });
        print(&format!("{value:#}\n"))?;
    } else {
        let mut text = format!("{replay}\nagain: {again}\n");
        for change in &changed {
            text.push_str(&format!("note: {change}\n"));
        }
        print(&text)?;
    }
    Ok(match replay {
        RecordDiff::Identical { .. } => GOOD,
        // Another QEMU or guest image may give other records without any fault.
        RecordDiff::Differs { .. } if !changed.is_empty() => INCONCLUSIVE,
        RecordDiff::Differs { .. } => BAD,
    })
}
