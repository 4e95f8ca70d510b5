//! Files and folders.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a file that the user names. A named pipe or a device is an error: reading one may
/// wait for ever.
///
/// # Errors
/// It is not a regular file, or cannot be opened.
pub fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        // Opening a named pipe would wait for somebody who writes to it.
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)?;
    let kind = file.metadata()?.file_type();
    let what = match () {
        () if kind.is_file() => return Ok(file),
        () if kind.is_dir() => "a folder",
        () if kind.is_fifo() => "a pipe",
        () => "a device",
    };
    let why = format!("it is {what}, not a regular file");
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

/// Reads a file that the user names.
///
/// # Errors
/// As [`open`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a text file that the user names.
///
/// # Errors
/// As [`open`], and if it is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    io::read_to_string(open(path)?)
}

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

/// A name as a part of a file's name that `make` and shells take as it is.
pub(crate) fn plain(name: &str) -> String {
    name.chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() || "._-".contains(letter) {
                letter
            } else {
                '_'
            }
        })
        .collect()
}
