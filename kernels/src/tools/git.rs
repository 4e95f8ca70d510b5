//! git, with nobody's settings, hooks or identity.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use super::process;

/// git, as nobody's configuration changes it: no user's or system's settings, no hooks,
/// no monitors, no pager, no locks for its own convenience, and nothing fetched.
pub(crate) fn quiet(tools: &OsStr) -> Command {
    let mut command = process::command("git", tools);
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_ATTR_NOSYSTEM", "1")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_TERMINAL_PROMPT", "0")
        // What was replaced is another commit's content.
        .env("GIT_NO_REPLACE_OBJECTS", "1")
        // A partial clone would fetch what it lacks. git knows the first from 2.45 on;
        // before, no transport is allowed to it.
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_ALLOW_PROTOCOL", "none")
        .arg("--no-pager")
        .args(["-c", "safe.directory=*"])
        .args(["-c", "core.fsmonitor=false"])
        .args(["-c", "core.hooksPath=/dev/null"])
        .args(["-c", "core.warnAmbiguousRefs=true"])
        .args(["-c", "i18n.logOutputEncoding=UTF-8"]);
    command
}

/// A git command that runs in `folder`. Neither the user's nor the system's settings,
/// attributes and hooks reach it, and a repository around the folder is not looked for.
pub(crate) fn command(tools: &OsStr, folder: &Path) -> Command {
    let mut command = quiet(tools);
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
