//! Errors of commands, and how they are shown.

use camino::{Utf8Path, Utf8PathBuf};
use miette::{Diagnostic, Report};
use numalab_kernels::source::SourceError;
use numalab_kernels::source::repository::RepositoryError;
use numalab_kernels::{ErrorKind, KernelError};

use crate::guest::kvm::KvmError;
use crate::guest::mode::ModeError;
use crate::guest::qemu::QemuError;
use crate::guest::topology::MachineError;
use crate::workspace::project::ProjectError;

/// Why a command cannot go on.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum Error {
    /// There is no project, or no such scenario.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Project(#[from] ProjectError),
    /// There is no such kernel, or it cannot be built.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// QEMU is missing or too old.
    #[error(transparent)]
    Qemu(#[from] QemuError),
    /// Mode and accelerator contradict each other.
    #[error(transparent)]
    Mode(#[from] ModeError),
    /// There can be no such machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// KVM was requested and cannot be used.
    #[error(transparent)]
    Kvm(#[from] KvmError),
    /// The guest image cannot be put into the cache.
    #[error(transparent)]
    Image(#[from] numalab_images::ImageError),
    /// A file or folder cannot be written or read.
    #[error("cannot {action} {path}")]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: Utf8PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
        /// What to do about it, where that is known.
        #[help]
        help: Option<&'static str>,
    },
    /// A path is not UTF-8, which QEMU's options and JSON need.
    #[error("the path {path:?} is not UTF-8")]
    Path {
        /// The path.
        path: std::path::PathBuf,
    },
    /// The budget is too small for any scenario.
    #[error("no scenario fits into {} s; the shortest is {shortest}", budget.as_secs())]
    Budget {
        /// The budget.
        budget: std::time::Duration,
        /// The shortest scenario, with its expected time.
        shortest: String,
    },
    /// A base without a kernel.
    #[error("NUMALAB_BASE is set, but NUMALAB_KERNEL, the kernel to compare with it, is not")]
    BaseAlone,
    /// The base of a comparison does not build.
    #[error("the base {name} does not build: {why}")]
    #[diagnostic(help("a patch can be checked only on a base that builds"))]
    Base {
        /// The kernel.
        name: String,
        /// The compiler's messages.
        why: String,
    },
    /// It cannot be counted how often changed lines run.
    #[error("{why}")]
    NoCoverage {
        /// Why not.
        why: &'static str,
    },
    /// A patch cannot be applied to an image.
    #[error("{word:?} is an image: only a kernel that is built from source can be patched")]
    #[diagnostic(help("name the kernel's source folder, or a kernel of `numalab list`"))]
    Unpatchable {
        /// The image's kernel spec.
        word: String,
    },
    /// No guest can be run on this machine.
    #[error("this machine does not allow an answer about any kernel: {what}")]
    Host {
        /// What is wrong with it.
        what: String,
    },
    /// A signal came.
    #[error("interrupted")]
    Interrupted,
}

impl From<RepositoryError> for Error {
    fn from(error: RepositoryError) -> Error {
        KernelError::from(SourceError::from(error)).into()
    }
}

impl Error {
    /// Whether the input is wrong, rather than this machine.
    pub fn is_input(&self) -> bool {
        match self {
            Error::Project(_)
            | Error::Mode(_)
            | Error::Machine(_)
            | Error::BaseAlone
            | Error::Unpatchable { .. } => true,
            Error::Kernel(error) => error.kind() == ErrorKind::Input,
            _ => false,
        }
    }

    pub(crate) fn file(
        action: &'static str,
        path: &Utf8Path,
    ) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::File {
            action,
            path,
            help: next_step(&source),
            source,
        }
    }
}

/// What to do about a file that cannot be used.
fn next_step(error: &std::io::Error) -> Option<&'static str> {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some(
            "the disk is full, or a quota is reached: `numalab cache prune` frees space; \
             NUMALAB_RUNS and NUMALAB_CACHE name other folders",
        ),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Some(
            "this user may not read or write it: NUMALAB_RUNS names another folder for runs, \
             NUMALAB_CACHE another cache",
        ),
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => Some(
            "there is a file in place of a folder: remove it, or name another folder (NUMALAB_RUNS \
             for runs, NUMALAB_CACHE for the cache)",
        ),
        _ => None,
    }
}

/// A report of a standard error with its causes.
pub fn report(error: impl std::error::Error + Send + Sync + 'static) -> Report {
    struct Plain(Box<dyn std::error::Error + Send + Sync>);
    impl std::fmt::Debug for Plain {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.0.fmt(f)
        }
    }
    impl std::fmt::Display for Plain {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.0.fmt(f)
        }
    }
    impl std::error::Error for Plain {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            self.0.source()
        }
    }
    impl Diagnostic for Plain {}
    Report::new(Plain(Box::new(error)))
}
