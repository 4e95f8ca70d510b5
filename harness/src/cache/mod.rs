//! Cached entries: what a file of one must be, and who makes one.

pub(crate) mod build_lock;
pub(crate) mod content;
