//! Why there is no kernel, and whose fault it is.

use crate::build::compile::BuildError;
use crate::cache::CacheError;
use crate::catalog::WordError;
use crate::catalog::definition::DefinitionError;
use crate::config::ConfigError;
use crate::image::ImageError;
use crate::patch::PatchError;
use crate::series::SeriesError;
use crate::source::SourceError;
use crate::tools::process::JobError;
use crate::tools::toolchain::ToolError;

/// Whose fault it is that there is no kernel. A comparison needs to know: a patched
/// kernel that does not compile is `broken`, a full disk says nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// What was asked for is wrong: a name, a definition, a patch, an option.
    Input,
    /// The kernel does not compile.
    Build,
    /// This machine did not allow an answer: a full disk, no network, a missing tool.
    Environment,
    /// The caller wished to stop.
    Interrupted,
}

/// Why there is no kernel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// A definition file is wrong.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// A word names no kernel.
    #[error(transparent)]
    Word(#[from] WordError),
    /// A file is no kernel.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The source cannot be had.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A word means no patches.
    #[error(transparent)]
    Series(#[from] SeriesError),
    /// A patch cannot be applied.
    #[error(transparent)]
    Patch(#[from] PatchError),
    /// The configuration is not the one asked for.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It does not compile.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A tool is missing.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

impl KernelError {
    /// Whose fault it is.
    pub fn class(&self) -> Class {
        match self {
            Self::Definition(_) | Self::Word(_) => Class::Input,
            Self::Image(error) => error.class(),
            Self::Source(error) => error.class(),
            Self::Series(error) => error.class(),
            Self::Patch(error) => error.class(),
            Self::Config(error) => error.class(),
            Self::Build(error) => error.class(),
            Self::Tool(_) => Class::Environment,
            Self::Cache(error) => error.class(),
        }
    }
}

impl CacheError {
    /// Whose fault it is.
    pub fn class(&self) -> Class {
        match self {
            Self::Interrupted { .. } => Class::Interrupted,
            _ => Class::Environment,
        }
    }
}

impl JobError {
    /// Whose fault it is.
    pub(crate) fn class(&self) -> Class {
        match self {
            Self::Interrupted { .. } => Class::Interrupted,
            Self::Cache(error) => error.class(),
            Self::Start { .. } | Self::Wait { .. } | Self::Deadline { .. } | Self::Late { .. } => {
                Class::Environment
            }
        }
    }
}
