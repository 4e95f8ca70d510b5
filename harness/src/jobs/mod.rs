//! Jobs: what a command makes of many runs.

pub mod bisect;
pub mod budget;
pub mod check;
pub mod comparison;
pub mod coverage;
pub mod divergence;
pub mod doctor;
pub mod watch;
