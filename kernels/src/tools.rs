//! The programs that builds run.

pub(crate) mod git;
pub(crate) mod process;
pub mod toolchain;
