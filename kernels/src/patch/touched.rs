//! What patches touch: files, lines and functions.
//!
//! Computed from the files' contents without and with the patches, not from the text of
//! the diffs: of a series only its net effect counts, line numbers are those of real files,
//! and it does not matter which form the diffs have or whether they are reverted.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::functions::{called, enclosing};
use crate::source::tree::Content;

/// What patches touch in a source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touched {
    /// The files that differ, in the order of their paths.
    pub files: Vec<TouchedFile>,
}

/// A file that patches touch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TouchedFile {
    /// Its path in the source.
    pub path: String,
    /// Its changes, in the order of their lines; none where only its mode changes.
    pub changes: Vec<Change>,
    /// The C functions, and macros with arguments, that have changed lines.
    pub functions: BTreeSet<String>,
    /// The functions that changed lines call.
    pub called: BTreeSet<String>,
}

/// Adjacent lines of a file that are replaced by others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The line of the old file, from 1, at which lines are removed, or before which others
    /// are added.
    pub old_line: u32,
    /// The removed lines.
    pub removed: Vec<String>,
    /// The line of the new file, from 1, at which lines are added, or before which others
    /// were removed.
    pub new_line: u32,
    /// The added lines.
    pub added: Vec<String>,
}

impl Touched {
    /// Compares files' contents. A file that only one side has is the same on the other.
    pub(crate) fn between(
        before: &BTreeMap<String, Content>,
        after: &BTreeMap<String, Content>,
    ) -> Self {
        let files = after.iter().filter_map(|(path, new)| {
            let old = before.get(path)?;
            (old != new).then(|| TouchedFile::between(path, old, new))
        });
        Self {
            files: files.collect(),
        }
    }

    /// The functions that have changed lines.
    pub fn functions(&self) -> BTreeSet<&str> {
        let files = self.files.iter();
        files
            .flat_map(|file| &file.functions)
            .map(String::as_str)
            .collect()
    }

    /// Why a subject (a function's name, or the last parts of a file's path) is touched;
    /// `None` if it is not.
    pub fn why(&self, subject: &str) -> Option<String> {
        let is_it = |path: &str| {
            let rest = path.strip_suffix(subject);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        };
        let any = |names: fn(&TouchedFile) -> &BTreeSet<String>| {
            self.files.iter().any(|file| names(file).contains(subject))
        };
        if any(|file| &file.functions) {
            Some(format!("{subject}() is changed"))
        } else if let Some(file) = self.files.iter().find(|file| is_it(&file.path)) {
            Some(format!("{} is changed", file.path))
        } else if any(|file| &file.called) {
            Some(format!("a changed line calls {subject}()"))
        } else {
            None
        }
    }
}

impl TouchedFile {
    fn between(path: &str, old: &Content, new: &Content) -> Self {
        let text = |content: &Content| -> String {
            let bytes = content.as_ref().map_or(&[][..], |file| &file.bytes);
            String::from_utf8_lossy(bytes).into_owned()
        };
        let (old, new) = (text(old), text(new));
        let mut file = Self {
            path: path.to_owned(),
            changes: changes(&old, &new),
            ..Self::default()
        };
        if !file.is_c() {
            return file;
        }
        let (in_old, in_new) = (enclosing(&old), enclosing(&new));
        for change in &file.changes {
            for (names, line, lines) in [
                (&in_old, change.old_line, &change.removed),
                (&in_new, change.new_line, &change.added),
            ] {
                let names = names.iter().skip(line as usize - 1);
                for (line, name) in lines.iter().zip(names) {
                    if !line.trim().is_empty() {
                        file.functions.extend(name.clone());
                        file.called.extend(called(line).map(str::to_owned));
                    }
                }
            }
        }
        file
    }

    /// Whether it is C code.
    pub fn is_c(&self) -> bool {
        self.path.ends_with(".c") || self.path.ends_with(".h")
    }

    /// Whether only comments and blank lines are changed, as far as a line shows it by itself.
    pub fn only_comments(&self) -> bool {
        let mut lines = self
            .changes
            .iter()
            .flat_map(|change| change.removed.iter().chain(&change.added));
        !self.changes.is_empty() && lines.all(|line| is_comment(line))
    }
}

fn changes(old: &str, new: &str) -> Vec<Change> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let line = |index: usize| u32::try_from(index + 1).unwrap_or(u32::MAX);
    let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
    capture_diff_slices(Algorithm::Myers, &old, &new)
        .into_iter()
        .filter(|change| !matches!(change, DiffOp::Equal { .. }))
        .map(|change| Change {
            old_line: line(change.old_range().start),
            removed: lines(&old[change.old_range()]),
            new_line: line(change.new_range().start),
            added: lines(&new[change.new_range()]),
        })
        .collect()
}

/// Whether a line by itself is blank, or looks like one of a comment.
fn is_comment(line: &str) -> bool {
    let line = line.trim();
    let starts = ["/*", "//", "* ", "*/"];
    line.is_empty() || line == "*" || starts.iter().any(|start| line.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::tree::File;

    fn touched(path: &str, old: Option<&str>, new: Option<&str>) -> Touched {
        let files = |text: Option<&str>| {
            let content = text.map(|text| File {
                bytes: text.as_bytes().to_vec(),
                executable: false,
            });
            [(path.to_owned(), content)].into()
        };
        Touched::between(&files(old), &files(new))
    }

    fn list(set: &BTreeSet<String>) -> String {
        set.iter().cloned().collect::<Vec<_>>().join(" ")
    }

    const OLD: &str = "int before(void)\n{\n\treturn 1;\n}\n\nint changed(int a)\n{\n\tx = 1;\n\
                       \treturn a;\n}\n\nint after(void)\n{\n}\n";

    #[test]
    fn functions_are_those_around_changed_lines() {
        let new = OLD.replace("\tx = 1;\n", "\tif (idle(a))\n\t\tx = 2;\n");
        let touched = touched("mm/x.c", Some(OLD), Some(&new));
        let [file] = &touched.files[..] else {
            panic!("{touched:?}");
        };
        assert_eq!(list(&file.functions), "changed");
        assert_eq!(list(&file.called), "idle");
        let [change] = &file.changes[..] else {
            panic!("{file:?}");
        };
        assert_eq!((change.old_line, change.new_line), (8, 8));
        assert_eq!(change.removed, ["\tx = 1;"]);
        assert_eq!(change.added, ["\tif (idle(a))", "\t\tx = 2;"]);
    }

    #[test]
    fn removed_lines_have_the_old_files_numbers_and_functions() {
        let new = OLD.replace("int before(void)\n{\n\treturn 1;\n}\n\n", "");
        let new = new.replace("\tx = 1;\n", "");
        let touched = touched("mm/x.c", Some(OLD), Some(&new));
        let places: Vec<_> = touched.files[0]
            .changes
            .iter()
            .map(|change| (change.old_line, change.removed.len(), change.new_line))
            .collect();
        assert_eq!(places, [(1, 5, 1), (8, 1, 3)]);
        assert_eq!(list(&touched.files[0].functions), "before changed");
    }

    #[test]
    fn a_subject_is_a_function_or_a_file() {
        let new = OLD.replace("x = 1;", "x = numa_idle();");
        let touched = touched("kernel/sched/fair.c", Some(OLD), Some(&new));
        let why = |subject: &str| touched.why(subject);
        assert_eq!(why("changed").unwrap(), "changed() is changed");
        assert_eq!(why("fair.c").unwrap(), "kernel/sched/fair.c is changed");
        assert_eq!(
            why("kernel/sched/fair.c").unwrap(),
            "kernel/sched/fair.c is changed"
        );
        assert_eq!(
            why("numa_idle").unwrap(),
            "a changed line calls numa_idle()"
        );
        assert_eq!(why("air.c"), None);
        assert_eq!(why("after"), None);
    }

    #[test]
    fn files_come_go_and_stay_the_same() {
        assert_eq!(touched("a", Some("x\n"), Some("x\n")).files, []);
        let new = touched("a.h", None, Some("#define A(x) x\n"));
        assert_eq!(list(&new.files[0].functions), "A");
        let gone = touched("a.c", Some(OLD), None);
        assert_eq!(list(&gone.files[0].functions), "after before changed");
        assert!(
            touched("Makefile", Some("f(x)\n"), None)
                .functions()
                .is_empty()
        );
    }

    #[test]
    fn comments_are_told_from_code() {
        let only = |line: &str| {
            let new = format!("{OLD}{line}\n");
            touched("mm/x.c", Some(OLD), Some(&new)).files[0].only_comments()
        };
        for line in ["/* one */", " * one", "", "\t// one", " */"] {
            assert!(only(line), "{line}");
        }
        for line in ["x = 1;", "*x = 1;", "#define X", "x(); /* one */"] {
            assert!(!only(line), "{line}");
        }
    }
}
