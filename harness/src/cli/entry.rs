//! What the process does from its arguments to its exit code.

use std::borrow::Cow;
use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};

use super::command::Args;
use super::context::{Context, print, written};
use super::exit::{Failure, INCONCLUSIVE, INPUT};
use super::judge;
use super::repeat::CommandLine;
use crate::guest::escape::{json_safe, terminal_safe};
use crate::signals::{INTERRUPTED, cancel_on_signals};
use crate::ui::{self, Ui};

/// Runs the command that this process was started with.
pub fn main() -> ExitCode {
    ui::show_errors_plainly();
    let judging = judge::is_judge(std::env::args_os().skip(1));
    if judging {
        judge::stop_on_panic();
    }
    let exit_code = |code| match judging {
        true => judge::stopping(code),
        false => code,
    };
    let command = Args::command();
    let parsed = command.clone().try_get_matches().and_then(|matches| {
        let args = Args::from_arg_matches(&matches)?;
        Ok((args, CommandLine::new(command, matches)))
    });
    let (args, command_line) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            let text = error.render().to_string();
            let printed = match terminal_safe(&text) {
                Cow::Borrowed(_) => error.print().and_then(|()| std::io::stdout().flush()),
                Cow::Owned(escaped) => write!(std::io::stderr(), "{escaped}"),
            };
            return match written(printed) {
                // `--help` and `--version` are errors to clap.
                Ok(()) if !error.use_stderr() && !judging => ExitCode::SUCCESS,
                Err(failure) if !error.use_stderr() => show(failure, false, exit_code),
                _ => ExitCode::from(exit_code(INPUT)),
            };
        }
    };
    let json = args.json;
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            ui::put(&format!("error: cannot start: {error}"));
            return ExitCode::from(exit_code(INCONCLUSIVE));
        }
    };
    let outcome = runtime.block_on(async {
        let context = Context {
            json,
            ui: Ui::new(args.quiet),
            cancel: cancel_on_signals(),
            command_line,
        };
        args.run(&context).await
    });
    // A cancelled build may still be stopping; it holds its own lock.
    runtime.shutdown_timeout(std::time::Duration::from_secs(20));
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(failure) => show(failure, json, exit_code),
    }
}

/// Prints why there is no result, and gives the exit code for it.
fn show(failure: Failure, json: bool, exit_code: impl Fn(u8) -> u8) -> ExitCode {
    let (code, error) = match failure {
        Failure::Input(report) => (INPUT, format!("{report:?}")),
        Failure::Environment(report) => (INCONCLUSIVE, format!("{report:?}")),
        Failure::Interrupted => (INTERRUPTED, "interrupted".to_owned()),
    };
    let code = exit_code(code);
    // Its colours are miette's, which leaves no other escape codes in it.
    let _ = writeln!(std::io::stderr(), "{error}");
    if json {
        // A script finds the reason where it looks for results.
        let value = serde_json::json!({ "error": error.trim(), "exit-code": code });
        let _ = print(&format!("{}\n", json_safe(&format!("{value:#}"))));
    }
    ExitCode::from(code)
}
