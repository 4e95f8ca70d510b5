//! Kernel definitions: the YAML files, and what is wrong in them.
//!
//! A definition is parsed once, here. Which other definition its `base` means, and
//! what its patches and fragments contain, is the catalog's to find out; scenarios'
//! names in `expected` are checked by whoever knows the scenarios.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_yaml::Value;

use crate::spec::{Expected, Source, SourceKeys};

/// A definition file, as written.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// Its name: the file's, without `.yaml`.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// What it is, in a sentence.
    pub summary: String,
    /// Where it starts from.
    pub start: Start,
    /// What stands in for a source that is a package, where that cannot be had.
    pub alternative: Option<Source>,
    /// Patch files to take back, in order, before any is applied.
    pub revert: Vec<String>,
    /// Patch files to apply, in order.
    pub apply: Vec<String>,
    /// Configuration fragments, added to the base's.
    pub config: Vec<String>,
    /// Single options, after all fragments: name and value as in `.config`, `n` for
    /// "is not set".
    pub set: BTreeMap<String, String>,
    /// What it is expected to do, where that is not what its base does.
    pub expected: BTreeMap<String, Expected>,
    /// Whether the default test matrix has it.
    pub matrix: bool,
    text: String,
}

/// Where a definition starts from.
#[derive(Debug, Clone, PartialEq)]
pub enum Start {
    /// Another definition, by name.
    Base(String),
    /// A source.
    Source(Source),
}

/// What is wrong with a definition, and where.
#[derive(Debug, thiserror::Error)]
#[error("{}:{line}:{column}: {message}{excerpt}", path.display())]
pub struct DefinitionError {
    /// The file.
    pub path: PathBuf,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong, and what is allowed.
    pub message: String,
    /// The offending line with a mark below it; each on a line of its own.
    pub excerpt: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Text {
    summary: String,
    #[serde(default)]
    base: Option<String>,
    #[serde(default)]
    source: Option<SourceKeys>,
    #[serde(default)]
    alternative: Option<SourceKeys>,
    #[serde(default)]
    revert: Vec<String>,
    #[serde(default)]
    apply: Vec<String>,
    #[serde(default)]
    config: Vec<String>,
    #[serde(default)]
    set: BTreeMap<String, Value>,
    #[serde(default)]
    expected: BTreeMap<String, Expected>,
    #[serde(default = "yes")]
    matrix: bool,
}

const STANDS_IN: &str = "an `alternative` stands in for a Debian package, which `source` has to \
                         name: there is none here";

fn yes() -> bool {
    true
}

impl Definition {
    /// Reads and parses a definition file.
    pub fn read(path: &Path) -> Result<Self, DefinitionError> {
        let text = crate::files::read_text(path)
            .map_err(|why| DefinitionError::at(path, "", 1, 1, format!("cannot be read: {why}")))?;
        Self::parse(path, &text)
    }

    /// Parses a definition's text.
    pub fn parse(path: &Path, text: &str) -> Result<Self, DefinitionError> {
        let parsed: Text = serde_yaml::from_str(text).map_err(|error| {
            let (line, column) = error
                .location()
                .map_or((1, 1), |place| (place.line(), place.column()));
            let message = error.to_string();
            // The position is told once, in our form.
            let message = match message.rfind(" at line ") {
                Some(end) => message[..end].to_owned(),
                None => message,
            };
            DefinitionError::at(path, text, line, column, message)
        })?;
        let fault =
            |needle: &str, message: String| DefinitionError::find(path, text, needle, message);
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let plain = |letter: char| {
            letter.is_ascii_lowercase() || letter.is_ascii_digit() || "_.=-".contains(letter)
        };
        if name.is_empty() || !name.chars().all(plain) {
            return Err(fault(
                "",
                format!(
                    "the file's name {name:?} names the kernel, and tests after it: only \
                     a-z, 0-9, `_`, `.`, `=` and `-` are allowed"
                ),
            ));
        }
        let source = match parsed.source.map(Source::try_from) {
            Some(Err(error)) => return Err(fault(&error.needle, error.message)),
            Some(Ok(source)) => Some(source),
            None => None,
        };
        let start = match (parsed.base, source) {
            (Some(base), None) => Start::Base(base),
            (None, Some(source)) => Start::Source(source),
            (None, None) => {
                return Err(fault(
                    "",
                    "neither `base` (the name of another kernel) nor `source` is given: one of \
                     them is needed"
                        .to_owned(),
                ));
            }
            (Some(_), Some(_)) => {
                return Err(fault(
                    "source",
                    "both `base` and `source` are given: a kernel starts from one of them"
                        .to_owned(),
                ));
            }
        };
        let alternative = match parsed.alternative.map(Source::try_from) {
            Some(Err(error)) => return Err(fault(&error.needle, error.message)),
            Some(Ok(source)) => Some(source),
            None => None,
        };
        let misplaced = match (&alternative, &start) {
            (None, _) => None,
            (Some(_), Start::Base(_)) => Some(STANDS_IN),
            (Some(_), Start::Source(source)) if !matches!(source, Source::Debian(_)) => {
                Some(STANDS_IN)
            }
            (Some(Source::Url { .. }), _) => None,
            (Some(_), _) => Some("an `alternative` is a `url` with its `sha256`"),
        };
        if let Some(message) = misplaced {
            return Err(fault("alternative", message.to_owned()));
        }
        let mut set = BTreeMap::new();
        for (option, value) in parsed.set {
            if !crate::config::option::is_option(&option) {
                return Err(fault(
                    &option,
                    format!("{option:?} is no option: CONFIG_ and then A-Z, 0-9, `_`, a-z"),
                ));
            }
            let value = match value {
                Value::String(value) if !value.contains(['\n', '\r']) => value,
                Value::Number(number) => number.to_string(),
                other => {
                    return Err(fault(
                        &option,
                        format!(
                            "{option} has a value that is neither a word nor a number ({}): \
                             write y, n, m, a number, or a text in double quotes inside of \
                             single ones",
                            kind(&other)
                        ),
                    ));
                }
            };
            set.insert(option, value);
        }
        for (scenario, expected) in &parsed.expected {
            let parts: Vec<&str> = scenario.split('/').collect();
            if parts.len() != 2 || parts.iter().any(|part| part.is_empty()) {
                return Err(fault(
                    scenario,
                    format!("{scenario:?} is no scenario's name: suite/scenario is expected"),
                ));
            }
            if expected.because.trim().is_empty() {
                return Err(fault(
                    scenario,
                    format!("`because` of {scenario:?} is empty: say why this is expected"),
                ));
            }
        }
        Ok(Self {
            name,
            path: path.to_owned(),
            summary: parsed.summary,
            start,
            alternative,
            revert: parsed.revert,
            apply: parsed.apply,
            config: parsed.config,
            set,
            expected: parsed.expected,
            matrix: parsed.matrix,
            text: text.to_owned(),
        })
    }

    /// An error about something that this definition names.
    pub(crate) fn fault(&self, needle: &str, message: String) -> DefinitionError {
        DefinitionError::find(&self.path, &self.text, needle, message)
    }
}

impl DefinitionError {
    fn find(path: &Path, text: &str, needle: &str, message: String) -> Self {
        let place = text.lines().enumerate().find_map(|(index, line)| {
            let line = line.split(" #").next().unwrap_or_default();
            if line.trim_start().starts_with('#') || needle.is_empty() {
                return None;
            }
            let at = line.find(needle)?;
            Some((index + 1, line[..at].chars().count() + 1))
        });
        let (line, column) = place.unwrap_or((1, 1));
        Self::at(path, text, line, column, message)
    }

    fn at(path: &Path, text: &str, line: usize, column: usize, message: String) -> Self {
        let (line, column) = (line.max(1), column.max(1));
        let excerpt = text
            .lines()
            .nth(line - 1)
            .map_or_else(String::new, |shown| {
                let shown: String = shown
                    .chars()
                    .take(200)
                    .map(|letter| if letter.is_control() { ' ' } else { letter })
                    .collect();
                let number = line.to_string();
                let column = column.min(shown.chars().count() + 1);
                format!(
                    "\n{number} | {shown}\n{} | {}^",
                    " ".repeat(number.len()),
                    " ".repeat(column - 1)
                )
            });
        Self {
            path: path.to_owned(),
            line,
            column,
            message,
            excerpt,
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text of several lines",
        Value::Sequence(_) => "a list",
        Value::Mapping(_) | Value::Tagged(_) => "a map",
    }
}
