//! Patches: what a list of patch files makes of a source tree.
//!
//! The content of the files that the patches touch is worked out aside, from
//! pristine copies, by `git apply`; the tree itself is brought to it elsewhere (the
//! module `tree`), so a patch that does not apply leaves nothing half done. Mails
//! are read as far as diffs go: what a series should contain, and in which order,
//! is not checked here.

mod apply;
mod conflict;
pub(crate) mod diff;
mod functions;
mod names;
mod touched;

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::cache::CacheError;
use crate::error_kind::ErrorKind;
use crate::tools::process::JobError;

pub(crate) use apply::{Outcome, work_out};
pub(crate) use names::check;
pub use touched::{Change, Touched, TouchedFile};

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
    #[error("the patch {patch} is malformed at {at}: {why}")]
    Malformed {
        /// The patch: where it was, and its subject.
        patch: String,
        /// The line, from 1, with the file and hunk that it belongs to.
        at: String,
        /// What is wrong.
        why: String,
    },
    /// It would write where it must not.
    #[error("the patch {patch} names {file:?} at {at}, which is refused: {why}")]
    Unsafe {
        /// The patch: where it was, and its subject.
        patch: String,
        /// The line, from 1, with the file and hunk that it belongs to.
        at: String,
        /// The name as it stands there.
        file: String,
        /// Why it is refused.
        why: &'static str,
    },
    /// A file that it changes does not exist.
    #[error(
        "the patch {patch} changes {file:?}, which this source does not have{}",
        made_on(base)
    )]
    Missing {
        /// The patch: where it was, and its subject.
        patch: String,
        /// The file.
        file: String,
        /// The commit that its author made it on, if its mails say.
        base: Option<String>,
    },
    /// It does not fit.
    #[error(
        "the patch {patch} cannot be {}: {file}, {hunk}, does not match this source; {why}{}",
        if *revert { "reverted" } else { "applied" },
        made_on(base),
    )]
    Conflict {
        /// The patch: where it was, and its subject.
        patch: String,
        /// The first file that does not match.
        file: String,
        /// The place in it: a hunk's header, or what is wrong with the whole file.
        hunk: String,
        /// Whether it was to be reverted.
        revert: bool,
        /// Why, as far as git can show it.
        why: Mismatch,
        /// The commit that its author made it on, if its mails say.
        base: Option<String>,
    },
    /// Nothing shows where its lines belong.
    #[error(
        "the patch {patch} cannot be applied: {file}, {hunk}, has no lines of context, so that its \
         place cannot be checked; make it with `git diff -U3`"
    )]
    NoContext {
        /// The patch: where it was, and its subject.
        patch: String,
        /// The file.
        file: String,
        /// The hunk.
        hunk: String,
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

/// Why a patch does not fit, as far as git can show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mismatch {
    /// It is already applied.
    AlreadyApplied,
    /// It was to be reverted and is not applied.
    NotApplied,
    /// It fits if white space is ignored.
    WhiteSpace,
    /// Neither.
    Unknown,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::AlreadyApplied => "it is already applied (reverting it would work)",
            Self::NotApplied => "it is not applied (applying it would work)",
            Self::WhiteSpace => {
                "only white space differs (a mail program or an editor may have changed it)"
            }
            Self::Unknown => "it may be meant for another version",
        })
    }
}

/// The commit that a patch was made on, as a clause.
fn made_on(base: &Option<String>) -> String {
    match base {
        Some(commit) => format!("; it was made on commit {commit}"),
        None => String::new(),
    }
}

impl PatchError {
    /// Whose fault it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Cache(error) => error.kind(),
            Self::Job(error) => error.kind(),
            _ => ErrorKind::Input,
        }
    }

    fn io(action: &'static str, path: impl Into<PathBuf>, error: io::Error) -> Self {
        CacheError::io(action, path, error).into()
    }
}
