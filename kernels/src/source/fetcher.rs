//! With what sources are got, and a source that is there.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::SourceError;
use super::history::History;
use super::tree::SourceTree;
use crate::cache::{Cache, CacheError, EntryLock, Part, Wait};
use crate::digest::Digest;
use crate::progress::{BuildEvent, Progress};
use crate::spec::Source;
use crate::tools::toolchain::Toolbox;

/// What a source is, exactly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its kind and name, or its folder.
    pub source: Source,
    /// The exact version: a package's, or a directory's kernel version and commit.
    pub version: String,
    /// The digest of the package, or of all files of the directory.
    pub digest: Digest,
    /// For a directory: the digest of its headers' names. A header that appears can
    /// hide another of the same name, which `make` does not see; object trees are
    /// kept apart by this.
    #[serde(default)]
    pub(crate) headers: Option<Digest>,
}

/// With what sources are got.
pub(crate) struct Fetcher<'a> {
    pub(crate) cache: &'a Cache,
    pub(crate) tools: &'a Toolbox,
    pub(crate) progress: &'a dyn Progress,
    pub(crate) cancel: &'a AtomicBool,
    /// For fetching.
    pub(crate) fetch_deadline: Duration,
    /// For one silence of a server.
    pub(crate) stall_deadline: Duration,
    /// For locks that others hold.
    pub(crate) wait_deadline: Duration,
    /// Whether what is in the cache already is looked at file by file.
    pub(crate) fresh: bool,
}

/// A source in the cache, locked.
pub(crate) struct Opened {
    pub(crate) identity: Identity,
    pub(crate) tree: SourceTree,
    pub(crate) lock: EntryLock,
    /// For a commit: what it has that others of its repository have not.
    pub(crate) history: Option<History>,
}

impl Fetcher<'_> {
    /// Locks a tree, telling for whom it waits, and removes what a killed process
    /// left in its scratch folder.
    pub(super) fn lock_tree(&self, name: &str) -> Result<EntryLock, SourceError> {
        let lock = self.lock(Part::Trees, name)?;
        let scratch = SourceTree::of(lock.entry()).scratch();
        crate::files::empty(&scratch).map_err(|error| CacheError::io("empty", scratch, error))?;
        Ok(lock)
    }

    pub(super) fn lock(&self, part: Part, name: &str) -> Result<EntryLock, CacheError> {
        self.cache.lock(
            part,
            name,
            &Wait {
                deadline: self.wait_deadline,
                cancel: self.cancel,
                on_wait: &|holder| {
                    let note = format!("waiting for {part}/{name}, which {holder} uses");
                    self.progress.event(BuildEvent::Note(&note));
                },
            },
        )
    }
}

/// Reads an identity that was kept; `None` if there is none.
pub(super) fn read_identity(path: &Path) -> Option<Identity> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}
