//! `numalab schema`, `completions` and `man`: what is generated from types and arguments.

use camino::Utf8Path;
use miette::{Context as _, IntoDiagnostic as _};

use super::context::{json, print};
use super::exit::{Failure, GOOD};
use crate::scenario;

/// How `numalab schema` prints the scenario language.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum SchemaFormat {
    /// A JSON schema, for editors.
    Json,
    /// The reference, for readers.
    Markdown,
}

pub(super) const SCHEMA_HELP: &str = "\
Exit codes: 0 printed, 3 standard output cannot be written.

Example: numalab schema > scenario.schema.json";

pub(super) const COMPLETIONS_HELP: &str = "\
Exit codes: 0 printed, 3 standard output cannot be written.

Example: numalab completions bash > ~/.local/share/bash-completion/completions/numalab";

pub(super) const MAN_HELP: &str = "\
Exit codes: 0 written, 3 the folder cannot be written.

Example: numalab man ~/.local/share/man/man1";

pub(super) fn schema(format: SchemaFormat) -> Result<u8, Failure> {
    match format {
        SchemaFormat::Json => print(&format!("{}\n", json(&scenario::schema())?))?,
        SchemaFormat::Markdown => print(&scenario::reference())?,
    }
    Ok(GOOD)
}

pub(super) fn completions(
    mut command: clap::Command,
    shell: clap_complete::Shell,
) -> Result<u8, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "numalab", &mut text);
    print(&String::from_utf8_lossy(&text))?;
    Ok(GOOD)
}

pub(super) fn manual(command: clap::Command, folder: &Utf8Path) -> Result<u8, Failure> {
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(command, folder))
        .into_diagnostic()
        .wrap_err_with(|| format!("cannot write manual pages into {folder}"))
        .map_err(Failure::Environment)?;
    crate::ui::put(&format!("wrote manual pages into {folder}"));
    Ok(GOOD)
}
