//! Why a configuration is not the requested one.

use std::fmt::Write as _;

use crate::cache::CacheError;
use crate::error_kind::ErrorKind;

/// Why a configuration is not the one asked for.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A fragment's line is no option.
    #[error("{fragment}:{line}: {text:?} is neither `CONFIG_X=value` nor `# CONFIG_X is not set`")]
    Syntax {
        /// The fragment.
        fragment: String,
        /// The line, from 1.
        line: usize,
        /// The line's text.
        text: String,
    },
    /// A fragment's line gives an option a value that none has.
    #[error(
        "{fragment}:{line}: {option} cannot be {value:?}: an option is y, m, n, a number, or a \
         text in double quotes, such as {option}=\"text\" (a shell takes quotes away: write \
         '{option}=\"text\"' there)"
    )]
    Value {
        /// The fragment.
        fragment: String,
        /// The line, from 1.
        line: usize,
        /// The option.
        option: String,
        /// What it is given.
        value: String,
    },
    /// A fragment gives an option two values.
    #[error(
        "{fragment}:{line}: {option} is {value} here and {earlier} in line {earlier_line}: remove \
         one of the lines"
    )]
    Twice {
        /// The fragment.
        fragment: String,
        /// The second line, from 1.
        line: usize,
        /// The option.
        option: String,
        /// Its value there.
        value: String,
        /// The first line.
        earlier_line: usize,
        /// Its value there.
        earlier: String,
    },
    /// Options were not granted.
    #[error(
        "the kernel's configuration is not the one asked for:{}",
        list(refused)
    )]
    Refused {
        /// Each of them.
        refused: Vec<Refused>,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

impl ConfigError {
    /// What sort of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Cache(error) => error.kind(),
            _ => ErrorKind::Input,
        }
    }
}

/// An option that exists but is not what was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its name.
    pub option: String,
    /// What was asked for: a value, or `n`.
    pub asked: String,
    /// What it is: a value, or `n`.
    pub got: String,
    /// The fragment and line that asks for it.
    pub origin: String,
    /// Whether this version of the source has it.
    pub exists: bool,
    /// Its dependencies in this source, with their values; for one that does not exist,
    /// the nearest that does.
    pub because: String,
}

fn list(refused: &[Refused]) -> String {
    let mut text = String::new();
    for item in refused {
        let Refused {
            option,
            asked,
            got,
            origin,
            exists,
            because,
        } = item;
        let dropped = match (exists, got.as_str()) {
            (false, _) => "does not exist in this version of the source".to_owned(),
            (true, "n") => "exists but was dropped".to_owned(),
            (true, got) => format!("became {got}"),
        };
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {option}={asked} ({origin}) {dropped}{because}");
    }
    text
}
