//! The scenarios that numalab ships lie beside this crate's sources, one folder a suite.
//!
//! There is nothing to call here: `tests/scenarios.rs` shows them to the test runner.
