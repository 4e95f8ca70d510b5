//! What runs guests: QEMU, the guest image and the stores of one command.

use camino::{Utf8Path, Utf8PathBuf};
use numalab_kernels::cache::Part;
use numalab_kernels::{Cache, Digest};
use numalab_protocol::pages;
use tokio_util::sync::CancellationToken;

use super::firmware;
use crate::error::Error;
use crate::guest::durations::{Basis, Durations, Expected};
use crate::guest::estimate;
use crate::guest::kvm;
use crate::guest::mode::{Accelerator, AcceleratorChoice, Mode, ModeError, Platform};
use crate::guest::qemu::Qemu;
use crate::guest::slots::Slots;
use crate::guest::snapshot::Snapshots;
use crate::kernel_id::KernelId;
use crate::run::cached_run::{CachePolicy, CachedRuns};
use crate::run::folder::RunFolder;
use crate::run::identity::RunIdentity;
use crate::run::inputs::Inputs;
use crate::run::request::{DEFAULT_SHIFT, RunRequest};
use crate::timing::{Stopwatch, Timing};
use crate::ui::Ui;
use crate::workspace::{Workspace, utf8};

/// A runner whose accelerator is not chosen yet, for which a kernel may have to be booted.
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
    /// `None` if no result is cached.
    pub(super) cached_runs: Option<CachedRuns>,
}

/// Runs scenarios.
#[derive(Debug)]
pub struct Runner {
    pub(super) builder: RunnerBuilder,
    pub(super) accelerator: Accelerator,
}

impl Runner {
    /// Checks what can be checked before a kernel is built.
    ///
    /// # Errors
    /// QEMU is missing or too old, mode and accelerator contradict each other, or the folder
    /// for runs is not writable.
    pub fn check(
        workspace: &Workspace,
        live: bool,
        choice: AcceleratorChoice,
    ) -> Result<RunnerBuilder, Error> {
        let qemu = Qemu::find(&workspace.environment)?;
        if !live {
            choice.check(Mode::Exact {
                shift: DEFAULT_SHIFT,
            })?;
            qemu.require_exact()?;
        }
        let images = utf8(&workspace.cache.part(Part::Images))?;
        let probes = utf8(&workspace.cache.part(Part::Tools))?;
        let image = numalab_images::get_or_build(&images, &[])?;
        let runs = workspace.project.runs();
        // Before a kernel is built, which may take an hour.
        RunFolder::check_parent(&runs)?;
        let firmware = firmware::digest(&qemu);
        Ok(RunnerBuilder {
            qemu,
            live,
            choice,
            image,
            firmware,
            runs,
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
    /// The versions and digests that results depend on besides kernel, scenario and seed, on
    /// one line.
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

    /// Caches results, and uses those that `policy` allows. Without this call no result is
    /// read from the cache or written to it. Live results are never cached.
    #[must_use]
    pub fn caching(mut self, policy: CachePolicy) -> RunnerBuilder {
        if !self.live {
            self.cached_runs = Some(CachedRuns::new(self.cache.clone(), policy));
        }
        self
    }

    /// Lets at least so many guests run at a time, if a number is given.
    #[must_use]
    pub fn jobs(mut self, jobs: Option<usize>) -> RunnerBuilder {
        self.slots = Slots::new(&self.cache, jobs);
        let slots = self.slots.clone();
        self.snapshots = self.snapshots.map(|snapshots| snapshots.in_slots(slots));
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
            ui.say("live guests are not restored from snapshots: each boots cold");
        }
        if runner.builder.cached_runs.is_some() && runner.builder.firmware.is_none() {
            ui.say("QEMU's firmware was not found, so no result is cached");
        }
        Ok(runner)
    }
}

impl Runner {
    /// How many guests can run at a time.
    pub fn cores(&self) -> usize {
        self.builder.slots.cores()
    }

    /// How the command has spent its time so far.
    pub fn split(&self) -> Timing {
        self.builder.stopwatch.split(self.cores())
    }

    /// Whether guests run in real time.
    pub fn is_live(&self) -> bool {
        self.builder.live
    }

    /// `exact` or `live`.
    pub fn mode_name(&self) -> &'static str {
        if self.builder.live { "live" } else { "exact" }
    }

    /// The accelerator that runs.
    pub fn accelerator_name(&self) -> String {
        self.accelerator.to_string()
    }

    /// SHA-256 of the initramfs.
    pub fn image_digest(&self) -> &str {
        &self.builder.image.digest
    }

    /// QEMU's version.
    pub fn qemu_version(&self) -> String {
        self.builder.qemu.version().to_string()
    }

    /// Exact mode's shift; `None` in live mode.
    pub(super) fn shift(&self, request: &RunRequest<'_>) -> Option<u8> {
        (!self.builder.live).then_some(request.shift)
    }

    pub(super) fn platform(&self, request: &RunRequest<'_>) -> Result<Platform, ModeError> {
        let mode = match self.shift(request) {
            Some(shift) => Mode::Exact { shift },
            None => Mode::Live,
        };
        Platform::new(mode, self.accelerator)
    }

    /// The initramfs of a kernel's guests, and its digest.
    pub(super) fn image<'a>(&'a self, kernel: &'a KernelId) -> (&'a Utf8Path, &'a str) {
        match &kernel.initramfs {
            Some(own) => (&own.path, &own.digest),
            None => (&self.builder.image.path, &self.builder.image.digest),
        }
    }

    pub(super) fn inputs(&self, request: &RunRequest<'_>) -> Inputs {
        let (scenario, firmware) = (request.scenario, self.builder.firmware.clone());
        Inputs {
            scenario: scenario.name.clone(),
            // Absolute, so that the run can be repeated from any folder.
            scenario_file: camino::absolute_utf8(&scenario.file)
                .unwrap_or_else(|_| scenario.file.clone()),
            kernel: request.kernel.clone(),
            image: self.image(request.kernel).1.to_owned(),
            qemu: self.builder.qemu.text().to_owned(),
            firmware: firmware.unwrap_or_else(|| "unknown".into()),
            mode: self.mode_name().to_owned(),
            shift: self.shift(request),
            accelerator: self.accelerator_name(),
            seed: request.seed,
            append: request.append.clone(),
            watch: request.watch.clone(),
            numalab: env!("CARGO_PKG_VERSION").to_owned(),
            contract: numalab_protocol::CONTRACT,
        }
    }

    /// The cached results, if results can be cached: a firmware that is not known cannot be
    /// part of a key.
    pub(super) fn cached_runs(&self) -> Option<&CachedRuns> {
        let cached_runs = self.builder.cached_runs.as_ref();
        cached_runs.filter(|_| self.builder.firmware.is_some())
    }

    /// What a run's result depends on, with these pages as its plan; `None` if its mode is not
    /// possible, which running it reports.
    fn identity<'a>(
        &'a self,
        request: &'a RunRequest<'_>,
        pages: Vec<Vec<u8>>,
    ) -> Option<RunIdentity<'a>> {
        Some(RunIdentity {
            machine: &request.machine,
            platform: self.platform(request).ok()?,
            pages,
            qemu: self.builder.qemu.text(),
            firmware: self.builder.firmware.as_deref().unwrap_or_default(),
            kernel: &request.kernel.digest,
            image: self.image(request.kernel).1,
            plan_in: request.kernel.plan_in,
        })
    }

    /// The name of a run's result in the cache, if it can be cached.
    pub(crate) fn cache_key(&self, request: &RunRequest<'_>) -> Option<Digest> {
        self.cached_runs()?;
        let pages = pages::encode(&request.plan()).ok()?;
        Some(self.identity(request, pages)?.key())
    }

    /// Whether a run's result is in the cache; its files are not checked.
    pub fn is_cached(&self, request: &RunRequest<'_>) -> bool {
        let key = self.cache_key(request);
        let cached_runs = self.cached_runs().zip(key);
        cached_runs.is_some_and(|(cached_runs, key)| cached_runs.contains(key))
    }

    /// A name for the snapshot that a run is restored from, if it can be. The guest has not
    /// read its plan yet.
    pub(crate) fn boot_key(&self, request: &RunRequest<'_>) -> Option<Digest> {
        self.builder.snapshots.as_ref()?;
        let can_be_saved = request.kernel.can_be_saved();
        Some(
            self.identity(request, Vec::new())
                .filter(|_| can_be_saved)?
                .key(),
        )
    }

    /// The name under which a run's duration is kept, whatever its kernel, its seed and what
    /// it watches.
    pub(super) fn shape(&self, request: &RunRequest<'_>) -> Option<Digest> {
        let plan = request.scenario.plan(&request.machine, 0);
        Some(self.identity(request, pages::encode(&plan).ok()?)?.shape())
    }

    /// How long a run is expected to take.
    pub fn expected(&self, request: &RunRequest<'_>) -> Expected {
        let known = self.shape(request).and_then(|shape| {
            let durations = &self.builder.durations;
            durations.expected(shape, &request.kernel.digest)
        });
        known.unwrap_or_else(|| Expected {
            cpu: estimate::guess(&request.plan()),
            basis: Basis::Guessed,
        })
    }
}
