//! The version that a kernel's source states in its top Makefile.

use std::fs;
use std::path::Path;

/// The version of the source in `folder`, for instance `6.12.117-rc1`.
pub(crate) fn of_source(folder: &Path) -> Option<String> {
    of_makefile(&fs::read_to_string(folder.join("Makefile")).ok()?)
}

/// The version that the text of a top Makefile states.
pub fn of_makefile(text: &str) -> Option<String> {
    let field = |name: &str| {
        text.lines().take(20).find_map(|line| {
            let (key, value) = line.split_once('=')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    Some(format!(
        "{}.{}.{}{}",
        field("VERSION")?,
        field("PATCHLEVEL")?,
        field("SUBLEVEL")?,
        field("EXTRAVERSION").unwrap_or_default()
    ))
}
