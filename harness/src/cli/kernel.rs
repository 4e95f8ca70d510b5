//! `numalab kernel build`.

use numalab_kernels::{Class, Wanted};
use tokio_util::sync::CancellationToken;

use super::args::KernelCommand;
use super::{Failure, print};
use crate::lab::{Lab, LabError, Limits};
use crate::report::short;
use crate::report::text::sentence;
use crate::ui::Ui;

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
    let lab = Lab::open()?;
    let mut wanted: Vec<Wanted> = Vec::new();
    for word in kernels {
        wanted.push(lab.wanted(&configuring.word(word)?)?);
    }
    if *matrix {
        wanted.extend(lab.kernels_of_tests()?);
    }
    let limits = Limits { jobs: *jobs };
    let mut text = String::new();
    let mut built = Vec::new();
    for wanted in &wanted {
        let kernel = match lab.kernel(wanted, limits, ui, cancel) {
            // The tests themselves tell what it means that a kernel does not compile.
            Err(LabError::Kernel(error)) if *matrix && error.class() == Class::Build => {
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
