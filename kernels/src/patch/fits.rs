//! Which other sources patches fit: those that the cache has, tried one by one.
//!
//! It is advice for a message. The trees are read without their locks, which a build
//! may hold for minutes.

use std::ffi::OsStr;
use std::fs;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::{PatchError, work_out};
use crate::cache::{Cache, Part};
use crate::source::tree::SourceTree;
use crate::spec::Patch;

/// For how long sources are tried; each takes some 50 ms for a patch.
const DEADLINE: Duration = Duration::from_secs(10);

/// The sources in the cache, but for `not`, that all of `patches` fit.
///
/// # Errors
/// The scratch folder cannot be used. That a source cannot be read is no error.
pub(crate) fn fits(
    cache: &Cache,
    not: &SourceTree,
    patches: &[Patch],
    tools: &OsStr,
    cancel: &AtomicBool,
) -> Result<Option<Vec<String>>, PatchError> {
    let part = cache.part(Part::Trees);
    let Ok(items) = fs::read_dir(&part) else {
        return Ok(None);
    };
    let mut folders: Vec<_> = items.flatten().map(|item| item.path()).collect();
    folders.sort();
    let start = Instant::now();
    let mut tried = false;
    let mut names = Vec::new();
    for folder in folders {
        let tree = SourceTree::of(&folder);
        if tree.src() == not.src() || start.elapsed() > DEADLINE {
            continue;
        }
        // What is no whole source has no version.
        let Some(version) = crate::version::of_source(&tree.src()) else {
            continue;
        };
        let scratch = cache.temporary(Part::Tools)?;
        tried = true;
        if work_out(&tree, patches, scratch.path(), tools, cancel).is_ok() {
            names.push(format!("Linux {version} ({})", crate::files::name(&folder)));
        }
    }
    Ok(tried.then_some(names))
}
