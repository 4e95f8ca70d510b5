//! Git, as it works on files of ours: with nobody's settings and identity, outside of
//! any repository.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use crate::source::repository;

/// A git command that runs in `folder`. Neither the user's nor the system's settings,
/// attributes and hooks reach it, and a repository around the folder is not looked for.
pub(crate) fn command(tools: &OsStr, folder: &Path) -> Command {
    let mut command = repository::quiet(tools);
    command
        .env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap_or(folder))
        // For git before 2.32, which does not know the variables for settings.
        .env("HOME", "/nonexistent")
        .current_dir(folder);
    for who in ["AUTHOR", "COMMITTER"] {
        command
            .env(format!("GIT_{who}_NAME"), "numalab")
            .env(format!("GIT_{who}_EMAIL"), "numalab@localhost")
            .env(format!("GIT_{who}_DATE"), "1700000000 +0000");
    }
    command
}
