//! A boot that was to be saved and failed, and so answers for the runs that would boot alike.

use camino::Utf8PathBuf;
use numalab_kernels::cache::TempEntry;

use crate::guest::argv::Boot;
use crate::guest::deadline::Waited;
use crate::guest::follow::FollowError;
use crate::guest::lifecycle::{self, Limits};
use crate::guest::outcome::{End, GuestError, Outcome};

/// A boot that was to be saved and failed. Its files are removed when this is dropped.
#[derive(Debug)]
pub struct FailedBoot {
    pub(super) end: End,
    pub(super) console: Utf8PathBuf,
    pub(super) records: Utf8PathBuf,
    pub(super) _entry: TempEntry,
}

impl FailedBoot {
    /// Gives a run's guest the output and the end of this one.
    ///
    /// # Errors
    /// A file cannot be copied or read.
    pub(crate) fn outcome(&self, boot: &Boot) -> Result<Outcome, GuestError> {
        for (from, to) in [
            (&self.console, &boot.console),
            (&self.records, &boot.records),
        ] {
            std::fs::copy(from, to).map_err(|source| FollowError::Io {
                path: to.clone(),
                source,
            })?;
        }
        let end = self.end.repeated().unwrap_or(End::Reset);
        lifecycle::recall(boot, &Limits::STANDARD, end)
    }

    pub(super) fn may_be_the_hosts(&self) -> bool {
        let waited = match &self.end {
            End::Stuck { waited, .. } => Some(waited),
            _ => None,
        };
        matches!(waited, Some(Waited::Wall { .. }))
    }
}
