//! Changed lines and how often they ran.

use std::collections::BTreeMap;

use numalab_kernels::profile::{ChangedFile, Counted, Counts};
use serde::{Deserialize, Serialize};

/// Whether a scenario ran any changed line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exercise {
    /// It ran at least one.
    Exercised,
    /// It ran none: whatever holds in it says nothing of the patch.
    NotExercised,
    /// It cannot be told.
    Unknown,
}

/// A touched file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileCoverage {
    /// Its path in the source.
    pub path: String,
    /// Whether what runs of it is counted.
    pub counted: Counted,
    /// What was changed, in the order of the lines.
    pub changes: Vec<ChangedLine>,
}

/// A changed line, or a place where lines were removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedLine {
    /// The line's number in the patched file; of removed lines, that of the line before.
    pub line: u32,
    /// Its text; `None` where lines were removed and none put in their place.
    pub text: Option<String>,
    /// How often it ran before the first step, the most of all runs; `None` if the compiler
    /// made no code of it. For removed lines: how often both their neighbours ran.
    pub boot: Option<u64>,
    /// The same during the steps, by scenario.
    pub steps: BTreeMap<String, Option<u64>>,
}

impl FileCoverage {
    pub(super) fn new(file: &ChangedFile) -> FileCoverage {
        let lines = file
            .lines
            .iter()
            .map(|(line, text)| (*line, Some(text.clone())));
        let removed = file.removed_after.iter().map(|line| (*line, None));
        let mut changes: Vec<ChangedLine> = lines
            .chain(removed)
            .map(|(line, text)| ChangedLine {
                line,
                text,
                boot: None,
                steps: BTreeMap::new(),
            })
            .collect();
        changes.sort_by_key(|change| (change.line, change.text.is_none()));
        FileCoverage {
            path: file.path.clone(),
            counted: file.counted,
            changes,
        }
    }

    /// Adds what a run of a scenario has counted.
    pub(super) fn add(&mut self, scenario: &str, boot: &Counts, steps: &Counts) {
        let (boot, steps) = (of_file(boot, &self.path), of_file(steps, &self.path));
        for change in &mut self.changes {
            change.boot = change.boot.max(count(&boot, change));
            change
                .steps
                .insert(scenario.to_owned(), count(&steps, change));
        }
    }
}

/// The counts of a file, which the compiler was given by some absolute path.
fn of_file(counts: &Counts, path: &str) -> BTreeMap<u32, u64> {
    let end = format!("/{path}");
    let mut all: BTreeMap<u32, u64> = BTreeMap::new();
    let files = counts
        .iter()
        .filter(|(file, _)| *file == path || file.ends_with(&end));
    for (line, count) in files.flat_map(|(_, lines)| lines) {
        let sum = all.entry(*line).or_default();
        *sum = sum.saturating_add(*count);
    }
    all
}

fn count(lines: &BTreeMap<u32, u64>, change: &ChangedLine) -> Option<u64> {
    if change.text.is_some() {
        return lines.get(&change.line).copied();
    }
    // Control passes the place of removed lines only where it passes what was around them.
    let before = lines.range(..=change.line).next_back();
    let after = lines.range(change.line + 1..).next();
    match (before, after) {
        (Some((_, before)), Some((_, after))) => Some(*before.min(after)),
        (one, other) => one.or(other).map(|(_, count)| *count),
    }
}

/// Whether a scenario ran any changed line. Lines with code decide; a patch without any, such
/// as one that removes code only, is judged by its neighbours.
pub(super) fn exercise(files: &[FileCoverage], scenario: &str) -> (Exercise, Option<String>) {
    let changes = || files.iter().flat_map(|file| &file.changes);
    let ran = |change: &ChangedLine| change.steps.get(scenario).copied().flatten();
    if changes().any(|change| ran(change).is_some_and(|count| count > 0)) {
        return (Exercise::Exercised, None);
    }
    // Only of what is counted wherever it is compiled, a zero means that it did not run.
    for file in files {
        let is_c = [".c", ".h"].iter().any(|end| file.path.ends_with(end));
        if matches!(file.counted, Counted::InPart { .. } | Counted::Excluded) || !is_c {
            let because = super::limits(file.counted).unwrap_or_else(|| "it is no C code".into());
            return (Exercise::Unknown, Some(format!("{}: {because}", file.path)));
        }
    }
    let code = changes().any(|change| ran(change).is_some());
    let compiled = files.iter().any(|file| file.counted == Counted::Everywhere);
    if !code && compiled {
        let because = "the compiler made no code of any changed line by itself".to_owned();
        return (Exercise::Unknown, Some(because));
    }
    (Exercise::NotExercised, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(lines: &[(u32, &str)], removed_after: &[u32], counted: Counted) -> FileCoverage {
        FileCoverage::new(&ChangedFile {
            path: "mm/x.c".into(),
            lines: lines
                .iter()
                .map(|(line, text)| (*line, (*text).into()))
                .collect(),
            removed_after: removed_after.to_vec(),
            counted,
        })
    }

    fn counts(lines: &[(u32, u64)]) -> Counts {
        [("/src/mm/x.c".to_owned(), lines.iter().copied().collect())].into()
    }

    fn seen(mut file: FileCoverage, steps: &[(u32, u64)]) -> (Exercise, FileCoverage) {
        file.add("s/a", &counts(&[]), &counts(steps));
        (exercise(std::slice::from_ref(&file), "s/a").0, file)
    }

    #[test]
    fn a_line_that_ran_exercises_the_patch() {
        let changed = file(&[(3, "a();"), (4, "/* why */")], &[], Counted::Everywhere);
        let (exercise, file) = seen(changed, &[(2, 9), (3, 1), (5, 9)]);
        assert_eq!(exercise, Exercise::Exercised);
        let counts: Vec<_> = file
            .changes
            .iter()
            .map(|change| change.steps["s/a"])
            .collect();
        assert_eq!(counts, [Some(1), None]);
    }

    #[test]
    fn lines_around_a_line_that_did_not_run_do_not_exercise_it() {
        let changed = file(&[(3, "a();"), (4, "/* why */")], &[], Counted::Everywhere);
        let (exercise, _) = seen(changed, &[(2, 9), (3, 0), (5, 9)]);
        assert_eq!(exercise, Exercise::NotExercised);
    }

    #[test]
    fn removed_lines_ran_if_both_neighbours_did() {
        let removed = || file(&[], &[3], Counted::Everywhere);
        assert_eq!(seen(removed(), &[(3, 2), (5, 9)]).0, Exercise::Exercised);
        assert_eq!(seen(removed(), &[(3, 0), (5, 9)]).0, Exercise::NotExercised);
        assert_eq!(seen(removed(), &[]).0, Exercise::Unknown);
    }

    #[test]
    fn what_is_not_counted_everywhere_is_unknown_and_never_not_exercised() {
        for counted in [Counted::InPart { not_in: 3 }, Counted::Excluded] {
            let changed = file(&[(3, "a();")], &[], counted);
            assert_eq!(seen(changed, &[(3, 0)]).0, Exercise::Unknown);
        }
        let changed = file(&[(3, "#define X 1")], &[], Counted::Everywhere);
        assert_eq!(seen(changed, &[(1, 0), (9, 5)]).0, Exercise::Unknown);
        // What is not compiled cannot run.
        let changed = file(&[(3, "a();")], &[], Counted::NotCompiled);
        assert_eq!(seen(changed, &[]).0, Exercise::NotExercised);
    }

    #[test]
    fn another_file_of_the_same_name_is_another_file() {
        let mut changed = file(&[(3, "a();")], &[], Counted::Everywhere);
        let elsewhere = [("/src/notmm/x.c".to_owned(), [(3, 5)].into())].into();
        changed.add("s/a", &elsewhere, &elsewhere);
        assert_eq!(changed.changes[0].steps["s/a"], None);
    }
}
