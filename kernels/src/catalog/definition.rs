//! Kernel definitions: the YAML files, and what is wrong in them.
//!
//! A definition is parsed once, here. Which other definition its `base` means, and
//! what its patches and fragments contain, is the catalog's to find out; scenarios'
//! names in `expected` are checked by whoever knows the scenarios.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_yaml::Value;

use crate::config::option::is_option;
use crate::spec::{Expected, Source, SourceKeys};
use crate::yaml::{At, Index};

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
            // The position is shown once, in our form.
            let message = match message.rfind(" at line ") {
                Some(end) => message[..end].to_owned(),
                None => message,
            };
            DefinitionError::at(path, text, line, column, message)
        })?;
        let fault = |(at, message): Mistake| DefinitionError::find(path, text, &at, message);
        let name = name(path).map_err(fault)?;
        let source = source(parsed.source, "source").map_err(fault)?;
        let start = start(parsed.base, source).map_err(fault)?;
        let alternative = source_of_alternative(parsed.alternative, &start).map_err(fault)?;
        check_expected(&parsed.expected).map_err(fault)?;
        Ok(Self {
            name,
            path: path.to_owned(),
            summary: parsed.summary,
            start,
            alternative,
            revert: parsed.revert,
            apply: parsed.apply,
            config: parsed.config,
            set: options(parsed.set).map_err(fault)?,
            expected: parsed.expected,
            matrix: parsed.matrix,
            text: text.to_owned(),
        })
    }

    /// An error about something that this definition names.
    pub(crate) fn fault(&self, at: &At, message: String) -> DefinitionError {
        DefinitionError::find(&self.path, &self.text, at, message)
    }
}

/// What is wrong, and where.
type Mistake = (At, String);

fn name(path: &Path) -> Result<String, Mistake> {
    let name = path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let allowed = |letter: char| {
        letter.is_ascii_lowercase() || letter.is_ascii_digit() || "_.=-".contains(letter)
    };
    if name.is_empty() || !name.chars().all(allowed) {
        let message = format!(
            "the file's name {name:?} names the kernel, and tests after it: only a-z, 0-9, `_`, \
             `.`, `=` and `-` are allowed"
        );
        return Err((At::Value(String::new()), message));
    }
    Ok(name)
}

fn source(keys: Option<SourceKeys>, key: &str) -> Result<Option<Source>, Mistake> {
    keys.map(Source::try_from)
        .transpose()
        .map_err(|error| (error.at.within(key), error.message))
}

fn start(base: Option<String>, source: Option<Source>) -> Result<Start, Mistake> {
    match (base, source) {
        (Some(base), None) => Ok(Start::Base(base)),
        (None, Some(source)) => Ok(Start::Source(source)),
        (None, None) => Err((
            At::Value(String::new()),
            "neither `base` (the name of another kernel) nor `source` is given: one of them is \
             needed"
                .to_owned(),
        )),
        (Some(_), Some(_)) => Err((
            At::Key("source".to_owned()),
            "both `base` and `source` are given: a kernel starts from one of them".to_owned(),
        )),
    }
}

fn source_of_alternative(
    keys: Option<SourceKeys>,
    start: &Start,
) -> Result<Option<Source>, Mistake> {
    let alternative = source(keys, "alternative")?;
    let message = match (&alternative, start) {
        (None, _) => return Ok(None),
        (Some(Source::Url { .. }), Start::Source(Source::Debian(_))) => return Ok(alternative),
        (Some(_), Start::Source(Source::Debian(_))) => {
            "an `alternative` is a `url` with its `sha256`"
        }
        _ => STANDS_IN,
    };
    Err((At::Key("alternative".to_owned()), message.to_owned()))
}

fn options(set: BTreeMap<String, Value>) -> Result<BTreeMap<String, String>, Mistake> {
    let mut options = BTreeMap::new();
    for (option, value) in set {
        let fault = |message| Err((At::Key(format!("set.{option}")), message));
        if !is_option(&option) {
            return fault(format!(
                "{option:?} is not an option: CONFIG_ and then A-Z, 0-9, `_`, a-z"
            ));
        }
        let value = match value {
            Value::String(value) if !value.contains(['\n', '\r']) => value,
            Value::Number(number) => number.to_string(),
            other => {
                return fault(format!(
                    "the value of {option} is {}, but must be y, n, m, a number, or a text in \
                     double quotes inside single quotes",
                    kind(&other)
                ));
            }
        };
        options.insert(option, value);
    }
    Ok(options)
}

fn check_expected(expected: &BTreeMap<String, Expected>) -> Result<(), Mistake> {
    for (scenario, expected) in expected {
        let fault = |message| Err((At::Key(format!("expected.{scenario}")), message));
        let parts: Vec<&str> = scenario.split('/').collect();
        if parts.len() != 2 || parts.iter().any(|part| part.is_empty()) {
            return fault(format!(
                "{scenario:?} is not the name of a scenario: write suite/scenario"
            ));
        }
        if expected.because.trim().is_empty() {
            return fault(format!(
                "`because` of {scenario:?} is empty: say why this is expected"
            ));
        }
    }
    Ok(())
}

impl DefinitionError {
    fn find(path: &Path, text: &str, at: &At, message: String) -> Self {
        let place = Index::new(text).at(at);
        Self::at(path, text, place.line, place.column, message)
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
