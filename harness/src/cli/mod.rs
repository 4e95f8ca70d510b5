//! The command `numalab`: one file for each subcommand, which holds its arguments.

mod bisect;
mod bundle;
mod cache;
mod check;
mod command;
mod commit_options;
mod compare;
mod context;
mod doctor;
mod entry;
mod exit;
mod generate;
mod judge;
mod kernel;
mod kernel_source;
mod list;
mod options;
mod patches;
mod repeat;
mod replay;
mod run;
mod watch;

pub use command::Args;
pub use entry::main;
