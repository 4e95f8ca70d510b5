//! Patches: what a list of patch files makes of a source tree.
//!
//! The content of the files that the patches touch is worked out aside, from
//! pristine copies, by `git apply`; the tree itself is brought to it elsewhere (the
//! module `tree`), so a patch that does not apply leaves nothing half done. Mails
//! are read as far as diffs go: what a series should contain, and in which order,
//! is not checked here.

mod already;
mod apply;
mod conflict;
mod fits;
mod names;
pub(crate) mod text;

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::cache::CacheError;
use crate::error_kind::ErrorKind;
use crate::tools::process::JobError;

pub(crate) use apply::work_out;
pub(crate) use fits::fits;
pub(crate) use names::check;

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
    #[error("the patch {patch} changes {file:?}, which this source does not have{advice}")]
    Missing {
        /// The patch: where it was, and its subject.
        patch: String,
        /// The file.
        file: String,
        /// For which source it may be meant.
        advice: Box<Advice>,
    },
    /// It does not fit.
    #[error(
        "the patch {patch} cannot be {}: {file}, {hunk}, does not match this source; {why}{advice}",
        if *revert { "taken back" } else { "applied" },
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
        /// What is known of why.
        why: Box<Mismatch>,
        /// For which source it may be meant.
        advice: Box<Advice>,
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

/// Why a patch does not fit, as far as can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mismatch {
    /// It is already in the source.
    AlreadyThere,
    /// It was to be taken back and is not in the source.
    NotThere,
    /// Without regard to white space it fits.
    WhiteSpace,
    /// All code that it adds stands where it would add it, though not as its text.
    InAnotherForm {
        /// The file.
        file: String,
        /// The line of the first of it, from 1.
        line: usize,
    },
    /// Most of the lines that it adds are in the files that it touches.
    MostlyThere {
        /// How many.
        lines: usize,
        /// Of how many that are telling.
        of: usize,
    },
    /// The source is another one there.
    Unknown,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::InAnotherForm { file, line } => {
                return write!(
                    formatter,
                    "it is already there in another form: the code that it adds is at {file}:{line}"
                );
            }
            Self::MostlyThere { lines, of } => {
                return write!(
                    formatter,
                    "{lines} of {of} lines that it adds are in these files: it may be there already, \
                     in another form"
                );
            }
            Self::AlreadyThere => "it is already there (taking it back would work)",
            Self::NotThere => "it is not there (applying it would work)",
            Self::WhiteSpace => {
                "only white space differs (a mail program or an editor may have changed it)"
            }
            Self::Unknown => "it may be meant for another version",
        })
    }
}

/// For which source a patch may be meant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Advice {
    /// The commit that its mails name as the one that it was made on.
    pub base_commit: Option<String>,
    /// The other sources in the cache, and whether all the patches fit them; `None` if
    /// none was tried.
    pub fits: Option<Vec<String>>,
}

impl fmt::Display for Advice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(base) = &self.base_commit {
            write!(formatter, "; it was made on commit {base}")?;
        }
        match self.fits.as_deref() {
            None => Ok(()),
            Some([]) => formatter.write_str("; it fits no other source in the cache either"),
            Some(fits) => write!(
                formatter,
                "; of the other sources in the cache it fits {}",
                fits.join(", ")
            ),
        }
    }
}

impl PatchError {
    /// What it advises, if it is that the patch does not fit.
    pub(crate) fn advice(&mut self) -> Option<&mut Advice> {
        match self {
            Self::Missing { advice, .. } | Self::Conflict { advice, .. } => Some(advice),
            _ => None,
        }
    }

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
