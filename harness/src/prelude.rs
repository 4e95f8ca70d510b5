//! What a program that runs scenarios needs: `use numalab::prelude::*;`.

pub use crate::error::Error;
pub use crate::kernel_runner::KernelRunner;
pub use crate::report::RunReport;
pub use crate::scenario::Scenario;
pub use crate::verdict::Verdict;
pub use crate::workspace::Workspace;
