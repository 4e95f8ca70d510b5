//! A source tree and its object tree on the way from what was built last to what is built
//! next: patches are put on, and what `make` cannot know about is forgotten.

use std::collections::BTreeMap;
use std::path::Path;

use super::context::Builder;
use crate::build::objects::ObjectTree;
use crate::cache::CacheError;
use crate::error::KernelError;
use crate::patch::{self, Outcome};
use crate::progress::{BuildEvent, BuildStage};
use crate::source::History;
use crate::source::tree::{Content, SourceTree};
use crate::spec::{Patch, Recipe};

impl Builder<'_> {
    /// Makes an object tree that was built from another commit fit for this one.
    pub(super) fn follow(&self, history: &History, objects: &ObjectTree) -> Result<(), CacheError> {
        let mut memory = objects.memory();
        if memory.tree.as_deref() == Some(history.tree()) {
            return Ok(());
        }
        if objects.path().exists() {
            let added = memory
                .tree
                .as_deref()
                .and_then(|old| history.added_since(old, self.cancel));
            match added {
                Some(names) if names.is_empty() => {}
                Some(names) => {
                    objects.forget_users_of(&names)?;
                }
                None => objects.clear()?,
            }
        }
        memory.tree = Some(history.tree().to_owned());
        objects.remember(&memory)
    }

    /// What the patches of the other kernel make of the source, for a kernel with gcov.
    pub(super) fn other_side(
        &self,
        tree: &SourceTree,
    ) -> Result<BTreeMap<String, Content>, KernelError> {
        let Some(delta) = self.profiling else {
            return Ok(BTreeMap::new());
        };
        let scratch = tree.scratch().join("other");
        Ok(self.work_out(delta.other_patches(), tree, &scratch)?.files)
    }

    /// What patches make of the source.
    pub(super) fn work_out(
        &self,
        patches: &[Patch],
        tree: &SourceTree,
        scratch: &Path,
    ) -> Result<Outcome, KernelError> {
        let path = &self.tools.path;
        Ok(patch::work_out(tree, patches, scratch, path, self.cancel)?)
    }

    pub(super) fn patch(
        &self,
        recipe: &Recipe,
        tree: &SourceTree,
    ) -> Result<(BTreeMap<String, Content>, Vec<String>), KernelError> {
        if !recipe.patches.is_empty() {
            let names: Vec<String> = recipe.patches.iter().map(|patch| patch.name()).collect();
            self.progress.event(BuildEvent::BuildStage {
                stage: BuildStage::Patch,
                detail: &names.join(", "),
            });
        }
        let outcome = self.work_out(&recipe.patches, tree, &tree.scratch().join("patch"))?;
        for note in &outcome.notes {
            self.progress.event(BuildEvent::Warning(note));
        }
        tree.bring_to(&outcome.files)?;
        Ok((outcome.files, outcome.notes))
    }
}

/// `files`, and of those that only `others` have, what the source has.
pub(super) fn pristine_too(
    tree: &SourceTree,
    mut files: BTreeMap<String, Content>,
    others: &BTreeMap<String, Content>,
) -> Result<BTreeMap<String, Content>, CacheError> {
    for name in others.keys() {
        if !files.contains_key(name) {
            files.insert(name.clone(), tree.pristine(name)?);
        }
    }
    Ok(files)
}

/// Headers that the patches add or remove, and of whose name there are others: those
/// compiled before may have included another one, which `make` cannot know.
pub(super) fn hiding_headers(
    tree: &SourceTree,
    files: &BTreeMap<String, Content>,
) -> Result<Vec<String>, CacheError> {
    let mut names = Vec::new();
    for (name, content) in files {
        if !name.ends_with(".h") || tree.pristine(name)?.is_some() == content.is_some() {
            continue;
        }
        if tree.has_other_named(name)? {
            names.push(name.clone());
        }
    }
    Ok(names)
}
