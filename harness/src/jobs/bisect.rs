//! Finds the commit that broke a scenario.
//!
//! Both ends are judged first. Then git chooses commits and each is judged, until one is left
//! or the rest have to be skipped. The answer is verified by builds from scratch. Nothing is
//! written into the repository.

pub mod confidence;
mod ends;
mod graph;
pub mod judge;
mod mark;
pub mod report;
mod run;
mod search;
mod state;
pub mod step;
#[cfg(test)]
mod tests;

pub use ends::{BisectError, BisectRequest, check};
pub use run::run;
