//! The cache directory: where it is, its parts, and how entries come and go.
//!
//! An entry is one folder in one of the parts. It is made under a temporary name
//! and published by one rename, so that what a killed process leaves behind is
//! never taken for an entry. A lock file inside says who uses it. What the entries
//! contain is not known here.

mod entry;
mod lock;
mod prune;

use crate::error_kind::ErrorKind;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use entry::TempEntry;
use etcetera::BaseStrategy as _;
pub use lock::{EntryLock, Wait};
pub use prune::{Entry, Prune, Pruned};

/// The variable that names the cache directory.
pub const CACHE_VARIABLE: &str = "NUMALAB_CACHE";

/// The cache directory. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    root: PathBuf,
}

/// A part of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Source packages as they were fetched.
    Sources,
    /// Unpacked sources with their object trees.
    Trees,
    /// Built kernels.
    Kernels,
    /// Guest images.
    Images,
    /// Saved guests.
    Snapshots,
    /// Finished runs, whose results are remembered.
    CachedRuns,
    /// How long runs took, one file for each kind.
    Durations,
    /// What tools keep for themselves: package lists, the compiler's cache.
    Tools,
    /// Logs of builds, one file each.
    Logs,
}

impl Part {
    /// All parts.
    pub const ALL: [Part; 9] = [
        Part::Sources,
        Part::Trees,
        Part::Kernels,
        Part::Images,
        Part::Snapshots,
        Part::CachedRuns,
        Part::Durations,
        Part::Tools,
        Part::Logs,
    ];

    /// The name of its folder.
    pub fn name(self) -> &'static str {
        match self {
            Part::Sources => "sources",
            Part::Trees => "trees",
            Part::Kernels => "kernels",
            Part::Images => "images",
            Part::Snapshots => "snapshots",
            Part::CachedRuns => "runs",
            Part::Durations => "durations",
            Part::Tools => "tools",
            Part::Logs => "logs",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Why the cache cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// No user, no home.
    #[error("no cache directory is known: set {CACHE_VARIABLE} to a folder")]
    Nowhere,
    /// Its path would break a kernel's build.
    #[error(
        "the cache directory {path:?} has a {what} in its path, which the kernel's build \
         does not take: set {CACHE_VARIABLE} to another folder"
    )]
    Path {
        /// The path.
        path: PathBuf,
        /// The letter at fault.
        what: &'static str,
    },
    /// The user may not write there.
    #[error(
        "cannot {action} {path:?}: the cache is not writable; make it so, or set \
         {CACHE_VARIABLE} to another folder"
    )]
    NotWritable {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// No room is left.
    #[error(
        "cannot {action} {path:?}: the disk is full, or a quota is reached; make room \
         (`numalab cache` lists and prunes), or set {CACHE_VARIABLE} to a folder elsewhere"
    )]
    Full {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
    },
    /// Not enough room for what is to come.
    #[error(
        "{action} in {path:?} needs about {needed} MiB, and {free} MiB are free; make room \
         (`numalab cache` lists and prunes), or set {CACHE_VARIABLE} to a folder elsewhere"
    )]
    Room {
        /// What is to be done.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// MiB wanted.
        needed: u64,
        /// MiB there.
        free: u64,
    },
    /// A file is where the cache, or a folder above it, should be.
    #[error(
        "cannot {action} {path:?}: a file is where a folder should be; remove it, or set \
         {CACHE_VARIABLE} to another folder"
    )]
    NoFolder {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
    },
    /// Anything else.
    #[error("cannot {action} {path:?}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file of the cache does not say what it should.
    #[error("{path:?} in the cache is damaged ({why}): remove it and try again")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Somebody else kept an entry for too long.
    #[error(
        "waited {seconds} s for {path:?}, which {holder} uses; if nothing is being built, \
         look for a process that hangs"
    )]
    Busy {
        /// The entry.
        path: PathBuf,
        /// Seconds waited.
        seconds: u64,
        /// Who has it, as far as is known.
        holder: String,
    },
    /// The caller wished to stop.
    #[error("interrupted while waiting for {path:?}")]
    Interrupted {
        /// The entry that was waited for.
        path: PathBuf,
    },
}

impl CacheError {
    /// What sort of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Interrupted { .. } => ErrorKind::Interrupted,
            _ => ErrorKind::Environment,
        }
    }

    /// Sorts a failure of the system by what the user can do about it.
    pub fn io(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        let path = path.into();
        // By kind, which wrapped errors have as well.
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::Full { action, path }
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::NotWritable {
                    action,
                    path,
                    source,
                }
            }
            io::ErrorKind::NotADirectory => Self::NoFolder { action, path },
            io::ErrorKind::AlreadyExists if path.is_file() => Self::NoFolder { action, path },
            _ => Self::Io {
                action,
                path,
                source,
            },
        }
    }
}

impl Cache {
    /// The cache of this user: `$NUMALAB_CACHE`, else `numalab` in the user's cache
    /// directory.
    pub fn of_user() -> Result<Self, CacheError> {
        match std::env::var_os(CACHE_VARIABLE) {
            Some(path) if !path.is_empty() => Self::open(PathBuf::from(path)),
            _ => {
                let base = etcetera::choose_base_strategy().map_err(|_| CacheError::Nowhere)?;
                Self::open(base.cache_dir().join("numalab"))
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
            .prefix(entry::TEMPORARY)
            .tempfile_in(&self.root)
            .map_err(fault)?;
        Ok(())
    }
}
