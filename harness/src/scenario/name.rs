//! Names: of scenarios, tasks, regions, measurements and control groups.

use camino::Utf8Path;

/// `suite/scenario`: the names of the folder and the file, made plain where they are not.
pub(super) fn of_file(file: &Utf8Path) -> String {
    let suite = file
        .parent()
        .and_then(Utf8Path::file_name)
        .unwrap_or_default();
    let suite = if is_name(suite) { suite } else { "own" };
    let stem = file.file_stem().unwrap_or_default().to_ascii_lowercase();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let stem: String = stem
        .chars()
        .map(|c| if plain(c) { c } else { '-' })
        .take(60)
        .collect();
    if is_name(&stem) {
        format!("{suite}/{stem}")
    } else {
        format!("{suite}/s{stem}")
    }
}

/// Lower-case letters, digits and dashes, a letter first: safe in a path, a test's name and
/// a control group, and never mistaken for a size.
pub(super) fn is_name(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    text.len() <= 64
        && text.bytes().all(plain)
        && text.bytes().next().is_some_and(|b| b.is_ascii_lowercase())
}
