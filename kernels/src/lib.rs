//! Kernels: source → patches → config → compile → store.
//!
//! A kernel is *defined* by a YAML file, *named* by a word of the command line,
//! *built* once in the cache and *kept* under the digest of everything that went in:
//!
//! ```text
//! word ─ catalog ─► KernelSpec ─ ensure ─► Kernel
//!                    │  source: a Debian package, a directory, a commit, a tarball, an address
//!                    │  patch:  diffs, applied to the store's own copy in place
//!                    │  config: fragments, each option of which is checked
//!                    └  build:  out of tree, one object tree per source and config
//! ```
//!
//! Everything here is synchronous and waits on files, locks and compilers; an
//! asynchronous caller goes through its runtime's pool for blocking work. Nothing
//! is written outside of the cache directory, and no user's kernel tree is ever
//! written to. This crate boots nothing: that a kernel is in the store says that
//! it was compiled, not that it works.

pub mod build;
pub mod cache;
pub mod catalog;
pub mod config;
pub mod digest;
pub mod files;
pub mod guard;
pub mod image;
pub mod patch;
pub mod profile;
pub mod progress;
pub mod series;
pub mod source;
pub mod spec;
pub mod spelling;
pub mod store;
pub mod tools;
pub mod version;
pub mod yaml;

mod error;
mod error_kind;
#[cfg(test)]
mod properties;
mod warnings;

pub use build::{BuildError, BuildOptions, get_or_build, get_or_build_profiled, touched};
pub use cache::Cache;
pub use catalog::Catalog;
pub use digest::Digest;
pub use error::KernelError;
pub use error_kind::ErrorKind;
pub use progress::{BuildEvent, BuildStage, Progress};
pub use series::{Series, SeriesError};
pub use spec::KernelSpec;
pub use store::Kernel;
pub use warnings::CompilerWarning;
