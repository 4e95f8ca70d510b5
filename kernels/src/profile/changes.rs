//! The lines that patches change, in the numbering of the patched file.
//!
//! They are taken from the contents and not from the patches' hunks: of a series only what
//! is left of it at its end is in the kernel.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::{Counted, ProfilePlan};
use crate::source::tree::Content;

/// A file that patches touch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFile {
    /// Its path in the source.
    pub path: String,
    /// Lines that are new or another than before, with their numbers, from 1.
    pub lines: Vec<(u32, String)>,
    /// Lines after which others were removed and none put in their place; 0 is the
    /// file's begin.
    pub removed_after: Vec<u32>,
    /// Whether the kernel counts what runs of it.
    pub counted: Counted,
}

/// What changed from `before` to `after`; a file that is in one of them alone is, in the
/// other, as in the source, and so the same.
pub(crate) fn changed(
    before: &BTreeMap<String, Content>,
    after: &BTreeMap<String, Content>,
    plan: &ProfilePlan,
) -> Vec<ChangedFile> {
    let mut files = Vec::new();
    for (path, content) in after {
        let old = before.get(path).and_then(Option::as_ref);
        let Some(new) = content else {
            // Nothing of a removed file can run.
            continue;
        };
        let (lines, removed_after) = diff(old.map_or(&[], |file| &file.bytes), &new.bytes);
        if lines.is_empty() && removed_after.is_empty() {
            continue;
        }
        files.push(ChangedFile {
            path: path.clone(),
            lines,
            removed_after,
            counted: plan.counted(path),
        });
    }
    files
}

fn diff(old: &[u8], new: &[u8]) -> (Vec<(u32, String)>, Vec<u32>) {
    let lines = |bytes: &[u8]| -> Vec<String> {
        String::from_utf8_lossy(bytes)
            .lines()
            .map(str::to_owned)
            .collect()
    };
    let (old, new) = (lines(old), lines(new));
    let number = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
    let (mut added, mut removed_after) = (Vec::new(), Vec::new());
    for change in capture_diff_slices(Algorithm::Myers, &old, &new) {
        match change {
            DiffOp::Equal { .. } => {}
            DiffOp::Delete { new_index, .. } => removed_after.push(number(new_index)),
            DiffOp::Insert {
                new_index, new_len, ..
            }
            | DiffOp::Replace {
                new_index, new_len, ..
            } => {
                let lines = new.iter().enumerate().skip(new_index).take(new_len);
                added.extend(lines.map(|(index, line)| (number(index + 1), line.clone())));
            }
        }
    }
    (added, removed_after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_numbers_of_the_patched_file() {
        let (lines, removed) = diff(b"a\nb\nc\nd\n", b"a\nx\nb\nd\ny\n");
        assert_eq!(lines, [(2, "x".to_owned()), (5, "y".to_owned())]);
        assert_eq!(removed, [3]);
        assert_eq!(diff(b"a\n", b"a\n"), (vec![], vec![]));
        assert_eq!(diff(b"a\nb\n", b"b\n"), (vec![], vec![0]));
    }
}
