//! The command `numalab`: its words, and what each does.
//!
//! Each subcommand is a file; this one holds what they share: the arguments, the exit codes,
//! and how an error is shown.

mod args;
mod bisect;
mod bundle;
mod cache;
mod check;
mod compare;
mod doctor;
mod generate;
mod judge;
mod kernel;
mod list;
mod replay;
mod run;
mod watch;

pub mod signals;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use miette::Report;
use numalab_kernels::{ErrorKind, KernelError};

pub use args::Args;

use crate::cli::signals::{INTERRUPTED, cancel_on_signals};
use crate::error::Error;
use crate::ui::{self, Ui};

/// Every verdict is `pass`; nothing is broken or unclear.
const GOOD: u8 = 0;
/// A `fail`; something is broken.
const BAD: u8 = 1;
/// The input is wrong.
const INPUT: u8 = 2;
/// Inconclusive: the environment did not allow an answer.
const INCONCLUSIVE: u8 = 3;
/// Why a command gives no result.
#[derive(Debug)]
enum Failure {
    /// What was asked for is wrong.
    Input(Report),
    /// This machine did not allow an answer.
    Environment(Report),
    /// A signal came.
    Interrupted,
}

impl Failure {
    fn input(error: impl Into<Report>) -> Failure {
        Failure::Input(error.into())
    }

    fn kernel(error: KernelError) -> Failure {
        let kind = error.kind();
        let report = crate::error::report(error);
        match kind {
            ErrorKind::Input => Failure::Input(report),
            ErrorKind::Build | ErrorKind::Environment => Failure::Environment(report),
            ErrorKind::Interrupted => Failure::Interrupted,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Interrupted => Failure::Interrupted,
            Error::Kernel(error) => Failure::kernel(error),
            error if error.is_input() => Failure::Input(error.into()),
            error => Failure::Environment(error.into()),
        }
    }
}

impl From<Report> for Failure {
    // What is reported without a kind was found in what the user wrote.
    fn from(report: Report) -> Failure {
        Failure::Input(report)
    }
}

/// Runs the command of this process' arguments.
pub fn main() -> ExitCode {
    let judging = judge::is_meant(std::env::args_os().skip(1));
    if judging {
        judge::stop_on_panic();
    }
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) if judging => {
            // That it cannot be shown is no reason to go on.
            let _ = error.print();
            return ExitCode::from(judge::USAGE);
        }
        Err(error) => error.exit(),
    };
    let code_of = |code| match judging {
        true => judge::stopping(code),
        false => code,
    };
    ui::show_errors_plainly();
    let ui = Ui::new(args.quiet);
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            ui::put(&format!("error: cannot start: {error}"));
            return ExitCode::from(code_of(INCONCLUSIVE));
        }
    };
    let outcome = runtime.block_on(async {
        let cancel = cancel_on_signals();
        args::dispatch(&args, &ui, &cancel).await
    });
    // A build that is still ending holds its own lock; it was told to stop.
    runtime.shutdown_timeout(std::time::Duration::from_secs(20));
    let (code, error) = match outcome {
        Ok(code) => return ExitCode::from(code),
        Err(Failure::Input(report)) => (INPUT, format!("{report:?}")),
        Err(Failure::Environment(report)) => (INCONCLUSIVE, format!("{report:?}")),
        Err(Failure::Interrupted) => (INTERRUPTED, "interrupted".to_owned()),
    };
    let code = code_of(code);
    ui::put(&error);
    if args.json {
        // A script gets the reason where it looks for results.
        let value = serde_json::json!({ "error": error.trim(), "exit-code": code });
        let _ = print(&format!("{value:#}\n"));
    }
    ExitCode::from(code)
}

/// Prints a result. A reader that has gone, such as `head`, is no error.
fn print(text: &str) -> Result<u8, Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::Environment(
            Error::file("write", "the standard output".into())(error).into(),
        )),
        _ => Ok(GOOD),
    }
}

/// A value as JSON.
fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(value)
        .map_err(|error| Failure::Environment(crate::error::report(error)))
}

/// `count` seeds from `first` on.
fn seeds(first: u64, count: u64) -> Result<std::ops::Range<u64>, Failure> {
    match first.checked_add(count) {
        Some(end) if (1..=1000).contains(&count) => Ok(first..end),
        _ => Err(Failure::Input(miette::miette!(
            "{count} seeds from {first} on: 1 to 1000 at a time"
        ))),
    }
}
