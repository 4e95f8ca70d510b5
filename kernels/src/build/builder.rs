//! The order in which a kernel is got: from the store, or by building it.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use jiff::Timestamp;

use super::alternative::Chosen;
use super::context::Builder;
use super::options::BuildOptions;
use crate::cache::Cache;
use crate::digest::Digester;
use crate::error::KernelError;
use crate::profile::{PatchDelta, Profiled, Side};
use crate::progress::{BuildEvent, Progress};
use crate::spec::{KernelSpec, Origin, Recipe};
use crate::store::Kernel;

/// Gets a kernel: from the store, or by building it. Blocks, also for minutes;
/// `cancel` ends it within seconds, with everything that it started.
pub fn get_or_build(
    cache: &Cache,
    wanted: &KernelSpec,
    options: &BuildOptions,
    progress: &dyn Progress,
    cancel: &AtomicBool,
) -> Result<Kernel, KernelError> {
    cache.sweep()?;
    let builder = Builder::new(cache, options, progress, cancel, None);
    for note in &wanted.notes {
        progress.event(BuildEvent::Note(note));
    }
    match &wanted.origin {
        Origin::Image(path) => builder.adopt(&wanted.name, path),
        Origin::Package(path) => builder.adopt_package(&wanted.name, path),
        Origin::Recipe(recipe) => builder.make(&wanted.name, recipe),
    }
}

/// Gets a kernel that counts, with gcov, how often the lines run that `patched` changes in
/// `base`: the one on this side of the patches. `None` if the two are not built from one
/// source, the second with more patches than the first.
pub fn get_or_build_profiled(
    cache: &Cache,
    kernels: [&KernelSpec; 2],
    side: Side,
    options: &BuildOptions,
    progress: &dyn Progress,
    cancel: &AtomicBool,
) -> Result<Option<Profiled>, KernelError> {
    let [Origin::Recipe(base), Origin::Recipe(patched)] = kernels.map(|kernel| &kernel.origin)
    else {
        return Ok(None);
    };
    let Some(delta) = PatchDelta::of([base, patched], side) else {
        return Ok(None);
    };
    cache.sweep()?;
    let builder = Builder::new(cache, options, progress, cancel, Some(delta));
    let name = match side {
        Side::Base => &kernels[0].name,
        Side::Patched => &kernels[1].name,
    };
    let kernel = builder.make(&format!("{name} with gcov"), delta.recipe())?;
    Ok(Some(Profiled::open(kernel)?))
}

impl Builder<'_> {
    fn make(&self, name: &str, recipe: &Recipe) -> Result<Kernel, KernelError> {
        let requested = self.requested(recipe)?;
        self.tools.check_build(Path::new("/nonexistent"))?;
        if !recipe.patches.is_empty() {
            self.tools.check_patch()?;
        }
        let toolchain = self.tools.identify()?;
        let fetcher = self.fetcher();
        let fresh = self.options.fresh;
        let Chosen {
            source,
            identity,
            opened,
            name,
        } = self.choose(name, recipe, &fetcher)?;
        let name = name.as_str();
        let key = self.key(&identity, recipe, &requested, &toolchain);
        if let Some(kernel) = self.find(&key, name)?.filter(|_| !fresh) {
            return Ok(kernel);
        }
        let opened = match opened {
            Some(opened) => opened,
            None => fetcher.open(source)?,
        };
        // The lock may have been another process's until now, which built the same;
        // and the source may be another than before, if it was pruned meanwhile.
        let key = self.key(&opened.identity, recipe, &requested, &toolchain);
        let key = match fresh {
            // Beside the other one: nothing that was built with care is taken for it.
            true => Digester::new()
                .field("key", key.to_string())
                .field("fresh", Timestamp::now().to_string())
                .finish(),
            false => match self.find(&key, name)? {
                Some(kernel) => return Ok(kernel),
                None => key,
            },
        };
        self.tools.check_build(&opened.tree.src())?;
        self.compile(name, recipe, &requested, toolchain, &opened, key)
    }
}
