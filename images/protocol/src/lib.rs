//! The protocol between the host and the agent in the guest.
//!
//! The host sends one [`Plan`], as pages of fw_cfg ([`pages`]); the agent sends back
//! [`Record`]s, one framed line each ([`frame`]). [`procfs`] and [`tracefs`] parse the formats
//! of the kernel's files.
//!
//! Nothing here does I/O.

pub mod coverage;
pub mod frame;
pub mod list;
pub mod pages;
pub mod plan;
pub mod procfs;
pub mod record;
pub mod tracefs;

pub use frame::{Frame, FrameError};
pub use plan::Plan;
pub use record::Record;

/// The version of the protocol. The agent refuses a plan of another version, and the host a
/// guest of another version. It is part of the key of every cached result.
pub const CONTRACT: u32 = 2;

/// How long the agent spins on CPU 0 between reporting that it is ready and reading the plan,
/// in nanoseconds of guest time. Snapshots are taken within this window.
pub const WINDOW_NS: u64 = 1_000_000_000;
