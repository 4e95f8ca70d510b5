//! Running `gcov`, and reading what it says (`gcov(1)`, "--json-format").

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::Deserialize;

use super::Profiled;
use crate::cache::CacheError;
use crate::error_kind::ErrorKind;
use crate::tools::process::{self, Job, JobError};

/// How long gcov may take for one object; it takes less than a second.
const DEADLINE: Duration = Duration::from_secs(120);

/// How often lines ran, by file, as the compiler was given it, and line. A line that is not
/// there has no code.
pub type Counts = BTreeMap<String, BTreeMap<u32, u64>>;

/// Why counts are not known.
#[derive(Debug, thiserror::Error)]
pub enum GcovError {
    /// The tool gave no answer.
    #[error("{gcov}, which belongs to the compiler that built the kernel, gives no answer")]
    Job {
        /// Its name.
        gcov: String,
        /// Why.
        #[source]
        source: Box<JobError>,
    },
    /// The tool refuses the guest's counts.
    #[error("{gcov} cannot read the counts of {object}: {said}")]
    Refused {
        /// Its name.
        gcov: String,
        /// The object.
        object: String,
        /// Its words.
        said: String,
    },
    /// A file cannot be written or read.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

impl GcovError {
    /// Whose fault it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Job { source, .. } => source.kind(),
            Self::Refused { .. } => ErrorKind::Environment,
            Self::Cache(error) => error.kind(),
        }
    }
}

#[derive(Deserialize)]
struct Answer {
    files: Vec<AnswerFile>,
}

#[derive(Deserialize)]
struct AnswerFile {
    file: String,
    lines: Vec<AnswerLine>,
}

#[derive(Deserialize)]
struct AnswerLine {
    line_number: u32,
    count: u64,
}

impl Profiled {
    /// How often the lines of an object ran, from what a guest has counted (`.gcda`).
    ///
    /// # Errors
    /// There is no gcov, or it cannot read this.
    pub fn counts(
        &self,
        object: &str,
        counted: &[u8],
        cancel: &AtomicBool,
    ) -> Result<Counts, GcovError> {
        let folder = tempfile::tempdir()
            .map_err(|error| CacheError::io("make", std::env::temp_dir(), error))?;
        let place = |name: &str| folder.path().join(name);
        let fault = |path: &Path| {
            let path = path.to_owned();
            move |error| CacheError::io("write", path, error)
        };
        let notes = self.notes(object);
        fs::copy(&notes, place("object.gcno")).map_err(fault(&notes))?;
        fs::write(place("object.gcda"), counted).map_err(fault(&place("object.gcda")))?;
        let gcov = &self.profile.gcov;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut command = process::command(gcov, &path);
        command
            .args(["--json-format", "--stdout", "object.gcda"])
            .current_dir(folder.path());
        let log = place("log");
        let ended = Job {
            command,
            what: format!("{gcov} of {object}"),
            log: &log,
            lock: None,
            deadline: DEADLINE,
            cancel,
        }
        .run(&mut |_| {})
        .map_err(|source| GcovError::Job {
            gcov: gcov.clone(),
            source: Box::new(source),
        })?;
        let said = fs::read_to_string(&log).map_err(|error| CacheError::io("read", &log, error))?;
        let refused = |said: &str| GcovError::Refused {
            gcov: gcov.clone(),
            object: object.to_owned(),
            said: said.trim().chars().take(400).collect(),
        };
        // Of notes and counts that do not belong together gcov says so, and then gives zeros.
        let complains = said.contains("mismatch") || said.contains("cannot open");
        if !ended.status.success() || complains {
            return Err(refused(&said));
        }
        parse(&said).ok_or_else(|| refused(&said))
    }
}

/// Reads gcov's answer, one line among what else it says.
fn parse(said: &str) -> Option<Counts> {
    let line = said.lines().find(|line| line.starts_with('{'))?;
    let answer: Answer = serde_json::from_str(line).ok()?;
    let mut counts = Counts::new();
    for file in answer.files {
        let lines = counts.entry(file.file).or_default();
        for line in file.lines {
            // One line may be part of several functions, where it is inlined.
            let count: &mut u64 = lines.entry(line.line_number).or_default();
            *count = count.saturating_add(line.count);
        }
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_line_are_summed_over_its_functions() {
        let said = r#"note: something
{"format_version": "1", "gcc_version": "12.2.0", "files": [{"file": "/s/a.c", "functions": [],
"lines": [{"branches": [], "count": 3, "line_number": 7, "unexecuted_block": false},
{"count": 2, "line_number": 7, "function_name": "f"}, {"count": 0, "line_number": 9}]}]}"#
            .replace(",\n", ",");
        let counts = parse(&said).unwrap();
        assert_eq!(counts["/s/a.c"], [(7, 5), (9, 0)].into());
        assert_eq!(parse("no json"), None);
        assert_eq!(parse("{\"files\": 3}"), None);
    }
}
