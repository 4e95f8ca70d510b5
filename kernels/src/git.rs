//! Git, as it works here: with nobody's settings and identity, outside of any
//! repository but the one that is named.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use crate::process;

/// A git command that runs in `folder`. Neither the user's nor the system's settings,
/// attributes and hooks reach it, and a repository around the folder is not looked for.
pub(crate) fn command(tools: &OsStr, folder: &Path) -> Command {
    let program = which::which_in("git", Some(tools), "/").map_or("git".into(), |path| path);
    let mut command = process::command(program, tools);
    command
        .env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap_or(folder))
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_ATTR_NOSYSTEM", "1")
        // For git before 2.32, which does not know the variables above.
        .env("HOME", "/nonexistent")
        .env("GIT_TERMINAL_PROMPT", "0")
        .current_dir(folder);
    for who in ["AUTHOR", "COMMITTER"] {
        command
            .env(format!("GIT_{who}_NAME"), "numalab")
            .env(format!("GIT_{who}_EMAIL"), "numalab@localhost")
            .env(format!("GIT_{who}_DATE"), "1700000000 +0000");
    }
    command
}
