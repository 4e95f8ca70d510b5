//! The lines that patches change.
//!
//! They are taken from the files' contents and not from the patches' hunks: a later patch of
//! a series may change the lines of an earlier one.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use similar::{Algorithm, DiffTag, capture_diff_slices};

use super::{Counted, ProfilePlan};
use crate::source::tree::Content;

/// One of the two kernels that a patch parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The kernel without the patches, which has the lines that they remove.
    Base,
    /// The kernel with them, which has the lines that they add.
    Patched,
}

/// A file that patches touch. Its lines have their numbers, from 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFile {
    /// Its path in the source.
    pub path: String,
    /// The lines that only the patched file has.
    pub added: Vec<(u32, String)>,
    /// The lines that only the base's file has.
    pub removed: Vec<(u32, String)>,
    /// Whether the kernel counts how often its lines run.
    pub counted: Counted,
}

impl ChangedFile {
    /// The changed lines that a kernel has.
    pub fn lines(&self, side: Side) -> &[(u32, String)] {
        match side {
            Side::Base => &self.removed,
            Side::Patched => &self.added,
        }
    }
}

/// What changed from `before` to `after`, which have the same files.
pub(crate) fn changed(
    before: &BTreeMap<String, Content>,
    after: &BTreeMap<String, Content>,
    plan: &ProfilePlan,
) -> Vec<ChangedFile> {
    let mut files = Vec::new();
    for (path, new) in after {
        let old = before.get(path).and_then(Option::as_ref);
        let [old, new] =
            [old, new.as_ref()].map(|file| file.map_or(&[][..], |file| file.bytes.as_slice()));
        let (added, removed) = diff(old, new);
        if !added.is_empty() || !removed.is_empty() {
            files.push(ChangedFile {
                path: path.clone(),
                added,
                removed,
                counted: plan.counted(path),
            });
        }
    }
    files
}

type Lines = Vec<(u32, String)>;

/// The lines that only the new and only the old text has.
fn diff(old: &[u8], new: &[u8]) -> (Lines, Lines) {
    let lines = |bytes: &[u8]| -> Vec<String> {
        String::from_utf8_lossy(bytes)
            .lines()
            .map(str::to_owned)
            .collect()
    };
    let (old, new) = (lines(old), lines(new));
    let numbered = |lines: &[String], range: Range<usize>| -> Lines {
        range
            .map(|index| {
                let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
                (number, lines[index].clone())
            })
            .collect()
    };
    let (mut added, mut removed) = (Vec::new(), Vec::new());
    for change in capture_diff_slices(Algorithm::Myers, &old, &new) {
        if change.tag() != DiffTag::Equal {
            removed.extend(numbered(&old, change.old_range()));
            added.extend(numbered(&new, change.new_range()));
        }
    }
    (added, removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_numbers_of_their_own_file() {
        let lines = |lines: &[(u32, &str)]| -> Lines {
            lines
                .iter()
                .map(|(at, text)| (*at, (*text).into()))
                .collect()
        };
        let changes = diff(b"a\nb\nc\nd\n", b"a\nx\nb\nd\ny\n");
        assert_eq!(changes, (lines(&[(2, "x"), (5, "y")]), lines(&[(3, "c")])));
        assert_eq!(diff(b"a\n", b"a\n"), (vec![], vec![]));
        assert_eq!(diff(b"a\nb\n", b"b\n"), (vec![], lines(&[(1, "a")])));
        assert_eq!(
            diff(b"a\n", b"b\n"),
            (lines(&[(1, "b")]), lines(&[(1, "a")]))
        );
    }
}
