//! numalab tells whether a Linux kernel's automatic NUMA balancing does what a patch claims.
//!
//! Data flows one way: a [`scenario`] and a kernel give a plan; a [`guest`] runs it and
//! gives records; [`verdict`] reads measurements from them, judges them, and sets two
//! kernels side by side; [`report`] shows it. [`run`] is one scenario on one kernel with
//! one seed, [`jobs`] is what is made of many such runs, and [`cli`] the command's surface.

pub mod cli;
pub mod environment;
pub mod error;
pub mod error_chain;
pub mod guest;
pub mod jobs;
pub mod kernel_id;
pub mod kernel_runner;
pub mod prelude;
pub mod report;
pub mod run;
pub mod scenario;
pub mod signals;
pub mod testing;
pub mod timing;
pub mod ui;
pub mod verdict;
pub mod workspace;

mod blocking;
mod cache;
mod suggest;

pub use error::Error;
