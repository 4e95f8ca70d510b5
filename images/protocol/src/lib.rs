//! What the host and the guest's agent say to each other.
//!
//! The host sends one [`Plan`], as pages of fw_cfg ([`pages`]); the agent answers with
//! [`Record`]s, one framed line each ([`frame`]). Both sides, and nothing else, use these
//! types, and the formats of `/proc` and `/sys` are known to [`procfs`] alone.
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

/// The version of what is said. The agent refuses a plan of another version, and the host a
/// guest of another version; it is part of every digest under which a result is kept.
pub const CONTRACT: u32 = 2;

/// How long the agent spins on CPU 0 between being ready and taking the plan, in
/// nanoseconds of guest time. A snapshot is taken within this window.
pub const WINDOW_NS: u64 = 1_000_000_000;
