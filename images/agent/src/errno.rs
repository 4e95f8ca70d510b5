//! Errors of system calls, with the names that `errno(3)` lists.

use std::io;

/// The name of an error number, for those that the calls made here are documented to return.
fn name(number: i32) -> Option<&'static str> {
    Some(match number {
        libc::EPERM => "EPERM",
        libc::ENOENT => "ENOENT",
        libc::ESRCH => "ESRCH",
        libc::EINTR => "EINTR",
        libc::EIO => "EIO",
        libc::ENXIO => "ENXIO",
        libc::E2BIG => "E2BIG",
        libc::ENOEXEC => "ENOEXEC",
        libc::EBADF => "EBADF",
        libc::ECHILD => "ECHILD",
        libc::EAGAIN => "EAGAIN",
        libc::ENOMEM => "ENOMEM",
        libc::EACCES => "EACCES",
        libc::EFAULT => "EFAULT",
        libc::EBUSY => "EBUSY",
        libc::EEXIST => "EEXIST",
        libc::ENODEV => "ENODEV",
        libc::ENOTDIR => "ENOTDIR",
        libc::EISDIR => "EISDIR",
        libc::EINVAL => "EINVAL",
        libc::ENFILE => "ENFILE",
        libc::EMFILE => "EMFILE",
        libc::ENOTTY => "ENOTTY",
        libc::ENOSPC => "ENOSPC",
        libc::EROFS => "EROFS",
        libc::EPIPE => "EPIPE",
        libc::ERANGE => "ERANGE",
        libc::ENAMETOOLONG => "ENAMETOOLONG",
        libc::ENOSYS => "ENOSYS",
        libc::ENODATA => "ENODATA",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        _ => return None,
    })
}

/// The text of an error in a record: its name, then its description.
pub(crate) fn text(error: &io::Error) -> String {
    let meaning = error.to_string();
    let Some(number) = error.raw_os_error() else {
        return meaning;
    };
    let meaning = meaning.trim_end_matches(&format!(" (os error {number})"));
    match name(number) {
        Some(name) => format!("{name} ({meaning})"),
        None => format!("error {number} ({meaning})"),
    }
}

/// A system call that failed, and what it was for.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {}", text(.cause))]
pub(crate) struct CallError {
    what: String,
    cause: io::Error,
}

/// For `map_err`: a [`CallError`] that says what could not be done.
pub(crate) fn failed<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> CallError {
    let what = what.into();
    move |cause| CallError {
        what,
        cause: cause.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_number_is_named() {
        let error = io::Error::from_raw_os_error(libc::EINVAL);
        assert_eq!(text(&error), "EINVAL (Invalid argument)");
    }

    #[test]
    fn an_unknown_number_is_still_printed() {
        let error = io::Error::from_raw_os_error(libc::EXDEV);
        assert!(text(&error).starts_with("error 18 ("), "{}", text(&error));
    }

    #[test]
    fn an_error_that_no_system_call_returned_keeps_its_text() {
        let error = io::Error::new(io::ErrorKind::UnexpectedEof, "cut short");
        assert_eq!(text(&error), "cut short");
    }
}
