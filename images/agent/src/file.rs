//! Files of `/proc`, `/sys` and the control groups: read whole, written with one `write(2)`.
//!
//! `numalab_protocol::procfs` parses their formats.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::str::FromStr;

use numalab_protocol::list;

use crate::errno;

/// Why a file could not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("{path} cannot be read: {}", errno::text(.cause))]
    Read { path: String, cause: io::Error },
    #[error("the kernel refuses {value:?} in {path}: {}", errno::text(.cause))]
    Write {
        path: String,
        value: String,
        cause: io::Error,
    },
    #[error("{path} contains {text:?}, which is not {expected}")]
    Form {
        path: String,
        text: String,
        expected: &'static str,
    },
}

impl FileError {
    /// A file whose text has an unexpected format.
    pub(crate) fn form(path: &str, text: &str, expected: &'static str) -> Self {
        FileError::Form {
            path: path.into(),
            text: text.trim_end().chars().take(80).collect(),
            expected,
        }
    }

    /// Whether the file, or the kernel's feature behind it, does not exist.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, FileError::Read { cause, .. } | FileError::Write { cause, .. }
            if cause.kind() == io::ErrorKind::NotFound)
    }
}

/// Reads a whole file.
pub(crate) fn read(path: &str) -> Result<String, FileError> {
    let bytes = fs::read(path).map_err(|cause| FileError::Read {
        path: path.into(),
        cause,
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads a whole file that not every kernel has.
pub(crate) fn read_optional(path: &str) -> Result<Option<String>, FileError> {
    match read(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a number.
pub(crate) fn read_number<N: FromStr>(path: &str) -> Result<N, FileError> {
    let text = read(path)?;
    let number = text.trim_end().parse();
    number.map_err(|_| FileError::form(path, &text, "a number"))
}

/// Reads a list of numbers such as `0-2,5`.
pub(crate) fn read_list(path: &str) -> Result<Vec<u32>, FileError> {
    let text = read(path)?;
    list::parse(&text).map_err(|_| FileError::form(path, &text, "a list of numbers"))
}

/// Writes a value into a file that exists.
pub(crate) fn write(path: &str, value: &str) -> Result<(), FileError> {
    let written = OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| file.write(value.as_bytes()));
    match written {
        Ok(length) if length == value.len() => Ok(()),
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::WriteZero,
            "only a part of it was written",
        )),
        Err(cause) => Err(cause),
    }
    .map_err(|cause| FileError::Write {
        path: path.into(),
        value: value.trim_end().into(),
        cause,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_missing_file_has_its_path() {
        let error = read("/nonexistent/tunable").unwrap_err();
        assert!(error.is_absent());
        assert_eq!(
            error.to_string(),
            "/nonexistent/tunable cannot be read: ENOENT (No such file or directory)"
        );
        assert!(read_optional("/nonexistent/tunable").unwrap().is_none());
    }

    #[test]
    fn the_error_of_a_refused_value_has_path_value_and_errno() {
        // No process may write here, whoever it belongs to.
        let error = write("/proc/self/stat", "17").unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("the kernel refuses \"17\" in /proc/self/stat: E"),
            "{text}"
        );
    }

    #[test]
    fn a_directory_is_not_an_absent_file() {
        assert!(!read("/proc").unwrap_err().is_absent());
        assert!(read_optional("/proc").is_err());
    }
}
