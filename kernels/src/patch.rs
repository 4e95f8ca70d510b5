//! Patches: what a list of patch files makes of a source tree.
//!
//! The content of the files that the patches touch is worked out aside, from
//! pristine copies, by `git apply`; the tree itself is brought to it elsewhere (the
//! module `tree`), so a patch that does not apply leaves nothing half done. Mails
//! are read as far as diffs go: what a series should contain, and in which order,
//! is not checked here.

mod already;
mod apply;
pub(crate) mod text;

use std::io;
use std::path::PathBuf;

use crate::cache::CacheError;
use crate::error::Class;
use crate::process::JobError;

pub use already::Already;
pub(crate) use apply::work_out;

/// Why patches cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// There is no diff in it.
    #[error("the patch {patch} holds no diff: {why}")]
    NoDiff {
        /// The patch: where it was, and its subject.
        patch: String,
        /// What it is instead.
        why: &'static str,
    },
    /// Its text is not well-formed.
    #[error("the patch {patch} is malformed at line {line}: {why}")]
    Malformed {
        /// The patch: where it was, and its subject.
        patch: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// It would write where it must not.
    #[error("the patch {patch} names {file:?} at line {line}, which is refused: {why}")]
    Unsafe {
        /// The patch: where it was, and its subject.
        patch: String,
        /// The line, from 1.
        line: usize,
        /// The name as it stands there.
        file: String,
        /// Why it is refused.
        why: &'static str,
    },
    /// A file that it changes does not exist.
    #[error("the patch {patch} changes {file:?}, which this source does not have")]
    Missing {
        /// The patch: where it was, and its subject.
        patch: String,
        /// The file.
        file: String,
    },
    /// It does not fit.
    #[error(
        "the patch {patch} cannot be {}: {file}, {hunk}, does not match this source{}",
        if *revert { "taken back" } else { "applied" },
        already.sentence(*revert)
    )]
    Conflict {
        /// The patch: where it was, and its subject.
        patch: String,
        /// The first file that does not match.
        file: String,
        /// The place in it: a hunk's header, or what is wrong with the whole file.
        hunk: String,
        /// Whether it was to be taken back.
        revert: bool,
        /// Whether it is in the source already.
        already: Already,
    },
    /// The tool failed in another way, or did nothing.
    #[error("git apply failed on the patch {patch}: {why}")]
    Git {
        /// The patch: where it was, and its subject.
        patch: String,
        /// What it said.
        why: String,
    },
    /// The scratch folder could not be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The tool could not be run.
    #[error(transparent)]
    Job(#[from] JobError),
}

impl PatchError {
    /// Whose fault it is.
    pub fn class(&self) -> Class {
        match self {
            Self::Cache(error) => error.class(),
            Self::Job(error) => error.class(),
            _ => Class::Input,
        }
    }

    fn io(action: &'static str, path: impl Into<PathBuf>, error: io::Error) -> Self {
        CacheError::io(action, path, error).into()
    }
}
