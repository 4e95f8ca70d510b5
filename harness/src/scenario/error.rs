//! What is wrong with a scenario's text, and where.

use camino::Utf8Path;
use miette::{Diagnostic, NamedSource, SourceSpan};

use super::position::Place;

/// A scenario file that cannot be used. Shown through [`miette`], each problem comes with
/// the lines that it is about.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{file} is not a scenario that can be run: {}", count(.problems.len()))]
pub struct ScenarioError {
    /// The file's name.
    pub file: String,
    /// At least one.
    #[related]
    pub problems: Vec<Problem>,
}

fn count(problems: usize) -> String {
    if problems == 1 {
        "1 problem".into()
    } else {
        format!("{problems} problems")
    }
}

/// One thing that is wrong.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{file}:{}:{}: {message}", place.line, place.column)]
pub struct Problem {
    file: String,
    /// Where.
    pub place: Place,
    /// What.
    pub message: String,
    #[help]
    help: Option<String>,
    // miette shows the lines itself.
    #[source_code]
    source_text: NamedSource<String>,
    #[label("here")]
    span: SourceSpan,
}

impl Problem {
    pub(crate) fn new(
        file: &Utf8Path,
        text: &str,
        place: Place,
        message: String,
        help: Option<String>,
    ) -> Problem {
        let start: usize = text
            .split_inclusive('\n')
            .take(place.line - 1)
            .map(str::len)
            .sum();
        let line = text.get(start..).unwrap_or("").lines().next().unwrap_or("");
        let before: usize = line
            .chars()
            .take(place.column - 1)
            .map(char::len_utf8)
            .sum();
        let length: usize = line
            .chars()
            .skip(place.column - 1)
            .take(place.length)
            .map(char::len_utf8)
            .sum();
        Problem {
            file: file.to_string(),
            place,
            message,
            help,
            source_text: NamedSource::new(file, text.to_owned()).with_language("yaml"),
            span: (start + before, length).into(),
        }
    }
}

/// A file that cannot be read.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("cannot read scenario {file}")]
pub struct ReadError {
    /// The file's name.
    pub file: String,
    /// Why not.
    #[source]
    pub source: std::io::Error,
}
