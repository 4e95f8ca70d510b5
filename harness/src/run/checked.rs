//! A host that fits the mode, before a kernel is there: QEMU, the image, the stores.

use camino::Utf8PathBuf;
use numalab_kernels::Cache;
use numalab_kernels::cache::Part;
use tokio_util::sync::CancellationToken;

use super::{DEFAULT_SHIFT, Stand, firmware};
use crate::durations::Durations;
use crate::lab::{Lab, LabError, utf8};
use crate::machine::kvm;
use crate::machine::mode::{Accelerator, AcceleratorChoice, Mode};
use crate::machine::qemu::Qemu;
use crate::proof::{Memory, Proofs};
use crate::report::KernelId;
use crate::seats::Seats;
use crate::snapshot::Snapshots;
use crate::spent::Spent;
use crate::ui::Ui;

/// A host whose QEMU fits the mode that is asked for.
#[derive(Debug)]
pub struct Checked {
    pub(super) qemu: Qemu,
    pub(super) live: bool,
    pub(super) choice: AcceleratorChoice,
    pub(super) image: numalab_images::Image,
    /// Its digest; `None` if it was not found.
    pub(super) firmware: Option<String>,
    pub(super) runs: Utf8PathBuf,
    pub(super) probes: Utf8PathBuf,
    pub(super) cache: Cache,
    pub(super) seats: Seats,
    pub(super) durations: Durations,
    pub(super) spent: Spent,
    /// Saved guests; `None` if every guest is to boot cold.
    pub(super) snapshots: Option<Snapshots>,
    /// Remembered results; `None` if nothing is remembered.
    pub(super) proofs: Option<Proofs>,
}

impl Stand {
    /// Checks what can be checked before a kernel is there.
    ///
    /// # Errors
    /// QEMU is missing or too old, or mode and accelerator contradict each other.
    pub fn check(lab: &Lab, live: bool, choice: AcceleratorChoice) -> Result<Checked, LabError> {
        let qemu = Qemu::find()?;
        if !live {
            choice.check(Mode::Exact {
                shift: DEFAULT_SHIFT,
            })?;
            qemu.require_exact()?;
        }
        let images = utf8(&lab.cache.part(Part::Images))?;
        let probes = utf8(&lab.cache.part(Part::Tools))?;
        let image = numalab_images::ensure(&images, &[])?;
        let firmware = firmware::digest(&qemu);
        Ok(Checked {
            qemu,
            live,
            choice,
            image,
            firmware,
            runs: lab.project.runs(),
            probes,
            // What the host's clock has to do with a guest cannot be saved.
            snapshots: (!live)
                .then(|| Snapshots::new(lab.cache.clone()).timed_by(lab.spent.clone())),
            proofs: None,
            seats: Seats::new(&lab.cache, None),
            durations: Durations::new(&lab.cache),
            spent: lab.spent.clone(),
            cache: lab.cache.clone(),
        })
    }
}

impl Checked {
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
    pub fn cold(mut self, cold: bool) -> Checked {
        self.snapshots.take_if(|_| cold);
        self
    }

    /// Remembers results, and takes those that `memory` says; unless this is called, every
    /// result is a guest's and nothing is kept. Live results are never remembered.
    #[must_use]
    pub fn remembering(mut self, memory: Memory) -> Checked {
        if !self.live {
            self.proofs = Some(Proofs::new(self.cache.clone(), memory));
        }
        self
    }

    /// Lets at least so many guests run at a time, if a number is given.
    #[must_use]
    pub fn jobs(mut self, jobs: Option<usize>) -> Checked {
        self.seats = Seats::new(&self.cache, jobs);
        let seats = self.seats.clone();
        self.snapshots = self.snapshots.map(|snapshots| snapshots.seated_by(seats));
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
    ) -> Result<Stand, LabError> {
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
        let stand = Stand {
            accelerator,
            checked: self,
        };
        ui.say(&format!(
            "{} mode, accelerator {}, QEMU {}",
            stand.mode_name(),
            stand.accelerator,
            stand.qemu_version()
        ));
        if stand.checked.live {
            ui.say("live guests are not saved: each boots cold");
        }
        if stand.checked.proofs.is_some() && stand.checked.firmware.is_none() {
            ui.say("QEMU's firmware is not found, so no result is remembered");
        }
        Ok(stand)
    }
}
