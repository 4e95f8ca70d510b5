//! The library as its callers see it. A small source (`tests/fixtures/kernel`) stands
//! for Linux: it is built, killed, patched and damaged for real, in seconds.

mod bench;
mod builds;
mod cache;
mod config;
mod directories;
mod images;
mod interruptions;
mod patches;
mod shipped;
mod words;
