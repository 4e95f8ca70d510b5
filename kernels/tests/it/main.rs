//! The library as its callers see it. A small source (`tests/fixtures/kernel`) stands
//! for Linux: it is built, killed, patched and damaged for real, in seconds.

#![expect(
    clippy::unwrap_used,
    reason = "a test, its helpers included, ends at what it did not expect"
)]

mod alternatives;
mod bench;
mod builds;
mod cache;
mod commits;
mod config;
mod directories;
mod downloads;
mod foreign;
mod images;
mod interruptions;
mod packages;
mod patches;
mod ranges;
mod series;
mod server;
mod shipped;
mod sources;
mod tarballs;
mod touched;
mod words;
