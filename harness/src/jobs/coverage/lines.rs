//! Changed lines and how often they ran.

use std::collections::BTreeMap;

use numalab_kernels::profile::{ChangedFile, Counted, Counts, Side};
use serde::{Deserialize, Serialize};

/// Whether a scenario ran any changed line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Executed {
    /// It ran at least one.
    Yes,
    /// It ran none, so whatever holds in it proves nothing about the patch.
    No,
    /// This cannot be known.
    Unknown,
}

/// A changed file on one of the kernels: its added lines on the patched kernel, or its
/// removed lines on the base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileCoverage {
    /// Its path in the source.
    pub path: String,
    /// The kernel that has these lines.
    pub side: Side,
    /// Whether this kernel counts them.
    pub counted: Counted,
    /// The lines, in order.
    pub lines: Vec<LineCounts>,
}

/// How often a changed line ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineCounts {
    /// Its number, from 1.
    pub line: u32,
    /// Its text.
    pub text: String,
    /// How often it ran before the first step, the most of all runs; `None` if the compiler
    /// generated no code for it.
    pub boot: Option<u64>,
    /// How often it ran during the steps, by scenario.
    pub steps: BTreeMap<String, Option<u64>>,
}

impl FileCoverage {
    pub(super) fn new(file: &ChangedFile, side: Side) -> FileCoverage {
        let lines = file.lines(side).iter().map(|(line, text)| LineCounts {
            line: *line,
            text: text.clone(),
            boot: None,
            steps: BTreeMap::new(),
        });
        FileCoverage {
            path: file.path.clone(),
            side,
            counted: file.counted,
            lines: lines.collect(),
        }
    }

    /// Adds the counts of a scenario's run.
    pub(super) fn add(&mut self, scenario: &str, boot: &Counts, steps: &Counts) {
        let (boot, steps) = (of_file(boot, &self.path), of_file(steps, &self.path));
        for counts in &mut self.lines {
            counts.boot = counts.boot.max(boot.get(&counts.line).copied());
            let steps = steps.get(&counts.line).copied();
            counts.steps.insert(scenario.to_owned(), steps);
        }
    }
}

/// The counts of a file. The compiler was given its absolute path.
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

/// Whether a scenario ran any changed line, and why that is unknown. Both kernels' lines
/// count: a patch that only removes lines has them on the base alone.
pub(super) fn executed(files: &[FileCoverage], scenario: &str) -> (Executed, Option<String>) {
    let counts = || {
        let lines = files.iter().flat_map(|file| &file.lines);
        lines.filter_map(|line| line.steps.get(scenario).copied().flatten())
    };
    if counts().any(|count| count > 0) {
        return (Executed::Yes, None);
    }
    // A zero means that a line did not run only where every copy of the line is counted.
    for file in files {
        let is_c = [".c", ".h"].iter().any(|end| file.path.ends_with(end));
        let because = match limits(file.counted) {
            Some(limits) if file.counted != Counted::NotCompiled => limits,
            _ if !is_c => "it is no C code".to_owned(),
            _ => continue,
        };
        return (Executed::Unknown, Some(format!("{}: {because}", file.path)));
    }
    let compiled = files.iter().any(|file| file.counted == Counted::Everywhere);
    if counts().next().is_none() && compiled {
        let because = "the compiler generated no code for any changed line".to_owned();
        return (Executed::Unknown, Some(because));
    }
    (Executed::No, None)
}

/// Why a file's lines are not counted everywhere, if so.
pub(super) fn limits(counted: Counted) -> Option<String> {
    match counted {
        Counted::Everywhere => None,
        Counted::InPart { not_in } => Some(format!(
            "not counted in {not_in} of the objects that include it"
        )),
        Counted::Excluded => Some("the kernel's Makefile excludes it from gcov".into()),
        Counted::NotCompiled => Some("no C code of this configuration includes it".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(added: &[(u32, &str)], counted: Counted) -> FileCoverage {
        side(added, Side::Patched, counted)
    }

    fn side(lines: &[(u32, &str)], side: Side, counted: Counted) -> FileCoverage {
        let lines: Vec<_> = lines
            .iter()
            .map(|(line, text)| (*line, (*text).into()))
            .collect();
        let (added, removed) = match side {
            Side::Patched => (lines, vec![]),
            Side::Base => (vec![], lines),
        };
        let file = ChangedFile {
            path: "mm/x.c".into(),
            added,
            removed,
            counted,
        };
        FileCoverage::new(&file, side)
    }

    fn counts(lines: &[(u32, u64)]) -> Counts {
        [("/src/mm/x.c".to_owned(), lines.iter().copied().collect())].into()
    }

    fn seen(mut file: FileCoverage, steps: &[(u32, u64)]) -> (Executed, FileCoverage) {
        file.add("s/a", &counts(&[]), &counts(steps));
        (executed(std::slice::from_ref(&file), "s/a").0, file)
    }

    #[test]
    fn a_line_that_ran_exercises_the_patch() {
        let changed = file(&[(3, "a();"), (4, "/* why */")], Counted::Everywhere);
        let (executed, file) = seen(changed, &[(2, 9), (3, 1), (5, 9)]);
        assert_eq!(executed, Executed::Yes);
        let counts: Vec<_> = file.lines.iter().map(|line| line.steps["s/a"]).collect();
        assert_eq!(counts, [Some(1), None]);
    }

    #[test]
    fn lines_around_a_line_that_did_not_run_do_not_exercise_it() {
        let changed = file(&[(3, "a();"), (4, "/* why */")], Counted::Everywhere);
        assert_eq!(seen(changed, &[(2, 9), (3, 0), (5, 9)]).0, Executed::No);
    }

    #[test]
    fn removed_lines_are_counted_on_the_base() {
        let removed = || side(&[(3, "a();")], Side::Base, Counted::Everywhere);
        assert_eq!(seen(removed(), &[(3, 2)]).0, Executed::Yes);
        // What ran around them says nothing.
        assert_eq!(seen(removed(), &[(2, 9), (3, 0), (4, 9)]).0, Executed::No);
        assert_eq!(seen(removed(), &[(2, 9)]).0, Executed::Unknown);
        // One line that ran on either kernel is enough.
        let mut files = [file(&[(3, "b();")], Counted::Everywhere), removed()];
        files[0].add("s/a", &counts(&[]), &counts(&[(3, 0)]));
        assert_eq!(executed(&files, "s/a").0, Executed::No);
        files[1].add("s/a", &counts(&[]), &counts(&[(3, 7)]));
        assert_eq!(executed(&files, "s/a").0, Executed::Yes);
    }

    #[test]
    fn what_is_not_counted_everywhere_is_unknown_and_never_not_exercised() {
        for counted in [Counted::InPart { not_in: 3 }, Counted::Excluded] {
            let changed = file(&[(3, "a();")], counted);
            assert_eq!(seen(changed, &[(3, 0)]).0, Executed::Unknown);
        }
        let changed = file(&[(3, "#define X 1")], Counted::Everywhere);
        assert_eq!(seen(changed, &[(1, 0), (9, 5)]).0, Executed::Unknown);
        // What is not compiled cannot run.
        let changed = file(&[(3, "a();")], Counted::NotCompiled);
        assert_eq!(seen(changed, &[]).0, Executed::No);
    }

    #[test]
    fn another_file_of_the_same_name_is_another_file() {
        let mut changed = file(&[(3, "a();")], Counted::Everywhere);
        let elsewhere = [("/src/notmm/x.c".to_owned(), [(3, 5)].into())].into();
        changed.add("s/a", &elsewhere, &elsewhere);
        assert_eq!(changed.lines[0].steps["s/a"], None);
    }
}
