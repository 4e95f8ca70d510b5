//! What each subcommand gets beside its own arguments, and how it prints its result.

use std::io::Write as _;
use std::ops::Range;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::exit::Failure;
use super::repeat::CommandLine;
use crate::error::Error;
use crate::guest::escape::{json_safe, terminal_safe};
use crate::ui::Ui;

/// What each subcommand gets beside its own arguments.
pub(super) struct Context {
    /// Whether results are printed as JSON.
    pub(super) json: bool,
    pub(super) ui: Ui,
    /// Cancelled by the first signal.
    pub(super) cancel: CancellationToken,
    pub(super) command_line: CommandLine,
}

impl Context {
    /// Prints a result: as JSON if the user asked for that, else as text.
    pub(super) fn print(
        &self,
        result: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let text = match self.json {
            true => format!("{}\n", json(result)?),
            false => text(),
        };
        print(&text)
    }
}

/// Prints text to standard output. A reader that closes the pipe, such as `head`, is no error.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    written(
        out.write_all(terminal_safe(text).as_bytes())
            .and_then(|()| out.flush()),
    )
}

/// What the result of writing to standard output means for a command.
pub(super) fn written(result: std::io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::file("write", "standard output".into())(error).into())
        }
        _ => Ok(()),
    }
}

pub(super) fn json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(value)
        .map(|json| json_safe(&json))
        .map_err(|error| Failure::Environment(crate::error::report(error)))
}

/// `count` seeds from `first` on.
pub(super) fn seeds(first: u64, count: u64) -> Result<Range<u64>, Failure> {
    match first.checked_add(count) {
        Some(end) if (1..=1000).contains(&count) => Ok(first..end),
        _ => Err(Failure::input(miette::miette!(
            "{count} seeds starting at {first}: the number of seeds is 1 to 1000"
        ))),
    }
}
