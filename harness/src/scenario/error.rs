//! What is wrong with a scenario's text, and where.

use camino::Utf8Path;
use miette::{Diagnostic, NamedSource, SourceSpan};

use numalab_kernels::yaml::Place;

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
        let text = shown(text);
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
            source_text: NamedSource::new(file, text).with_language("yaml"),
            span: (start + before, length).into(),
        }
    }
}

/// Letters of a line that are shown.
const WIDEST: usize = 400;

/// The text without the ends of lines that nobody can read.
fn shown(text: &str) -> String {
    let lines = text.split_inclusive('\n').map(|line| {
        let end = line.char_indices().nth(WIDEST).map(|(end, _)| end);
        match end {
            Some(end) if line[end..].len() > 1 => format!("{}\n", &line[..end]),
            _ => line.to_owned(),
        }
    });
    lines.collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_not_shown_to_its_end() {
        let text = format!("a: 1\nb: {}\nc: 2\n", "x".repeat(60_000));
        assert!(shown(&text).len() < 500);
        let place = |line, column| Place {
            line,
            column,
            length: 60_000,
        };
        for place in [place(2, 4), place(2, 50_000), place(3, 1)] {
            let problem = Problem::new("f.yaml".into(), &text, place, "no".into(), None);
            let said = format!("{:?}", miette::Report::new(problem));
            assert!(said.len() < 3000 && said.contains("no"), "{}", said.len());
        }
        assert_eq!(shown("a: 1\nb: 2"), "a: 1\nb: 2");
    }
}
