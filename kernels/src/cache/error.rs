//! Why the cache cannot be used.

use std::io;
use std::path::PathBuf;

use crate::error_kind::ErrorKind;

/// The variable that names the cache folder.
pub const CACHE_VARIABLE: &str = "NUMALAB_CACHE";

/// Why the cache cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// No user, no home.
    #[error("no cache directory is known: set {CACHE_VARIABLE} to a folder")]
    Nowhere,
    /// The user's home is a relative path.
    #[error(
        "the user's cache directory {path:?} is a relative path: set HOME to an absolute one, or \
         {CACHE_VARIABLE} to a folder"
    )]
    Relative {
        /// The path.
        path: PathBuf,
    },
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
