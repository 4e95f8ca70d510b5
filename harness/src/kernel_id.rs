//! Which kernel is booted, and how: what the workspace knows and every report names.

use camino::Utf8PathBuf;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Which kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelId {
    /// How it is called.
    pub name: String,
    /// The kernel spec of a command line that names it.
    pub word: String,
    /// `uname -r`, from the image.
    pub release: String,
    /// The exact version of the source, if it was built here.
    pub source: Option<String>,
    /// SHA-256 of the image that is booted.
    pub digest: String,
    /// The image.
    pub path: Utf8PathBuf,
    /// When it came into the store.
    pub stored: Timestamp,
    /// Hunks of its patches that were applied at another place, as sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<String>,
    /// The guest image with the modules that it needs, where it needs any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initramfs: Option<GuestImage>,
    /// How the plan gets into a guest.
    #[serde(default, skip_serializing_if = "PlanIn::is_fw_cfg")]
    pub plan_in: PlanIn,
    /// Whether its guests always boot cold: that a restored guest gives the same bytes is tested
    /// for numalab's own configuration only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always_cold: bool,
}

impl KernelId {
    /// Its name with what was really booted: release and the image's digest, shortened.
    pub fn shown(&self) -> String {
        format!(
            "{} ({}, image {})",
            self.name,
            self.release,
            short(&self.digest)
        )
    }

    /// Whether its guests can be restored from a saved one.
    pub fn can_be_saved(&self) -> bool {
        // A plan in the initramfs would come into the guest that is saved.
        !self.always_cold && self.plan_in == PlanIn::FwCfg
    }
}

/// A guest image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestImage {
    /// The file.
    pub path: Utf8PathBuf,
    /// SHA-256 of its bytes.
    pub digest: String,
}

/// How the plan gets into a guest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlanIn {
    /// By fw_cfg, when the guest is up.
    #[default]
    FwCfg,
    /// Behind the initramfs, for a kernel that cannot read fw_cfg: its guests boot cold.
    Initramfs,
}

impl PlanIn {
    fn is_fw_cfg(&self) -> bool {
        *self == PlanIn::FwCfg
    }
}

/// The beginning of a digest, enough to tell it from others.
pub fn short(digest: &str) -> &str {
    digest.get(..8).unwrap_or(digest)
}
