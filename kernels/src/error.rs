//! Why there is no kernel, and whose fault it is.

use crate::build::compile::BuildError;
use crate::cache::CacheError;
use crate::catalog::definition::DefinitionError;
use crate::catalog::error::SpecError;
use crate::config::ConfigError;
use crate::error_kind::ErrorKind;
use crate::image::ImageError;
use crate::patch::PatchError;
use crate::series::SeriesError;
use crate::source::SourceError;

use crate::tools::toolchain::ToolError;

/// Why there is no kernel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// A definition file is wrong.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// A word names no kernel.
    #[error(transparent)]
    Word(#[from] SpecError),
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
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Definition(_) | Self::Word(_) => ErrorKind::Input,
            Self::Image(error) => error.kind(),
            Self::Source(error) => error.kind(),
            Self::Series(error) => error.kind(),
            Self::Patch(error) => error.kind(),
            Self::Config(error) => error.kind(),
            Self::Build(error) => error.kind(),
            Self::Tool(_) => ErrorKind::Environment,
            Self::Cache(error) => error.kind(),
        }
    }
}
