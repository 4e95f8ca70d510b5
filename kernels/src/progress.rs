//! What a long piece of work tells while it runs.
//!
//! It draws nothing: a caller makes bars, plain lines or silence of it.

use std::fmt;

/// Something to be told. All texts are one line, without a line's end.
#[derive(Debug, Clone, Copy)]
pub enum BuildEvent<'a> {
    /// A stage begins.
    BuildStage {
        /// Which.
        stage: BuildStage,
        /// On what, for instance a kernel's or package's name.
        detail: &'a str,
    },
    /// A stage is this far.
    Count {
        /// Which.
        stage: BuildStage,
        /// Steps done: bytes fetched, files unpacked, copied or compiled.
        done: u64,
        /// Steps in all, as estimated from the last time; `done` may exceed it.
        total: Option<u64>,
    },
    /// A line of a tool's output; only told if [`Progress::wants_lines`].
    Line(&'a str),
    /// Something worth knowing, for instance for whom it waits.
    Note(&'a str),
    /// Something that the user should look at.
    Warning(&'a str),
}

/// A stage of getting a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BuildStage {
    /// A source package is fetched.
    Fetch,
    /// A source is unpacked into the cache.
    Unpack,
    /// A directory is copied into the cache.
    Copy,
    /// Patches are applied.
    Patch,
    /// The configuration is made and checked.
    Configure,
    /// The kernel is compiled.
    Compile,
    /// The image is put into the store.
    Store,
}

impl fmt::Display for BuildStage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            BuildStage::Fetch => "fetching",
            BuildStage::Unpack => "unpacking",
            BuildStage::Copy => "copying",
            BuildStage::Patch => "patching",
            BuildStage::Configure => "configuring",
            BuildStage::Compile => "compiling",
            BuildStage::Store => "storing",
        })
    }
}

/// Who is told.
pub trait Progress: Sync {
    /// Takes one event. Called from the thread that works, so it must be quick.
    fn event(&self, event: BuildEvent<'_>);

    /// Whether each line of a compiler's output is wanted.
    fn wants_lines(&self) -> bool {
        false
    }
}

/// Tells nobody.
#[derive(Debug, Clone, Copy)]
pub struct Silent;

impl Progress for Silent {
    fn event(&self, _event: BuildEvent<'_>) {}
}
