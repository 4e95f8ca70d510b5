//! Files and folders.

use std::path::Path;
use std::{fs, io};

/// The last part of a path, for names and messages.
pub(crate) fn name(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}

/// Makes an empty folder, removing what is in it.
pub(crate) fn empty(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::create_dir_all(folder)
}
