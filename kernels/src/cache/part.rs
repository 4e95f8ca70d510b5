//! The parts of the cache.

use std::fmt;

/// A part of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Source packages as they were fetched.
    Sources,
    /// Unpacked sources with their object trees.
    Trees,
    /// Built kernels.
    Kernels,
    /// Guest images.
    Images,
    /// Saved guests.
    Snapshots,
    /// Finished runs, whose results are remembered.
    CachedRuns,
    /// How long runs took, one file for each kind.
    Durations,
    /// What tools keep for themselves: package lists, the compiler's cache.
    Tools,
    /// Logs of builds, one file each.
    Logs,
}

impl Part {
    /// All parts.
    pub const ALL: [Part; 9] = [
        Part::Sources,
        Part::Trees,
        Part::Kernels,
        Part::Images,
        Part::Snapshots,
        Part::CachedRuns,
        Part::Durations,
        Part::Tools,
        Part::Logs,
    ];

    /// The name of its folder.
    pub fn name(self) -> &'static str {
        match self {
            Part::Sources => "sources",
            Part::Trees => "trees",
            Part::Kernels => "kernels",
            Part::Images => "images",
            Part::Snapshots => "snapshots",
            Part::CachedRuns => "runs",
            Part::Durations => "durations",
            Part::Tools => "tools",
            Part::Logs => "logs",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}
