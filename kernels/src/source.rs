//! Sources: from where a kernel's text comes, and how it gets into the cache.
//!
//! A source is *identified* (which needs no network if the cache has it) and then
//! *opened*: its tree in the cache is locked and complete. Patches are not known here.

pub mod repository;

mod apt;
mod archive;
mod debian;
mod directory;
mod download;
mod git;
pub(crate) mod tarball;
pub(crate) mod tree;
pub(crate) mod url;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cache::{Cache, CacheError, EntryLock, Part, Wait};
use crate::digest::Digest;
use crate::error_kind::ErrorKind;
use crate::progress::{BuildEvent, Progress};
use crate::source::tree::SourceTree;
use crate::spec::Source;
use crate::tools::process::JobError;
use crate::tools::toolchain::{ToolError, Toolbox};

pub(crate) use git::History;
use repository::RepositoryError;

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

/// Why a source cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A package cannot be fetched.
    #[error(
        "cannot fetch the package {package}: {why}\n{}\nwhole log: {log:?}",
        said.join("\n")
    )]
    Fetch {
        /// The package.
        package: String,
        /// What failed, and what to do.
        why: String,
        /// What the tools said, shortened.
        said: Vec<String>,
        /// Where all of it is.
        log: PathBuf,
    },
    /// No package source has it.
    #[error("apt has no package {package}: {why} (log: {log:?})")]
    NoPackage {
        /// The package.
        package: String,
        /// Where it was looked for, and what to do.
        why: String,
        /// What apt said.
        log: PathBuf,
    },
    /// There is no apt.
    #[error(
        "the package {package} is fetched by apt-get, which this machine does not have: give the \
         folder of a kernel's source as the kernel instead"
    )]
    NoApt {
        /// The package.
        package: String,
    },
    /// What was fetched is not what apt's lists say.
    #[error("the package {package} is damaged: its {what} is {found}, and {expected} is expected")]
    Checksum {
        /// The package.
        package: String,
        /// What differs.
        what: &'static str,
        /// What was fetched.
        found: String,
        /// What should have been.
        expected: String,
    },
    /// It does not unpack to a kernel's source.
    #[error("cannot unpack {archive:?}: {why} (log: {log:?})")]
    Unpack {
        /// The archive.
        archive: PathBuf,
        /// What failed.
        why: String,
        /// What the tools said.
        log: PathBuf,
    },
    /// A tarball cannot be fetched.
    #[error(
        "cannot fetch {url}: {why}; a tarball that is on this machine already can be given by its \
         path"
    )]
    Download {
        /// The address.
        url: String,
        /// What failed.
        why: String,
    },
    /// What was fetched is not what was meant.
    #[error(
        "{url} is not what was asked for, and is not used: its SHA-256 value is\n  {found}, and\n  \
         {expected} is expected; if the latter is wrong, correct it"
    )]
    Mismatch {
        /// The address.
        url: String,
        /// What was asked for.
        expected: Digest,
        /// What came.
        found: Digest,
    },
    /// A tarball is none, or is one that is better not unpacked.
    #[error("cannot use {archive:?}: {why}")]
    Archive {
        /// The tarball.
        archive: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A tarball was written to while it was read.
    #[error("{path:?} changed while it was read: try again when it is complete")]
    Changed {
        /// The tarball.
        path: PathBuf,
    },
    /// A directory or tarball has been built in.
    #[error(
        "{path:?} has been built in ({found} is there), and without git it cannot be told what is \
         source: run `make mrproper` there, or give a clean copy"
    )]
    Built {
        /// The directory or tarball.
        path: PathBuf,
        /// What shows it.
        found: &'static str,
    },
    /// A sparse checkout lacks files.
    #[error(
        "{path:?} is a sparse checkout, in which files of the source are missing: {absent}; \
         `git sparse-checkout disable` there checks them out, and git:{}@HEAD builds its commit \
         without a work tree",
        path.display()
    )]
    Sparse {
        /// The directory.
        path: PathBuf,
        /// Some of the files.
        absent: String,
    },
    /// A directory cannot be read.
    #[error("cannot read the source {path:?}")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A file's name is no text.
    #[error("the source has a file whose name is no UTF-8 text: {path:?}")]
    Name {
        /// The file.
        path: PathBuf,
    },
    /// The caller wished to stop.
    #[error("interrupted while getting the source {path:?}")]
    Interrupted {
        /// The source.
        path: PathBuf,
    },
    /// A commit that is no kernel's source.
    #[error("{commit} of {path:?} is no kernel source: it has no {missing} at its top")]
    NoKernel {
        /// The repository.
        path: PathBuf,
        /// The commit.
        commit: String,
        /// What was looked for.
        missing: &'static str,
    },
    /// A commit with a file that leads out of it.
    #[error("the commit has a file whose path is not allowed: {path:?}")]
    Outside {
        /// The file.
        path: PathBuf,
    },
    /// A git repository gives no answer.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A tool is missing.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// A tool gave no answer.
    #[error(transparent)]
    Job(#[from] JobError),
}

impl SourceError {
    /// Whose fault it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Cache(error) => error.kind(),
            Self::Job(error) => error.kind(),
            Self::Interrupted { .. } => ErrorKind::Interrupted,
            Self::Repository(error) => error.kind(),
            Self::Built { .. }
            | Self::Sparse { .. }
            | Self::Read { .. }
            | Self::Name { .. }
            | Self::NoKernel { .. }
            | Self::Outside { .. }
            | Self::Mismatch { .. }
            | Self::Archive { .. }
            | Self::Changed { .. } => ErrorKind::Input,
            Self::Fetch { .. }
            | Self::NoPackage { .. }
            | Self::NoApt { .. }
            | Self::Download { .. }
            | Self::Checksum { .. }
            | Self::Unpack { .. }
            | Self::Tool(_) => ErrorKind::Environment,
        }
    }
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
    /// What a source is. A directory has to be copied for that, and comes locked.
    pub(crate) fn identify(
        &self,
        source: &Source,
    ) -> Result<(Identity, Option<Opened>), SourceError> {
        match source {
            Source::Debian(package) => Ok((self.debian(package)?, None)),
            Source::Directory(path) => {
                let opened = self.directory(path)?;
                Ok((opened.identity.clone(), Some(opened)))
            }
            Source::Git {
                repository,
                revision,
            } => Ok((self.commit(repository, revision)?, None)),
            Source::Tarball(path) => Ok((self.tarball(path)?, None)),
            Source::Url { url, sha256 } => Ok((self.url(url, *sha256), None)),
        }
    }

    /// Whether the cache has what would have to be fetched.
    pub(crate) fn has(&self, source: &Source) -> bool {
        match source {
            Source::Debian(package) => self.known(package).is_some(),
            Source::Url { sha256, .. } => self.has_fetched(*sha256),
            Source::Directory(_) | Source::Tarball(_) | Source::Git { .. } => true,
        }
    }

    /// Locks a source's tree and makes it complete.
    pub(crate) fn open(&self, source: &Source) -> Result<Opened, SourceError> {
        match source {
            Source::Debian(package) => self.open_debian(package),
            Source::Directory(path) => self.directory(path),
            Source::Git {
                repository,
                revision,
            } => self.open_git(repository, revision),
            Source::Tarball(path) => self.open_tarball(path),
            Source::Url { url, sha256 } => self.open_url(url, *sha256),
        }
    }

    /// Locks a tree, telling for whom it waits, and removes what a killed process
    /// left in its scratch folder.
    fn lock_tree(&self, name: &str) -> Result<EntryLock, SourceError> {
        let lock = self.lock(Part::Trees, name)?;
        let scratch = SourceTree::of(lock.entry()).scratch();
        crate::files::empty(&scratch).map_err(|error| CacheError::io("empty", scratch, error))?;
        Ok(lock)
    }

    fn lock(&self, part: Part, name: &str) -> Result<EntryLock, CacheError> {
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

/// A name as a part of a folder's name that `make` and shells take as it is.
fn plain(text: &str) -> String {
    text.chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() || "._-".contains(letter) {
                letter
            } else {
                '_'
            }
        })
        .collect()
}

/// Reads an identity that was kept; `None` if there is none.
fn read_identity(path: &Path) -> Option<Identity> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// A tool's PATH, for jobs that are no toolbox's.
fn path_of(tools: &Toolbox) -> &OsStr {
    &tools.path
}
