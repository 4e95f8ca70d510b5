//! The cache folder itself.

use std::fs;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;

use super::error::{CACHE_VARIABLE, CacheError};
use super::part::Part;

/// How the names of temporary folders begin.
pub(super) const TEMPORARY: &str = ".tmp-";

/// The cache folder. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// The cache of this user: `$NUMALAB_CACHE`, else `numalab` in the user's cache
    /// directory.
    pub fn of_user() -> Result<Self, CacheError> {
        match std::env::var_os(CACHE_VARIABLE) {
            Some(path) if !path.is_empty() => Self::open(PathBuf::from(path)),
            _ => {
                let base = etcetera::choose_base_strategy().map_err(|_| CacheError::Nowhere)?;
                let folder = base.cache_dir().join("numalab");
                // `HOME=relative` would put a cache into each folder that it is used in.
                if folder.is_relative() {
                    return Err(CacheError::Relative { path: folder });
                }
                Self::open(folder)
            }
        }
    }

    /// Opens, and if need be makes, the cache at `root`, and tries to write there.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, CacheError> {
        let root = root.as_ref();
        let fault = |source| CacheError::io("make the cache directory", root, source);
        fs::create_dir_all(root).map_err(fault)?;
        // Absolute and without symbolic links: git and make compare paths as text.
        let cache = Self {
            root: root.canonicalize().map_err(fault)?,
        };
        let text = cache.root.to_string_lossy();
        for (letter, what) in [
            (' ', "space"),
            (':', "colon"),
            ('\t', "tab"),
            ('\n', "newline"),
            ('$', "dollar sign"),
            ('#', "number sign"),
            ('\'', "quote"),
            ('"', "quote"),
        ] {
            if text.contains(letter) {
                return Err(CacheError::Path {
                    path: cache.root.clone(),
                    what,
                });
            }
        }
        for part in Part::ALL {
            let path = cache.part(part);
            fs::create_dir_all(&path).map_err(|source| CacheError::io("make", path, source))?;
        }
        cache.probe()?;
        Ok(cache)
    }

    /// Its folder, an absolute path without symbolic links.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of a part.
    pub fn part(&self, part: Part) -> PathBuf {
        self.root.join(part.name())
    }

    /// Where an entry lies, whether it exists or not.
    pub fn entry(&self, part: Part, name: &str) -> PathBuf {
        self.part(part).join(name)
    }

    /// Says in time that there is no room for `needed` bytes.
    pub fn need(&self, needed: u64, action: &'static str) -> Result<(), CacheError> {
        const MIB: u64 = 1024 * 1024;
        let Ok(space) = rustix::fs::statvfs(&self.root) else {
            return Ok(());
        };
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        if free < needed {
            return Err(CacheError::Room {
                action,
                path: self.root.clone(),
                needed: needed.div_ceil(MIB),
                free: free / MIB,
            });
        }
        Ok(())
    }

    /// Writes, once, the tag by which backup programs know a cache (it is also the
    /// trial whether the folder can be written to).
    fn probe(&self) -> Result<(), CacheError> {
        let fault = |source| CacheError::io("write to", &self.root, source);
        let tag = self.root.join("CACHEDIR.TAG");
        if !tag.exists() {
            let text = "Signature: 8a477f597d28d172789f06886806bc55\n\
                        # Kernels, images, snapshots and results of numalab. All of it can be made again.\n";
            fs::write(&tag, text).map_err(fault)?;
        }
        tempfile::Builder::new()
            .prefix(TEMPORARY)
            .tempfile_in(&self.root)
            .map_err(fault)?;
        Ok(())
    }
}
