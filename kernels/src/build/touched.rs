//! What patches touch, without building anything.

use std::sync::atomic::AtomicBool;

use super::context::Builder;
use super::options::BuildOptions;
use super::patched::pristine_too;
use crate::cache::Cache;
use crate::error::KernelError;
use crate::patch::Touched;
use crate::progress::Progress;
use crate::spec::{KernelSpec, Origin, Patch};

/// Compares the source of `base` with and without `patches`. `None` for a kernel that is not
/// built from source.
///
/// Fetches the source if the cache does not have it, and waits for its lock.
pub fn touched(
    cache: &Cache,
    base: &KernelSpec,
    patches: &[Patch],
    options: &BuildOptions,
    progress: &dyn Progress,
    cancel: &AtomicBool,
) -> Result<Option<Touched>, KernelError> {
    let Origin::Recipe(recipe) = &base.origin else {
        return Ok(None);
    };
    cache.sweep()?;
    let builder = Builder::new(cache, options, progress, cancel, None);
    builder.tools.check_patch()?;
    let opened = builder.open(&base.name, recipe)?;
    let tree = &opened.tree;
    let work_out = |patches: &[Patch], name| {
        let scratch = tree.scratch().join(name);
        Ok::<_, KernelError>(builder.work_out(patches, tree, &scratch)?.files)
    };
    let before = work_out(&recipe.patches, "before")?;
    let after = work_out(&[&recipe.patches, patches].concat(), "after")?;
    let before = pristine_too(tree, before, &after)?;
    Ok(Some(Touched::between(&before, &after)))
}
