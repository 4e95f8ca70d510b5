//! Why words mean no series.

use std::io;
use std::path::PathBuf;

use crate::cache::CacheError;
use crate::error_kind::ErrorKind;
use crate::patch::PatchError;
use crate::source::repository::RepositoryError;
use crate::tools::process::JobError;
use crate::tools::toolchain::ToolError;

/// Why words mean no series.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SeriesError {
    /// There is no such thing.
    #[error(
        "{word:?} is no patch: neither a file or folder in {cwd:?} (a diff, mails, an mbox) nor \
         a revision range A..B{hint}"
    )]
    Nothing {
        /// The word.
        word: String,
        /// Where paths were looked for.
        cwd: PathBuf,
        /// What may have been meant, as a clause.
        hint: String,
    },
    /// A file cannot be read.
    #[error("cannot read {path:?}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file, a folder or a range holds no patch.
    #[error("{place} holds no patch: {why}")]
    NoPatch {
        /// The file, folder or range.
        place: String,
        /// What it holds instead.
        why: String,
    },
    /// A revision range cannot be used.
    #[error("the revision range {range} of {repository:?} cannot be used: {why}")]
    Range {
        /// The range.
        range: String,
        /// The repository.
        repository: PathBuf,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// A repository gives no answer.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// A mail that should be a patch is none.
    #[error("{mail} cannot be used: {why}")]
    Mail {
        /// Its number in the file, the file, and its subject.
        mail: String,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// Parts are missing, doubled, or of several series.
    #[error("{0}")]
    Order(String),
    /// A diff is malformed, or names a file that is none of its business.
    #[error(transparent)]
    Patch(#[from] PatchError),
    /// A tool is missing.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// The scratch folder cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// Git could not be run.
    #[error(transparent)]
    Job(#[from] JobError),
}

impl SeriesError {
    /// Whose fault it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Patch(error) => error.kind(),
            Self::Repository(error) => error.kind(),
            Self::Tool(_) => ErrorKind::Environment,
            Self::Cache(error) => error.kind(),
            Self::Job(error) => error.kind(),
            _ => ErrorKind::Input,
        }
    }
}
