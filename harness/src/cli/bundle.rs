//! `numalab bundle`.

use camino::Utf8Path;

use super::{Failure, GOOD, print};
use crate::run::bundle::{self, BundleError};
use crate::workspace::Workspace;

pub(super) fn bundle(
    folder: &Utf8Path,
    output: Option<&Utf8Path>,
    json: bool,
) -> Result<u8, Failure> {
    let workspace = Workspace::open()?;
    let made = bundle::make(&workspace, folder, output).map_err(|error| match error {
        BundleError::Write { .. } => Failure::Environment(error.into()),
        error => Failure::input(error),
    })?;
    if json {
        print(&format!("{}\n", super::json(&made)?))?;
        return Ok(GOOD);
    }
    let size = bytesize::ByteSize(made.bytes);
    let mut text = format!("{}: {size}\n", made.file);
    for what in &made.left_out {
        text.push_str(&format!("note: it lacks {what}\n"));
    }
    text.push_str("repeat: unpack it anywhere and execute `sh run.sh`, which needs QEMU alone\n");
    print(&text)
}
