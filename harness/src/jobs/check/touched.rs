//! What a series touches: the one statement behind `--touching`, the report and its summary.

use numalab_kernels::patch::Touched;
use numalab_kernels::{KernelSpec, Series};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::ui::Ui;
use crate::workspace::{Limits, Workspace};

/// Compares the base's source with and without the series; nothing is built.
///
/// # Errors
/// The base is an image, its source cannot be fetched, a patch does not apply, or a signal
/// came.
pub fn touched(
    workspace: &Workspace,
    base: &KernelSpec,
    series: &Series,
    limits: Limits,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<Touched, Error> {
    let touched = workspace.build(limits, cancel, |options, flag| {
        let patches = &series.patches;
        numalab_kernels::touched(&workspace.cache, base, patches, options, ui, flag)
    })?;
    touched.ok_or_else(|| Error::Unpatchable {
        word: base.word.clone(),
    })
}
