//! What a run is a function of (`inputs.json`).

use camino::Utf8PathBuf;
use numalab_protocol::plan::Watch;
use serde::{Deserialize, Serialize};

use crate::kernel_id::KernelId;

/// What a run is a function of, and where it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inputs {
    /// `suite/scenario`.
    pub scenario: String,
    /// The scenario's file; its text is kept in the run's folder.
    pub scenario_file: Utf8PathBuf,
    /// The kernel.
    pub kernel: KernelId,
    /// SHA-256 of the initramfs.
    pub image: String,
    /// QEMU's version, as it prints it.
    pub qemu: String,
    /// SHA-256 of the firmware, which runs before the kernel and in guest time.
    pub firmware: String,
    /// `exact` or `live`.
    pub mode: String,
    /// Exact mode's `-icount shift=`.
    pub shift: Option<u8>,
    /// `tcg` or `kvm`: the accelerator that really ran.
    pub accelerator: String,
    /// The replicate.
    pub seed: u64,
    /// Kernel parameters added to the scenario's own.
    pub append: Vec<String>,
    /// What was watched besides the counters. A run that watched is no evidence.
    #[serde(default, skip_serializing_if = "Watch::is_nothing")]
    pub watch: Watch,
    /// numalab's version.
    pub numalab: String,
    /// The version of what host and guest say to each other.
    pub contract: u32,
}
