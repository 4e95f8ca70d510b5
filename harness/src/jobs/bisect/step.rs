//! A commit that was judged.

use std::collections::BTreeMap;
use std::fmt;

use camino::Utf8PathBuf;
use numalab_kernels::source::repository::abbreviated;
use serde::{Deserialize, Serialize};

use crate::guest::escape::escape;

/// A commit that was judged.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BisectStep {
    /// Why it was judged.
    pub role: CommitRole,
    /// Its full id.
    pub commit: String,
    /// The first line of its message.
    pub subject: String,
    /// Whether it was built from scratch, without the compiler's cache.
    pub clean: bool,
    /// The result.
    #[serde(flatten)]
    pub result: CommitResult,
}

impl BisectStep {
    /// The commit as kernel developers cite it, fit for a terminal.
    pub(super) fn shown(&self) -> String {
        let subject = escape(self.subject.as_bytes());
        format!("{} (\"{subject}\")", abbreviated(&self.commit))
    }
}

/// Why a commit is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CommitRole {
    /// `--good`.
    GoodEnd,
    /// `--bad`.
    BadEnd,
    /// The search needs it.
    Search,
    /// It is the answer or the answer's parent, built from scratch.
    Verification,
}

/// What judging a commit gave.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CommitResult {
    /// Good, bad, or neither.
    pub mark: Mark,
    /// Why, in a sentence.
    pub why: String,
    /// What this machine, rather than the commit, may have done. The commit is judged again
    /// when the bisection goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// SHA-256 of the image that ran, if one was built.
    pub image: Option<String>,
    /// The values of the scenario's expectations, one for each seed.
    pub values: BTreeMap<String, Vec<Option<i64>>>,
    /// The runs' folders.
    pub folders: Vec<Utf8PathBuf>,
    /// How many of the runs were cached.
    pub cached: usize,
    /// Seconds for checking out, patching, configuring and compiling.
    pub build_seconds: f64,
    /// Seconds for all guests.
    pub guest_seconds: f64,
    /// Remarks for the reader.
    pub notes: Vec<String>,
}

/// How a commit is marked, as in `git bisect`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// The scenario passes.
    Good,
    /// It fails.
    Bad,
    /// Neither is known.
    Skip,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Mark::Good => "good",
            Mark::Bad => "bad",
            Mark::Skip => "skip",
        })
    }
}
