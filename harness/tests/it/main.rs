//! numalab as an outsider uses it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bisecting;
mod cli;
mod documents;
mod guest;
mod limits;
mod repeat;
mod source;
