//! Why a source cannot be had.

use std::path::PathBuf;

use super::repository::RepositoryError;
use crate::cache::CacheError;
use crate::digest::Digest;
use crate::error_kind::ErrorKind;
use crate::tools::process::JobError;
use crate::tools::toolchain::ToolError;

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
    /// A kernel that is not built from source.
    #[error("{name} is a built kernel, whose source is not known")]
    NoSource {
        /// The kernel.
        name: String,
    },
    /// A folder that has something in it.
    #[error("{path:?} exists and is not an empty folder: give the name of a new one")]
    Occupied {
        /// The folder.
        path: PathBuf,
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
            | Self::NoSource { .. }
            | Self::Occupied { .. }
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
