//! What a commit's tree has that another one has not.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use super::objects::Objects;

/// Which commit an opened tree has, and what it has that others have not.
#[derive(Debug)]
pub(crate) struct History {
    objects: Objects,
    tree: String,
}

impl History {
    pub(super) fn new(objects: Objects, tree: String) -> Self {
        Self { objects, tree }
    }

    /// The id of the tree.
    pub(crate) fn tree(&self) -> &str {
        &self.tree
    }

    /// The last names of files that this tree has and `old` has not; `None` if that
    /// cannot be told.
    pub(crate) fn added_since(&self, old: &str, cancel: &AtomicBool) -> Option<BTreeSet<String>> {
        let words = [
            "diff-tree",
            "-r",
            "-z",
            "--name-only",
            "--no-renames",
            "--diff-filter=A",
            old,
            &self.tree,
        ];
        let text = self.objects.ask(&words, None, old, cancel).ok()?;
        let names = String::from_utf8_lossy(&text).into_owned();
        Some(
            names
                .split('\0')
                .filter_map(|name| name.rsplit('/').next())
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
        )
    }
}
