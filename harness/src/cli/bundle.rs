//! `numalab bundle`.

use camino::Utf8PathBuf;

use super::context::Context;
use super::exit::{Failure, GOOD};
use crate::run::bundle::{self, BundleError};
use crate::workspace::Workspace;

pub(super) const HELP: &str = "\
Exit codes: 0 the archive is written, 2 the folder is not a recorded run, 3 the archive cannot be \
written.

Example: numalab bundle target/numalab/runs/20260101-120000-run -o run.tar.xz";

#[derive(Debug, clap::Args)]
pub(super) struct BundleArgs {
    /// The run's folder.
    run: Utf8PathBuf,
    /// The archive (.tar.xz) [default: a file in the run's folder].
    #[arg(long, short, value_name = "FILE")]
    output: Option<Utf8PathBuf>,
}

pub(super) fn bundle(args: &BundleArgs, context: &Context) -> Result<u8, Failure> {
    let workspace = Workspace::open()?;
    let made = bundle::make(&workspace, &args.run, args.output.as_deref());
    let made = made.map_err(|error| match error {
        BundleError::Write { .. } => Failure::Environment(error.into()),
        error => Failure::input(error),
    })?;
    context.print(&made, || {
        let mut text = format!("{}: {}\n", made.file, bytesize::ByteSize(made.bytes));
        for what in &made.left_out {
            text.push_str(&format!("note: it does not contain {what}\n"));
        }
        text.push_str("repeat: unpack it anywhere and run `sh run.sh`, which needs only QEMU\n");
        text
    })?;
    Ok(GOOD)
}
