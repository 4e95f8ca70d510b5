//! Why a kernel did not get built, in words, and whose fault it is.

use std::path::PathBuf;

use crate::error_kind::ErrorKind;
use crate::tools::process::JobError;

/// Why a kernel did not get built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// It does not compile.
    #[error("{what} failed:\n{}\nwhole log: {log:?}", indent(lines))]
    Compile {
        /// What was being done.
        what: String,
        /// The compiler's own error lines, the first ten.
        lines: Vec<String>,
        /// Where all of its output is.
        log: PathBuf,
    },
    /// The compiler is too new for the kernel.
    #[error(
        "{what} failed: {pair}: {why}; choose an older compiler, \
         for instance NUMALAB_CC=gcc-12 (or, where it is C23, a patch that adds -std=gnu11):\n{}\n\
         whole log: {log:?}",
        indent(lines)
    )]
    TooNew {
        /// What was being done.
        what: String,
        /// Which compiler is too new for which version.
        pair: String,
        /// In which way.
        why: &'static str,
        /// The compiler's own error lines.
        lines: Vec<String>,
        /// Where all of its output is.
        log: PathBuf,
    },
    /// The compiler is too old for the kernel.
    #[error(
        "{what} failed: {pair}; choose a newer one, for \
         instance NUMALAB_CC=gcc-14:\n{}\nwhole log: {log:?}",
        indent(lines)
    )]
    TooOld {
        /// What was being done.
        what: String,
        /// Which compiler is too old for which version.
        pair: String,
        /// The build's own words.
        lines: Vec<String>,
        /// Where all of its output is.
        log: PathBuf,
    },
    /// The kernel is older than any that can be built for a guest.
    #[error(
        "{name} is Linux {version}: numalab builds Linux 5.0 and later, for older ones have no PVH \
         entry (CONFIG_PVH) by which QEMU starts a vmlinux; give a bzImage of it instead"
    )]
    Ancient {
        /// The kernel's name.
        name: String,
        /// Its version.
        version: String,
    },
    /// A program, header or library is missing that this kernel's build needs.
    #[error(
        "{what} needs what this machine does not have: {missing}\n{}\nwhole log: {log:?}",
        indent(lines)
    )]
    Missing {
        /// What was being done.
        what: String,
        /// What is missing, and how to get it, as far as that is known.
        missing: String,
        /// The build's own words.
        lines: Vec<String>,
        /// Where all of its output is.
        log: PathBuf,
    },
    /// The configuration names a file that is not there.
    #[error(
        "{what} failed: its configuration names {file:?}, which the source does not have; \
         distributions' configurations do so for keys: add CONFIG_SYSTEM_TRUSTED_KEYS=\"\" and \
         CONFIG_SYSTEM_REVOCATION_KEYS=\"\" (log: {log:?})"
    )]
    File {
        /// What was being done.
        what: String,
        /// The file.
        file: String,
        /// Where all of the output is.
        log: PathBuf,
    },
    /// The system ended the compiler.
    #[error(
        "{what} failed: the system ended a compiler, mostly for want of memory; try fewer jobs \
         than {jobs}:\n{}\nwhole log: {log:?}",
        indent(lines)
    )]
    Killed {
        /// What was being done.
        what: String,
        /// How many ran at once.
        jobs: usize,
        /// The tools' words.
        lines: Vec<String>,
        /// Where all of the output is.
        log: PathBuf,
    },
    /// Its output is not what a kernel's build leaves.
    #[error("{what} left no {path:?} (log: {log:?})")]
    Nothing {
        /// What was being done.
        what: String,
        /// What is missing.
        path: PathBuf,
        /// Where all of the output is.
        log: PathBuf,
    },
    /// A tool gave no answer.
    #[error(transparent)]
    Job(#[from] JobError),
}

impl BuildError {
    /// Whose fault it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Compile { .. } | Self::Nothing { .. } => ErrorKind::Build,
            Self::File { .. } => ErrorKind::Input,
            Self::TooNew { .. }
            | Self::TooOld { .. }
            | Self::Ancient { .. }
            | Self::Missing { .. }
            | Self::Killed { .. } => ErrorKind::Environment,
            Self::Job(error) => error.kind(),
        }
    }
}

fn indent(lines: &[String]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| format!("  {line}")).collect();
    lines.join("\n")
}
