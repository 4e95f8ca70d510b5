//! Taking what a guest once said, as if it had just said it.

use std::time::Duration;

use super::{GuestError, GuestEvent, Limits};
use crate::guest::argv::{Boot, Start};
use crate::guest::deadline::Deadlines;
use crate::guest::outcome::{End, Outcome};
use crate::guest::output::Output;

/// What came of a guest that powered off, from the files of its console and its records,
/// which are read by the same code as those of a running guest. No guest is started.
///
/// # Errors
/// A file cannot be read.
pub fn recall(
    boot: &Boot,
    limits: &Limits,
    on_event: impl FnMut(GuestEvent<'_>),
) -> Result<Outcome, GuestError> {
    let boot = Boot {
        // The files are there and stay as they are.
        start: Start::Restored("".into()),
        ..boot.clone()
    };
    let output = Output::new(&boot, &Deadlines::STANDARD, limits, on_event)?;
    output.outcome(End::PowerOff, Duration::ZERO)
}
