//! What a patch touches: files and functions, as far as its text tells.
//!
//! Reads the diffs alone and no source: a function is known by a hunk's heading or by its
//! first line inside of a hunk. Whether a patch can be applied is not known here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};

/// What patches touch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touched {
    /// Files, from the source's root.
    pub files: BTreeSet<String>,
    /// Functions of which lines are changed.
    pub functions: BTreeSet<String>,
    /// Functions that changed lines call.
    pub called: BTreeSet<String>,
    /// The lines of the old files, from 1, at which something is changed: as the patch
    /// counts them, which in a series are not the base's.
    pub lines: BTreeMap<String, BTreeSet<u64>>,
    /// Files of which more than comments and blank lines is changed, as far as a line tells
    /// by itself.
    pub code: BTreeSet<String>,
}

impl Touched {
    /// What a patch's text touches.
    pub fn of(patch: &[u8]) -> Touched {
        let mut touched = Touched::default();
        touched.add(patch);
        touched
    }

    /// Adds what another patch touches.
    pub fn add(&mut self, patch: &[u8]) {
        let text = String::from_utf8_lossy(patch);
        let mut function: Option<String> = None;
        let (mut name, mut old_line) = (String::new(), 0);
        // Lines of the old and the new file that the hunk still has.
        let mut left = (0_u64, 0_u64);
        for line in text.lines() {
            if left == (0, 0) {
                if let Some(found) = file(line) {
                    name = found.to_owned();
                    self.files.insert(name.clone());
                } else if let Some((start, old, new, heading)) = hunk(line) {
                    left = (old, new);
                    old_line = start;
                    function = called(heading).next();
                }
                continue;
            }
            let (mark, rest) = line.split_at_checked(1).unwrap_or((" ", ""));
            let at = old_line;
            old_line += u64::from(matches!(mark, " " | "-"));
            match mark {
                "-" => left.0 = left.0.saturating_sub(1),
                "+" => left.1 = left.1.saturating_sub(1),
                "\\" => continue,
                _ => {
                    left.0 = left.0.saturating_sub(1);
                    left.1 = left.1.saturating_sub(1);
                }
            }
            if begins_function(rest) {
                function = called(rest).next().or(function);
            }
            if matches!(mark, "+" | "-") {
                let lines = self.lines.entry(name.clone()).or_default();
                lines.insert(at);
                if !is_comment(rest) {
                    self.code.insert(name.clone());
                }
            }
            if matches!(mark, "+" | "-") && !rest.trim().is_empty() {
                self.functions.extend(function.clone());
                self.called.extend(called(rest));
            }
            if rest.starts_with('}') {
                function = None;
            }
        }
    }

    /// Whether only comments and blank lines of a file are changed.
    pub fn only_comments(&self, file: &str) -> bool {
        !self.code.contains(file)
    }

    /// Why a scenario's subject, a function or a file, is touched; `None` if it is not.
    pub fn why(&self, subject: &str) -> Option<String> {
        let is_file = |file: &&String| {
            *file == subject
                || file
                    .strip_suffix(subject)
                    .is_some_and(|rest| rest.ends_with('/'))
        };
        if self.functions.contains(subject) {
            Some(format!("{subject}() is changed"))
        } else if let Some(file) = self.files.iter().find(is_file) {
            Some(format!("{file} is changed"))
        } else if self.called.contains(subject) {
            Some(format!("a changed line calls {subject}()"))
        } else {
            None
        }
    }
}

/// The file of a `---`, `+++` or `rename` line.
fn file(line: &str) -> Option<&str> {
    let renamed = ["rename from ", "rename to "];
    if let Some(name) = renamed.iter().find_map(|words| line.strip_prefix(words)) {
        return Some(name);
    }
    let side = ["--- ", "+++ "];
    let name = side.iter().find_map(|mark| line.strip_prefix(mark))?;
    let (first, rest) = name.split('\t').next()?.trim_end().split_once('/')?;
    (matches!(first, "a" | "b") && !rest.is_empty()).then_some(rest)
}

/// Whether a line by itself is blank, or looks like one of a comment.
fn is_comment(line: &str) -> bool {
    let line = line.trim();
    let starts = ["/*", "//", "* ", "*/"];
    line.is_empty() || line == "*" || starts.iter().any(|start| line.starts_with(start))
}

/// The first line of the old file, how many lines of both a hunk has, and its heading.
fn hunk(line: &str) -> Option<(u64, u64, u64, &str)> {
    static HUNK: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@ ?(.*)$")
            .expect("a constant, compiled by a test")
    });
    let found = HUNK.captures(line)?;
    let count = |index: usize| {
        found
            .get(index)
            .map_or(Some(1), |n| n.as_str().parse().ok())
    };
    Some((
        count(1)?,
        count(2)?,
        count(3)?,
        found.get(4).map_or("", |heading| heading.as_str()),
    ))
}

/// Whether a line of C is the first of a function: it starts in the first column, and is
/// neither a statement nor a directive.
fn begins_function(line: &str) -> bool {
    let first = line.chars().next();
    let name = first.is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    name && line.contains('(') && !line.trim_end().ends_with([';', ':']) && !line.contains('=')
}

/// Names that runner before a bracket.
fn called(line: &str) -> impl Iterator<Item = String> {
    static CALL: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"([A-Za-z_]\w*)\s?\(").expect("a constant, compiled by a test")
    });
    const WORDS: [&str; 8] = [
        "if",
        "while",
        "for",
        "switch",
        "return",
        "sizeof",
        "__attribute__",
        "defined",
    ];
    let names: Vec<String> = CALL
        .captures_iter(line)
        .map(|found| found[1].to_owned())
        .filter(|name| !WORDS.contains(&name.as_str()))
        .collect();
    names.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "\
sched/fair: a subject

--- is no file, and @@ no hunk
---
diff --git a/kernel/sched/fair.c b/kernel/sched/fair.c
index 020a39f..392ada7 100644
--- a/kernel/sched/fair.c
+++ b/kernel/sched/fair.c
@@ -3200,7 +3200,8 @@ static bool vma_is_accessed(struct mm_struct *mm, struct vm_area_struct *vma)
 \tif (x)
 \t\treturn true;
 
-\treturn false;
+\tif (numa_idle(mm))
+\t\treturn false;
 }
 
 static void task_numa_work(struct callback_head *work)
@@ -3300 +3301 @@ static void reset_ptenuma_scan(struct task_struct *p)
-\tx = 1;
+\tx = 2;
diff --git a/include/linux/new.h b/include/linux/new.h
new file mode 100644
--- /dev/null
+++ b/include/linux/new.h
@@ -0,0 +1 @@
+#define A 1
-- 
2.39.5
";

    #[test]
    fn files_and_functions_are_those_of_changed_lines() {
        let touched = Touched::of(PATCH.as_bytes());
        let list = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(
            list(&touched.files),
            "include/linux/new.h kernel/sched/fair.c"
        );
        // `task_numa_work` only stands below the changed lines.
        assert_eq!(
            list(&touched.functions),
            "reset_ptenuma_scan vma_is_accessed"
        );
        assert_eq!(list(&touched.called), "numa_idle");
        let lines = &touched.lines["kernel/sched/fair.c"];
        assert_eq!(
            lines.iter().copied().collect::<Vec<_>>(),
            [3203, 3204, 3300, 3301]
        );
    }

    #[test]
    fn a_subject_is_a_function_or_a_file() {
        let touched = Touched::of(PATCH.as_bytes());
        let why = |subject: &str| touched.why(subject);
        assert_eq!(
            why("vma_is_accessed").unwrap(),
            "vma_is_accessed() is changed"
        );
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
        assert_eq!(why("task_numa_work"), None);
    }

    #[test]
    fn a_function_that_begins_in_the_hunk_is_the_one_that_is_changed() {
        let patch = "\
--- a/mm/x.c
+++ b/mm/x.c
@@ -1,5 +1,6 @@ static int before(void)
 }
 
 static int after(int a)
 {
+\ta = 1;
 \treturn a;
";
        let touched = Touched::of(patch.as_bytes());
        assert_eq!(touched.functions.into_iter().collect::<Vec<_>>(), ["after"]);
    }

    #[test]
    fn comments_are_told_from_code() {
        let only = |line: &str| {
            let patch = format!("--- a/mm/x.c\n+++ b/mm/x.c\n@@ -1 +1,2 @@\n x\n+{line}\n");
            Touched::of(patch.as_bytes()).only_comments("mm/x.c")
        };
        for line in ["/* one */", " * one", "", "\t// one", " */"] {
            assert!(only(line), "{line}");
        }
        for line in ["x = 1;", "*x = 1;", "#define X", "x(); /* one */"] {
            assert!(!only(line), "{line}");
        }
    }
}
