//! `numalab kernel build`.

use numalab_kernels::{ErrorKind, KernelSpec};
use tokio_util::sync::CancellationToken;

use super::args::KernelCommand;
use super::{Failure, print};
use crate::error::Error;
use crate::error_chain::sentence;
use crate::kernel_id::short;
use crate::ui::Ui;
use crate::workspace::{Limits, Workspace};

pub(super) async fn kernel(
    command: &KernelCommand,
    json: bool,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<u8, Failure> {
    let KernelCommand::Build {
        kernels,
        matrix,
        configuring,
        jobs,
    } = command;
    let workspace = Workspace::open()?;
    let mut wanted: Vec<KernelSpec> = Vec::new();
    for word in kernels {
        wanted.push(workspace.wanted(&configuring.word(word)?)?);
    }
    if *matrix {
        wanted.extend(workspace.kernels_of_tests()?);
    }
    let limits = Limits { jobs: *jobs };
    let mut text = String::new();
    let mut built = Vec::new();
    for wanted in &wanted {
        let kernel = match workspace.kernel(wanted, limits, ui, cancel) {
            // The tests themselves tell what it means that a kernel does not compile.
            Err(Error::Kernel(error)) if *matrix && error.kind() == ErrorKind::Build => {
                ui.warn(&sentence(&error));
                continue;
            }
            kernel => kernel?.id,
        };
        text.push_str(&format!(
            "{}: {}, image {}\n  {}\n",
            kernel.name,
            kernel.release,
            short(&kernel.digest),
            kernel.path
        ));
        built.push(kernel);
    }
    if json {
        let json = serde_json::to_string_pretty(&built).unwrap_or_default();
        return print(&format!("{json}\n"));
    }
    print(&text)
}
