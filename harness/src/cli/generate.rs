//! `numalab schema`, `completions` and `man`: what is made of the types and arguments.

use std::io::Write as _;

use camino::Utf8Path;
use clap::CommandFactory as _;
use miette::{Context as _, IntoDiagnostic as _};

use super::{Args, Failure, GOOD};

pub(super) fn schema() -> Result<u8, Failure> {
    let text = serde_json::to_string_pretty(&crate::scenario::schema()).into_diagnostic()?;
    super::print(&format!("{text}\n"))
}

pub(super) fn completions(shell: clap_complete::Shell) -> Result<u8, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "numalab", &mut text);
    super::print(&String::from_utf8_lossy(&text))
}

pub(super) fn manual(folder: &Utf8Path) -> Result<u8, Failure> {
    let write = || -> miette::Result<()> {
        std::fs::create_dir_all(folder).into_diagnostic()?;
        clap_mangen::generate_to(Args::command(), folder).into_diagnostic()
    };
    write().wrap_err_with(|| format!("cannot write manual pages into {folder}"))?;
    let _ = writeln!(std::io::stderr(), "manual pages are in {folder}");
    Ok(GOOD)
}
