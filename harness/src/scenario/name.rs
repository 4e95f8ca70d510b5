//! Names: of scenarios, tasks, regions, measurements and control groups.

use camino::Utf8Path;

use super::problems::Problems;

/// `suite/scenario`: the names of the folder and the file. A folder that is no suite counts as
/// `own`. A file keeps its name or is refused, because a scenario under another name would not
/// be found.
pub(super) fn of_file(file: &Utf8Path) -> Result<String, String> {
    let suite = file.parent().and_then(Utf8Path::file_name);
    let suite = suite.filter(|suite| is_name(suite)).unwrap_or("own");
    let stem = file.file_stem().unwrap_or_default();
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let starts_well = |stem: &str| stem.starts_with(|c: char| c.is_ascii_alphanumeric());
    if stem.bytes().all(plain) && starts_well(stem) && stem.len() <= 64 {
        return Ok(format!("{suite}/{stem}"));
    }
    Err(format!(
        "{stem:?} cannot be the name of a scenario: rename the file to letters, digits, `-`, `_` \
         and `.`, starting with a letter or a digit, at most 64 characters"
    ))
}

/// Lower-case letters, digits and dashes, a letter first: safe in a path, a test's name and
/// a control group, and never mistaken for a size.
pub(super) fn is_name(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    text.len() <= 64
        && text.bytes().all(plain)
        && text.bytes().next().is_some_and(|b| b.is_ascii_lowercase())
}

/// Checks the name of a task, a region or a measurement.
pub(super) fn check(path: &str, what: &str, name: &str, problems: &mut Problems) {
    if !is_name(name) {
        let message = format!(
            "the name of a {what} consists of lower-case letters, digits, `-` and `_`, starts \
             with a letter, and has at most 64 characters"
        );
        problems.add(path, message);
    }
}
