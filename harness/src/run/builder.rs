//! A host that fits the mode, before a kernel is there: QEMU, the image, the stores.

use camino::Utf8PathBuf;
use numalab_kernels::Cache;
use numalab_kernels::cache::Part;
use tokio_util::sync::CancellationToken;

use super::{DEFAULT_SHIFT, Runner, firmware};
use crate::error::Error;
use crate::guest::durations::Durations;
use crate::guest::kvm;
use crate::guest::mode::{Accelerator, AcceleratorChoice, Mode};
use crate::guest::qemu::Qemu;
use crate::guest::slots::Slots;
use crate::guest::snapshot::Snapshots;
use crate::kernel_id::KernelId;
use crate::run::cached_run::{CachePolicy, CachedRuns};
use crate::timing::Stopwatch;
use crate::ui::Ui;
use crate::workspace::{Workspace, utf8};

/// A host whose QEMU fits the mode that is asked for.
#[derive(Debug)]
pub struct RunnerBuilder {
    pub(super) qemu: Qemu,
    pub(super) live: bool,
    pub(super) choice: AcceleratorChoice,
    pub(super) image: numalab_images::Image,
    /// Its digest; `None` if it was not found.
    pub(super) firmware: Option<String>,
    pub(super) runs: Utf8PathBuf,
    pub(super) probes: Utf8PathBuf,
    pub(super) cache: Cache,
    pub(super) slots: Slots,
    pub(super) durations: Durations,
    pub(super) stopwatch: Stopwatch,
    /// Saved guests; `None` if every guest is to boot cold.
    pub(super) snapshots: Option<Snapshots>,
    /// Remembered results; `None` if nothing is cached.
    pub(super) cached_runs: Option<CachedRuns>,
}

impl Runner {
    /// Checks what can be checked before a kernel is there.
    ///
    /// # Errors
    /// QEMU is missing or too old, or mode and accelerator contradict each other.
    pub fn check(
        workspace: &Workspace,
        live: bool,
        choice: AcceleratorChoice,
    ) -> Result<RunnerBuilder, Error> {
        let qemu = Qemu::find()?;
        if !live {
            choice.check(Mode::Exact {
                shift: DEFAULT_SHIFT,
            })?;
            qemu.require_exact()?;
        }
        let images = utf8(&workspace.cache.part(Part::Images))?;
        let probes = utf8(&workspace.cache.part(Part::Tools))?;
        let image = numalab_images::get_or_build(&images, &[])?;
        let firmware = firmware::digest(&qemu);
        Ok(RunnerBuilder {
            qemu,
            live,
            choice,
            image,
            firmware,
            runs: workspace.project.runs(),
            probes,
            // What the host's clock has to do with a guest cannot be saved.
            snapshots: (!live).then(|| {
                Snapshots::new(workspace.cache.clone()).timed_by(workspace.stopwatch.clone())
            }),
            cached_runs: None,
            slots: Slots::new(&workspace.cache, None),
            durations: Durations::new(&workspace.cache),
            stopwatch: workspace.stopwatch.clone(),
            cache: workspace.cache.clone(),
        })
    }
}

impl RunnerBuilder {
    /// What results are a function of beside kernel, scenario and seed: versions and digests,
    /// on one line.
    pub fn identity(&self) -> String {
        format!(
            "numalab {}, contract {}, {}, firmware {}, guest image {}",
            env!("CARGO_PKG_VERSION"),
            numalab_protocol::CONTRACT,
            self.qemu.text(),
            self.firmware.as_deref().unwrap_or("unknown"),
            self.image.digest
        )
    }

    /// Boots every guest cold, if `cold`. The results are the same bytes.
    #[must_use]
    pub fn cold(mut self, cold: bool) -> RunnerBuilder {
        self.snapshots.take_if(|_| cold);
        self
    }

    /// Remembers results, and takes those that `memory` says; unless this is called, every
    /// result is a guest's and nothing is kept. Live results are never cached.
    #[must_use]
    pub fn caching(mut self, memory: CachePolicy) -> RunnerBuilder {
        if !self.live {
            self.cached_runs = Some(CachedRuns::new(self.cache.clone(), memory));
        }
        self
    }

    /// Lets at least so many guests run at a time, if a number is given.
    #[must_use]
    pub fn jobs(mut self, jobs: Option<usize>) -> RunnerBuilder {
        self.slots = Slots::new(&self.cache, jobs);
        let slots = self.slots.clone();
        self.snapshots = self.snapshots.map(|snapshots| snapshots.seated_by(slots));
        self
    }

    /// Chooses the accelerator, for which KVM may have to be probed with a kernel.
    ///
    /// # Errors
    /// KVM is demanded and cannot be used, or a signal came.
    pub async fn ready(
        self,
        kernel: &KernelId,
        ui: &Ui,
        cancel: &CancellationToken,
    ) -> Result<Runner, Error> {
        let accelerator = if self.live {
            let probe = kvm::Probe {
                qemu: &self.qemu,
                kernel: &kernel.path,
                kernel_digest: &kernel.digest,
                initrd: &self.image.path,
                cache: &self.probes,
            };
            let chosen = kvm::choose(self.choice, Mode::Live, probe, cancel.clone()).await?;
            if let Some(because) = &chosen.fallback {
                ui.warn(&format!("live mode runs under TCG: {because}"));
            }
            chosen.platform.accelerator()
        } else {
            Accelerator::Tcg
        };
        let runner = Runner {
            accelerator,
            builder: self,
        };
        ui.say(&format!(
            "{} mode, accelerator {}, QEMU {}",
            runner.mode_name(),
            runner.accelerator,
            runner.qemu_version()
        ));
        if runner.builder.live {
            ui.say("live guests are not saved: each boots cold");
        }
        if runner.builder.cached_runs.is_some() && runner.builder.firmware.is_none() {
            ui.say("QEMU's firmware is not found, so no result is cached");
        }
        Ok(runner)
    }
}
