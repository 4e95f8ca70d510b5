//! `numalab kernel build`.

use numalab_kernels::Wanted;
use tokio_util::sync::CancellationToken;

use super::args::KernelCommand;
use super::{Failure, print};
use crate::lab::{Lab, Limits};
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
        jobs,
    } = command;
    let lab = Lab::open()?;
    let mut wanted: Vec<Wanted> = Vec::new();
    for word in kernels {
        wanted.push(lab.wanted(word)?);
    }
    if *matrix {
        wanted.extend(lab.catalog.matrix().map_err(Failure::kernel)?);
    }
    let limits = Limits { jobs: *jobs };
    let mut text = String::new();
    let mut built = Vec::new();
    for wanted in &wanted {
        let kernel = lab.kernel(wanted, limits, ui, cancel)?.id;
        text.push_str(&format!(
            "{}: {} {}\n  {}\n",
            kernel.name,
            kernel.release,
            &kernel.digest[..16],
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
