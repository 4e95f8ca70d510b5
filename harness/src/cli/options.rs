//! Options that several commands share.

use clap::ValueEnum;
use numalab_kernels::catalog::Setting;
use numalab_kernels::{KernelError, KernelSpec};

use super::exit::Failure;
use crate::guest::mode::AcceleratorChoice;
use crate::run::cached_run::{CachePolicy, Share};
use crate::run::{Runner, RunnerBuilder};
use crate::workspace::{Limits, Workspace};

/// How kernels are configured and built.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Options for every kernel that is built")]
pub(super) struct KernelOptions {
    /// Use this complete `.config` instead of the kernel's own, plus the options that guests
    /// need. Reports show it as a part of the kernel spec, `+config:FILE`.
    #[arg(long, value_name = "FILE")]
    config: Option<String>,
    /// Add the options of a configuration fragment (`+fragment:FILE`); repeatable.
    #[arg(long, value_name = "FILE")]
    config_fragment: Vec<String>,
    /// Set an option, after all fragments (`+CONFIG_X=y`); repeatable.
    #[arg(long, value_name = "CONFIG_X=VALUE")]
    set: Vec<String>,
    /// Number of parallel compiler processes and guests. The default depends on the available
    /// processors and memory, which all commands that use one cache share.
    #[arg(long, short, value_name = "N", value_parser = jobs)]
    pub(super) jobs: Option<usize>,
}

impl KernelOptions {
    pub(super) fn limits(&self) -> Limits {
        Limits { jobs: self.jobs }
    }

    /// Reads the files and options that are added to each kernel's configuration.
    pub(super) fn settings(&self, workspace: &Workspace) -> Result<Vec<Setting>, Failure> {
        let here = workspace.here()?;
        let files = self.config.iter().map(|file| ("config:", file));
        let files = files.chain(self.config_fragment.iter().map(|file| ("fragment:", file)));
        files
            .chain(self.set.iter().map(|set| ("", set)))
            .map(|(kind, value)| {
                if kind.is_empty() && !value.starts_with("CONFIG_") {
                    return Err(Failure::input(miette::miette!(
                        "--set {value:?}: an option begins with CONFIG_"
                    )));
                }
                if value.contains('+') {
                    return Err(Failure::input(miette::miette!(
                        help = "put such an option into a fragment, and rename such a file",
                        "{value:?} contains a `+`, which separates the parts of a kernel spec"
                    )));
                }
                let part = format!("{kind}{value}");
                let setting = Setting::read(&part, &part, here.as_std_path());
                Ok(setting.map_err(KernelError::from)?)
            })
            .filter_map(Result::transpose)
            .collect()
    }

    /// Adds the settings to kernels.
    pub(super) fn configure<'a>(
        &self,
        workspace: &Workspace,
        kernels: impl IntoIterator<Item = &'a mut KernelSpec>,
    ) -> Result<(), Failure> {
        let settings = self.settings(workspace)?;
        for kernel in kernels {
            workspace.catalog.configure(kernel, &settings)?;
        }
        Ok(())
    }
}

/// How guests run.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Options for guests")]
pub(super) struct GuestOptions {
    /// `exact` is deterministic on any machine; `live` runs in real time.
    #[arg(long, value_enum, default_value_t = ModeName::Exact)]
    mode: ModeName,
    /// The accelerator. `auto` uses KVM in live mode where it works.
    #[arg(long, value_enum, default_value_t = AccelName::Auto)]
    accel: AccelName,
    /// Exact mode's `-icount shift=N`, instead of the scenario's.
    #[arg(long, value_name = "N")]
    pub(super) shift: Option<u8>,
    /// Add a parameter to the kernel command line; repeatable.
    #[arg(long, value_name = "PARAMETER")]
    pub(super) append: Vec<String>,
    /// Boot every guest cold instead of restoring a saved one. Slower, with the same results.
    #[arg(long)]
    cold: bool,
    /// Run every guest instead of using cached results, and compare the results with the cached
    /// ones. Implied by --cold.
    #[arg(long)]
    fresh: bool,
}

impl GuestOptions {
    pub(super) fn is_live(&self) -> bool {
        self.mode == ModeName::Live
    }

    /// A runner for these options, whose QEMU fits the mode.
    pub(super) fn runner(
        &self,
        workspace: &Workspace,
        jobs: Option<usize>,
    ) -> Result<RunnerBuilder, Failure> {
        let policy = match self.fresh || self.cold {
            true => CachePolicy::Fresh,
            false => CachePolicy::All(Share::of(&workspace.environment).map_err(Failure::input)?),
        };
        let builder = Runner::check(workspace, self.is_live(), self.accel.into())?;
        Ok(builder.cold(self.cold).jobs(jobs).caching(policy))
    }
}

/// How long guests may take, for commands that run a choice of scenarios.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct Budget {
    /// Run only the scenarios that are most informative within this time, judging by earlier
    /// runs. Builds do not count. Scenarios that do not fit are listed and get no verdict.
    #[arg(long = "budget", value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) seconds: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ModeName {
    Exact,
    Live,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AccelName {
    Auto,
    Kvm,
    Tcg,
}

impl From<AccelName> for AcceleratorChoice {
    fn from(name: AccelName) -> AcceleratorChoice {
        match name {
            AccelName::Auto => AcceleratorChoice::Auto,
            AccelName::Kvm => AcceleratorChoice::Kvm,
            AccelName::Tcg => AcceleratorChoice::Tcg,
        }
    }
}

fn jobs(text: &str) -> Result<usize, String> {
    let most = 4096;
    match text.parse() {
        Ok(jobs) if (1..=most).contains(&jobs) => Ok(jobs),
        _ => Err(format!("{text:?} is not a number from 1 to {most}")),
    }
}
