//! Where a run's guest begins: restored from a saved one, or cold.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{RunRequest, Runner};
use crate::error::Error;
use crate::guest::argv::{Boot, Start};
use crate::guest::lifecycle::GuestError;
use crate::guest::outcome::{End, Outcome};
use crate::guest::snapshot::{Copied, Saved, SnapshotRequest};
use crate::ui::Ui;

/// A run's own copy of a saved guest.
#[derive(Debug)]
pub(super) struct Restored {
    saved: Arc<Saved>,
    copied: Copied,
}

impl Runner {
    /// Lets the boot begin from a saved guest, if there is or can be one.
    ///
    /// # Errors
    /// A signal came.
    pub(super) async fn restore(
        &self,
        request: &RunRequest<'_>,
        boot: &mut Boot,
        ui: &Ui,
        cancel: &CancellationToken,
    ) -> Result<Option<Restored>, Error> {
        let Some(snapshots) = &self.builder.snapshots else {
            return Ok(None);
        };
        if !request.kernel.can_be_saved() {
            return Ok(None);
        }
        let (nodes, kernel) = (request.machine.nodes().len(), &request.kernel);
        let nodes = match nodes {
            1 => "1 node".to_owned(),
            _ => format!("{nodes} nodes"),
        };
        let wish = SnapshotRequest {
            qemu: &self.builder.qemu,
            boot,
            kernel: &kernel.digest,
            image: self.image(kernel).1,
            title: &format!("{} on {nodes}", kernel.name),
        };
        let Some(saved) = snapshots.get(&wish, ui, cancel).await? else {
            return Ok(None);
        };
        let copied = snapshots.copy(&saved, &boot.console, &boot.records, ui);
        let Some(copied) = copied.await else {
            return Ok(None);
        };
        boot.start = Start::Restored(copied.disk.clone());
        Ok(Some(Restored { saved, copied }))
    }

    /// Whether it was QEMU that could not restore the guest: it went before the guest said
    /// anything. The saved guest is then not used again.
    pub(super) fn refused(
        &self,
        restored: &Restored,
        outcome: &Result<Outcome, GuestError>,
        ui: &Ui,
    ) -> bool {
        let (Ok(outcome), Some(snapshots)) = (outcome, &self.builder.snapshots) else {
            return false;
        };
        let silent = outcome.records_bytes <= restored.copied.records;
        let refused = silent && matches!(outcome.end, End::QemuExit { .. });
        if refused {
            snapshots.distrust(&restored.saved, &outcome.end, ui);
        }
        refused
    }
}
