//! Git's refusal of a patch, as an error of ours. Pure text.

use super::diff::FileDiff;
use super::{Mismatch, PatchError};
use crate::spec::{Direction, Patch};

/// Puts git's words into ours.
pub(super) fn conflict(
    patch: &Patch,
    changes: &[FileDiff],
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
            .find(|(_, hunk)| line == if revert { hunk.new.0 } else { hunk.old.0 })
            .map_or_else(
                || format!("line {line}"),
                |(index, hunk)| format!("hunk {} ({})", index + 1, hunk.header),
            );
        return PatchError::Conflict {
            patch: patch.label(),
            file: file.to_owned(),
            hunk,
            revert,
            why,
            base: patch.base_commit.clone(),
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
            why,
            base: patch.base_commit.clone(),
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
