//! The store: built kernels, each under the digest of everything that went in.
//!
//! An entry has the image, its configuration, its symbols' addresses, the build's log
//! and a manifest that says what it was made from. It appears by one rename and is
//! never changed; one whose image is not what the manifest says is made again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cache::{
    self, Cache, CacheError, CachedEntry, EntryLock, Lookup, Part, TempEntry, Wait,
};
use crate::config::Config;
use crate::digest::Digest;
use crate::image::ImageKind;
use crate::source::Identity;
use crate::spec::{Direction, Patch};
use crate::tools::toolchain::Toolchain;
use crate::warnings::CompilerWarning;

/// The number of the manifest's form.
pub const SCHEMA: u32 = 1;

pub(crate) const CONFIG: &str = "config";
pub(crate) const SYSTEM_MAP: &str = "System.map";
pub(crate) const LOG: &str = "build.log";
pub(crate) const WARNINGS: &str = "warnings.json";

/// A kernel that can be booted. While it or a clone of it lives, it is not pruned.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// How it is called in reports and tests.
    pub name: String,
    /// What `uname -r` says in it, for instance `6.12.117`.
    pub release: String,
    /// The image to boot.
    pub image: PathBuf,
    /// The digest of the image's bytes.
    pub image_digest: Digest,
    /// Its configuration, if it is known.
    pub config: Option<PathBuf>,
    /// The digest of all that went in: its name in the store.
    pub key: Digest,
    /// What it was made from.
    pub manifest: Manifest,
    _lock: Arc<EntryLock>,
}

/// What a kernel was made from (`manifest.json` in its entry).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The name that it was first made under.
    pub name: String,
    /// Its name in the store.
    pub key: Digest,
    /// The kind of its image.
    pub kind: ImageKind,
    /// The digest of the image's bytes.
    pub image_digest: Digest,
    /// What `uname -r` says in it.
    pub release: String,
    /// How it was built; `None` for an image of somebody else's.
    pub built: Option<Provenance>,
    /// Whether a guest can read its plan from fw_cfg.
    #[serde(default = "yes")]
    pub reads_fw_cfg: bool,
    /// Modules that the guest has to load, in their order; only a kernel of somebody
    /// else's has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<ModuleRecord>,
    /// When it came into the store.
    pub at: Timestamp,
}

fn yes() -> bool {
    true
}

/// A module that lies in a kernel's entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleRecord {
    /// Its file there.
    pub file: String,
    /// The digest of its bytes.
    pub digest: Digest,
}

/// How a kernel was built.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Its source, with the exact version.
    pub source: Identity,
    /// Its patches, in order.
    pub patches: Vec<PatchRecord>,
    /// The digest of the configuration that was asked for.
    pub requested: Digest,
    /// The digest of the configuration that came out.
    pub config: Digest,
    /// Options asked for that this version of the source does not have.
    pub warnings: Vec<String>,
    /// What became of a whole configuration that was asked for.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Hunks that went in at other lines than their patch says, and line ends that were changed
    /// for it. Told each time: it may be another place than was meant.
    #[serde(default)]
    pub moved: Vec<String>,
    /// Compiler and linker.
    pub toolchain: Toolchain,
    /// What `make` was told: `NAME=value`.
    pub variables: Vec<String>,
    /// Whether the compiler's cache was used.
    pub ccache: bool,
    /// Seconds that the build took, patches and configuration included.
    pub seconds: f64,
}

/// A patch that went in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchRecord {
    /// Its file's name.
    pub name: String,
    /// The digest of its text.
    pub digest: Digest,
    /// Applied or taken back.
    pub direction: Direction,
}

impl PatchRecord {
    pub(crate) fn of(patch: &Patch) -> Self {
        Self {
            name: patch.name(),
            digest: patch.digest(),
            direction: patch.direction,
        }
    }
}

impl Kernel {
    /// An option's value as in `.config` (`y`, a number, a text in quotes); `None` if
    /// it is not set or the configuration is not known.
    pub fn config_value(&self, option: &str) -> Result<Option<String>, CacheError> {
        let Some(config) = self.read_config()? else {
            return Ok(None);
        };
        Ok(config.value(option).map(str::to_owned))
    }

    /// What the guest contract needs that this kernel's configuration lacks, with the
    /// reason of each; nothing if the configuration is not known.
    pub fn lacks(&self) -> Result<Vec<(&'static str, &'static str)>, CacheError> {
        let Some(config) = self.read_config()? else {
            return Ok(Vec::new());
        };
        let mut lacks = config.lacks();
        // A module does as well, if it is there.
        lacks.retain(|(option, _)| {
            !(*option == "CONFIG_FW_CFG_SYSFS" && self.manifest.reads_fw_cfg)
        });
        Ok(lacks)
    }

    /// The modules that the guest has to load, in their order: names and files.
    pub fn modules(&self) -> impl Iterator<Item = (&str, PathBuf)> {
        let modules = self.manifest.modules.iter();
        modules.map(|module| {
            (
                module.file.as_str(),
                self.image.with_file_name(&module.file),
            )
        })
    }

    fn read_config(&self) -> Result<Option<Config>, CacheError> {
        let Some(path) = &self.config else {
            return Ok(None);
        };
        let text = fs::read(path).map_err(|error| CacheError::io("read", path, error))?;
        Ok(Some(Config::parse(&String::from_utf8_lossy(&text))))
    }

    /// The warnings of the compiler and the other tools about all that it was built from, or
    /// `None` if they are not known: somebody else built it, or an earlier release of numalab,
    /// which did not keep them.
    ///
    /// # Errors
    /// The file that they are kept in cannot be read, or is damaged.
    pub fn warnings(&self) -> Result<Option<Vec<CompilerWarning>>, CacheError> {
        let path = self.image.with_file_name(WARNINGS);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(CacheError::io("read", path, error)),
        };
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| CacheError::Damaged {
                path,
                why: error.to_string(),
            })
    }

    /// What `make` and its tools printed, if numalab built it.
    pub fn build_log(&self) -> Option<PathBuf> {
        let path = self.image.with_file_name(LOG);
        path.is_file().then_some(path)
    }

    /// The addresses of its symbols, if they are known.
    pub fn system_map(&self) -> Option<PathBuf> {
        let path = self.image.with_file_name(SYSTEM_MAP);
        path.is_file().then_some(path)
    }
}

impl cache::Manifest for Manifest {
    const PART: Part = Part::Kernels;
    const SCHEMA: u32 = SCHEMA;

    fn schema(&self) -> u32 {
        self.schema
    }

    fn key(&self) -> Digest {
        self.key
    }

    fn check(&self, folder: &Path) -> Result<(), String> {
        let image = folder.join(image_name(self.kind));
        let digest = Digest::of_file(&image).map_err(|error| format!("its image: {error}"))?;
        if digest != self.image_digest {
            return Err(format!(
                "its image has the digest {digest}, and {} is expected",
                self.image_digest
            ));
        }
        for module in &self.modules {
            if Digest::of_file(&folder.join(&module.file)).ok() != Some(module.digest) {
                return Err(format!("its module {} is missing or differs", module.file));
            }
        }
        Ok(())
    }
}

/// Looks a kernel up, and checks its image.
pub(crate) fn find(
    cache: &Cache,
    key: Digest,
    name: &str,
    wait: &Wait<'_>,
) -> Result<Lookup<Kernel>, CacheError> {
    Ok(match CachedEntry::find(cache, key, wait)? {
        Lookup::Found(entry) => Lookup::Found(kernel(entry, name)),
        Lookup::Damaged(why) => Lookup::Damaged(why),
        Lookup::Missing => Lookup::Missing,
    })
}

/// Puts a kernel into the store: `entry` has the image and what belongs to it.
pub(crate) fn publish(
    entry: TempEntry,
    manifest: &Manifest,
    name: &str,
) -> Result<Kernel, CacheError> {
    Ok(kernel(CachedEntry::publish(entry, manifest)?, name))
}

fn kernel(entry: CachedEntry<Manifest>, name: &str) -> Kernel {
    let (lock, manifest) = entry.into_parts();
    let config = lock.entry().join(CONFIG);
    Kernel {
        name: name.to_owned(),
        release: manifest.release.clone(),
        image: lock.entry().join(image_name(manifest.kind)),
        image_digest: manifest.image_digest,
        config: config.is_file().then_some(config),
        key: manifest.key,
        manifest,
        _lock: Arc::new(lock),
    }
}

/// The image file's name in an entry.
pub(crate) fn image_name(kind: ImageKind) -> &'static str {
    match kind {
        ImageKind::Vmlinux => "vmlinux",
        ImageKind::BzImage => "bzImage",
    }
}

/// Copies a file into an entry.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), CacheError> {
    fs::copy(from, to)
        .map(drop)
        .map_err(|error| CacheError::io("write", to, error))
}
