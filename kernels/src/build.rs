//! From a kernel's specification to a kernel in the store.

mod adopt;
mod alternative;
mod assemble;
mod builder;
pub(crate) mod compile;
mod context;
mod jobs;
mod key;
pub(crate) mod log;
pub(crate) mod objects;
mod options;
mod patched;
mod touched;
mod work_tree;

pub use builder::{get_or_build, get_or_build_profiled};
pub use compile::BuildError;
pub use options::BuildOptions;
pub use touched::touched;
pub use work_tree::{KernelSource, source};
