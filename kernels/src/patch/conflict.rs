//! Why a patch does not fit: git's words put into ours, and what can be told beyond
//! them. Pure text.

use std::collections::BTreeSet;

use super::text::FileChange;
use super::{Advice, Mismatch, PatchError};
use crate::spec::{Direction, Patch};

/// How many letters and digits a line has to have to be told from others.
const TELLING: usize = 8;

/// Looks for the lines that a patch adds in the files that it touches: of so many that
/// are its own, so many are there. `None` if it adds no telling line, or if less than
/// three in four are there: then it is not there in another form either.
pub(super) fn mostly_there(patch: &[u8], files: &[&[u8]]) -> Option<Mismatch> {
    let (mut added, mut removed) = (BTreeSet::new(), BTreeSet::new());
    let patch = String::from_utf8_lossy(patch);
    for line in patch.lines() {
        if line.starts_with("+++ ") || line.starts_with("--- ") {
            continue;
        }
        if let Some(line) = line.strip_prefix('+') {
            added.extend(telling(line));
        } else if let Some(line) = line.strip_prefix('-') {
            removed.extend(telling(line));
        }
    }
    // What is only moved is in every source.
    let own: BTreeSet<&String> = added.difference(&removed).collect();
    let mut there = BTreeSet::new();
    for file in files {
        let lines = String::from_utf8_lossy(file);
        there.extend(lines.lines().filter_map(telling));
    }
    let of = own.len();
    let found = own.into_iter().filter(|line| there.contains(*line)).count();
    (found > 0 && found * 4 >= of * 3).then_some(Mismatch::MostlyThere { lines: found, of })
}

/// A line without its white space, if it says enough.
fn telling(line: &str) -> Option<String> {
    let line: String = line.split_whitespace().collect();
    let count = line
        .chars()
        .filter(|letter| letter.is_alphanumeric())
        .count();
    (count >= TELLING).then_some(line)
}

/// What a patch says of where it belongs.
pub(super) fn advice(patch: &Patch) -> Box<Advice> {
    Box::new(Advice {
        base_commit: patch.base_commit.clone(),
        fits: None,
    })
}

/// Puts git's words into ours.
pub(super) fn conflict(
    patch: &Patch,
    changes: &[FileChange],
    said: &str,
    why: Mismatch,
) -> PatchError {
    let revert = patch.direction == Direction::Revert;
    let failed = said.lines().find_map(|line| {
        let (file, line) = line
            .strip_prefix("error: patch failed: ")?
            .rsplit_once(':')?;
        Some((file, line.parse::<u64>().ok()?))
    });
    if let Some((file, line)) = failed {
        let named = |name: &Option<String>| {
            name.as_deref()
                .is_some_and(|name| name == file || name.ends_with(&format!("/{file}")))
        };
        let hunk = changes
            .iter()
            .filter(|change| named(&change.old) || named(&change.new))
            .flat_map(|change| change.hunks.iter().enumerate())
            .find(|(_, hunk)| line == if revert { hunk.new_line } else { hunk.old_line })
            .map_or_else(
                || format!("line {line}"),
                |(index, hunk)| format!("hunk {} ({})", index + 1, hunk.header),
            );
        return PatchError::Conflict {
            patch: patch.label(),
            file: file.to_owned(),
            hunk,
            revert,
            why: Box::new(why),
            advice: advice(patch),
        };
    }
    let exists = said.lines().find_map(|line| {
        line.strip_prefix("error: ")?
            .strip_suffix(": already exists in working directory")
    });
    if let Some(file) = exists {
        return PatchError::Conflict {
            patch: patch.label(),
            file: file.to_owned(),
            hunk: "which it creates".to_owned(),
            revert,
            why: Box::new(why),
            advice: advice(patch),
        };
    }
    let why: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("error:") || line.starts_with("fatal:"))
        .collect();
    PatchError::Git {
        patch: patch.label(),
        why: if why.is_empty() {
            said.trim().to_owned()
        } else {
            why.join("; ")
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_that_is_there_in_another_form_is_recognised() {
        let patch =
            b"--- a/f\n+++ b/f\n@@ -1,4 +1,6 @@\n-\tmoved_elsewhere(x);\n+\tfirst_new_call(x);\n\
                      +\tsecond_new_call(x);\n+\tif (third_condition(x))\n+\t\treturn;\n\
                      +\tfourth_statement(1);\n+\tmoved_elsewhere(x);\n }\n";
        let mut file = "first_new_call( x );\nsecond_new_call(x);\nif (third_condition(x))\n\
                        moved_elsewhere(x);\n"
            .to_owned();
        assert_eq!(
            mostly_there(patch, &[file.as_bytes()]),
            Some(Mismatch::MostlyThere { lines: 3, of: 4 })
        );
        file = file.replace("second_new", "other");
        assert_eq!(mostly_there(patch, &[file.as_bytes()]), None);
        assert_eq!(mostly_there(b"@@ -1 +1 @@\n+}\n", &[b"}"]), None);
    }
}
