//! `numalab kernel`.

use clap::Subcommand;
use jiff::Timestamp;
use numalab_kernels::{BuildEvent, ErrorKind, Kernel, KernelSpec, Progress as _};

use super::context::Context;
use super::exit::{Failure, GOOD};
use super::kernel_source::{self, SourceArgs};
use super::options::KernelOptions;
use crate::error::Error;
use crate::error_chain::sentence;
use crate::kernel_id::short;
use crate::ui::Ui;
use crate::workspace::{Workspace, utf8};

const HELP: &str = "\
Exit codes: 0 built or already in the store, 2 wrong input, 3 a kernel does not build, 130 \
interrupted.

Example: numalab kernel build linux-6.12 linux-6.12+fix.patch --set CONFIG_HZ_250=y";

#[derive(Debug, Subcommand)]
pub(super) enum KernelCommand {
    /// Build kernels that are not in the store yet.
    #[command(after_help = HELP)]
    Build {
        /// Kernel specs: a shipped name, a definition (.yaml), a source folder, a commit
        /// (`git:PATH@REVISION`), a tarball or its `https://...#sha256=...`; `+PATCH` applies
        /// patches (a diff, mails, a folder, or revisions `A..B`), `+revert:PATCH` reverts them.
        #[arg(required_unless_present = "matrix")]
        kernels: Vec<String>,
        /// Build all kernels that the tests use: `NUMALAB_BASE` and `NUMALAB_KERNEL` if they are
        /// set, else those that are shipped.
        #[arg(long)]
        matrix: bool,
        /// Print every line of the build's output. For a kernel that is in the cache, print the
        /// output of its build.
        #[arg(long, short)]
        verbose: bool,
        #[command(flatten)]
        options: KernelOptions,
    },
    /// Print where the source of a kernel is, and clone it to edit it.
    #[command(after_help = kernel_source::HELP)]
    Source(SourceArgs),
}

pub(super) fn kernel(command: &KernelCommand, context: &Context) -> Result<u8, Failure> {
    let (kernels, matrix, verbose, options) = match command {
        KernelCommand::Build {
            kernels,
            matrix,
            verbose,
            options,
        } => (kernels, matrix, verbose, options),
        KernelCommand::Source(args) => return kernel_source::source(args, context),
    };
    let verbose_ui = verbose.then(|| context.ui.with_build_output());
    let ui = verbose_ui.as_ref().unwrap_or(&context.ui);
    let workspace = Workspace::open()?;
    let specs = kernels.iter().map(|kernel| workspace.wanted(kernel));
    let mut specs = specs.collect::<Result<Vec<KernelSpec>, Error>>()?;
    options.configure(&workspace, &mut specs)?;
    if *matrix {
        specs.extend(workspace.kernels_of_tests()?);
    }
    let mut text = String::new();
    let mut built = Vec::new();
    for spec in &specs {
        let start = Timestamp::now();
        let kernel = match workspace.kernel(spec, options.limits(), ui, &context.cancel) {
            // The tests report themselves that a kernel does not compile.
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
    context.print(&built, || text)?;
    Ok(GOOD)
}

/// Prints the output of an earlier build.
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
