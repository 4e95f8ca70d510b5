//! From a kernel's specification to a kernel in the store.

pub(crate) mod builder;
pub(crate) mod compile;
mod jobs;
pub(crate) mod log;
pub(crate) mod objects;

pub use builder::{BuildOptions, get_or_build, get_or_build_profiled, touched};
pub use compile::BuildError;
