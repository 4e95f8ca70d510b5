//! The names in a patch: which of them are inside of a source.

use std::path::{Component, Path};

use super::PatchError;
use super::diff::{self, FileDiff};
use crate::spec::Patch;

/// Refuses a patch whose diffs are malformed or lead out of any tree. How many files
/// it changes.
pub(crate) fn check(patch: &Patch) -> Result<usize, PatchError> {
    let changes = diff::read(patch)?;
    for change in &changes {
        for name in [&change.old, &change.new].into_iter().flatten() {
            safe(name, 0).map_err(|why| unsafe_name(patch, change, name, why))?;
        }
    }
    Ok(changes.len())
}

pub(super) fn unsafe_name(
    patch: &Patch,
    change: &FileDiff,
    name: &str,
    why: &'static str,
) -> PatchError {
    PatchError::Unsafe {
        patch: patch.label(),
        at: patch.line(change.line),
        file: name.to_owned(),
        why,
    }
}

/// A name in a patch as a path inside of the tree, or why it is none.
pub(super) fn safe(name: &str, strip: usize) -> Result<String, &'static str> {
    if name.starts_with('/') {
        return Err("it is an absolute path");
    }
    let mut parts = Vec::new();
    for part in Path::new(name).components() {
        match part {
            Component::Normal(part) => {
                let part = part.to_str().ok_or("it is no text")?;
                if part.eq_ignore_ascii_case(".git") {
                    return Err("it lies in a .git folder");
                }
                parts.push(part);
            }
            Component::ParentDir => return Err("it leads out of the tree by `..`"),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    if parts.len() <= strip {
        return Err("nothing is left of it without its first part (`a/`)");
    }
    let path = parts[strip..].join("/");
    if path.chars().any(char::is_control) {
        return Err("it contains control characters");
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        /// No name that is taken leads out of the source, whatever is stripped.
        #[test]
        fn no_name_leads_out(name in "([a-z]{1,3}|/|\\.|\\.\\.|\\.git|\\.GIT|\n| |\\\\|\\PC){0,8}", strip in 0_usize..3) {
            if let Ok(path) = safe(&name, strip) {
                assert!(!path.is_empty() && !path.starts_with('/'), "{name:?}: {path:?}");
                for part in path.split('/') {
                    assert!(!["", ".", ".."].contains(&part), "{name:?}: {path:?}");
                    assert!(!part.eq_ignore_ascii_case(".git"), "{name:?}: {path:?}");
                }
            }
        }
    }
}
