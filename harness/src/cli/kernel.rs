//! `numalab kernel build`.

use jiff::Timestamp;
use numalab_kernels::{BuildEvent, ErrorKind, Kernel, KernelSpec, Progress as _};
use tokio_util::sync::CancellationToken;

use super::args::KernelCommand;
use super::{Failure, print};
use crate::error::Error;
use crate::error_chain::sentence;
use crate::kernel_id::short;
use crate::ui::Ui;
use crate::workspace::{Limits, Workspace, utf8};

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
        verbose,
    } = command;
    let verbose_ui = verbose.then(|| ui.with_build_output());
    let ui = verbose_ui.as_ref().unwrap_or(ui);
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
        let start = Timestamp::now();
        let kernel = match workspace.kernel(wanted, limits, ui, cancel) {
            // The tests themselves tell what it means that a kernel does not compile.
            Err(Error::Kernel(error)) if *matrix && error.kind() == ErrorKind::Build => {
                ui.warn(&sentence(&error));
                continue;
            }
            kernel => kernel?,
        };
        if *verbose && kernel.built().manifest.at < start {
            show_log(kernel.built(), ui)?;
        }
        let kernel = kernel.id;
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

/// Prints the output of a build that was done earlier.
fn show_log(kernel: &Kernel, ui: &Ui) -> Result<(), Failure> {
    let Some(path) = kernel.build_log() else {
        return Ok(());
    };
    let path = utf8(&path)?;
    let log = std::fs::read(&path).map_err(Error::file("read", &path))?;
    ui.say(&format!(
        "{} is in the cache; its build printed:",
        kernel.name
    ));
    for line in String::from_utf8_lossy(&log).lines() {
        ui.event(BuildEvent::Line(line));
    }
    Ok(())
}
