//! Kernel configurations: what was requested, and whether Kconfig granted it.

mod check;
mod complete;
mod error;
mod file;
pub(crate) mod kconfig;
pub(crate) mod option;
mod requested;

pub(crate) use check::{changes, check};
pub(crate) use complete::dependencies;
pub use error::{ConfigError, Refused};
pub(crate) use file::beside_image;
pub use file::{Config, REQUIRED};
pub use requested::Requested;
