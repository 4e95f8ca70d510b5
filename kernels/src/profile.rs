//! Kernels built with gcov on what patches touch, to learn which changed lines run.
//!
//! Such a kernel is the patched one, or its base, with `CONFIG_GCOV_KERNEL`, in an object
//! tree of its own. Only objects that a touched file is compiled into are instrumented. The
//! compiler's notes (`.gcno`) are kept in the store beside the image, for `gcov`.

mod changes;
mod gcov;
mod objects;
mod seed;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub(crate) use changes::changed;
pub use changes::{ChangedFile, Side};
pub use gcov::{Counts, GcovError};
pub use objects::Counted;
pub(crate) use objects::ProfilePlan;
pub(crate) use seed::{seed, settle};

use crate::cache::CacheError;
use crate::config::{ConfigError, Requested};
use crate::digest::Digester;
use crate::source::tree::Content;
use crate::spec::{Fragment, Patch, Recipe};
use crate::store::{self, Kernel};

/// The name of a profile in a kernel's entry.
pub(crate) const FILE: &str = "profile.json";

/// The folder of the compiler's notes in a kernel's entry.
pub(crate) const NOTES: &str = "notes";

/// The option that brings gcov into a kernel.
const OPTION: &str = "CONFIG_GCOV_KERNEL";

/// A kernel that counts, and what it counts.
#[derive(Debug, Clone)]
pub struct Profiled {
    /// The kernel.
    pub kernel: Kernel,
    /// What it counts.
    pub profile: Profile,
}

/// What a kernel counts (`profile.json` in its entry).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// The gcov of the compiler that built it.
    pub gcov: String,
    /// The objects with counting code, without `.o`: `kernel/sched/fair`.
    pub objects: Vec<String>,
    /// The files that the patches touch, with their changed lines.
    pub files: Vec<ChangedFile>,
}

impl Profiled {
    /// Reads a kernel's profile from the store.
    pub(crate) fn open(kernel: Kernel) -> Result<Profiled, CacheError> {
        let path = kernel.image.with_file_name(FILE);
        let text = fs::read(&path).map_err(|error| CacheError::io("read", &path, error))?;
        let profile = serde_json::from_slice(&text).map_err(|error| CacheError::Damaged {
            path,
            why: error.to_string(),
        })?;
        Ok(Profiled { kernel, profile })
    }

    /// The compiler's notes of an object, for `gcov`.
    pub fn notes(&self, object: &str) -> PathBuf {
        let entry = self.kernel.image.with_file_name(NOTES);
        entry.join(format!("{object}.gcno"))
    }
}

/// The patches whose lines are counted, and on which kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PatchDelta<'a> {
    base: &'a Recipe,
    patched: &'a Recipe,
    pub(crate) side: Side,
}

impl<'a> PatchDelta<'a> {
    /// What `patched` has on top of `base`, if it is patches on the same source.
    pub(crate) fn of([base, patched]: [&'a Recipe; 2], side: Side) -> Option<PatchDelta<'a>> {
        let on_top = base.source == patched.source
            && patched.patches.len() > base.patches.len()
            && patched.patches.starts_with(&base.patches);
        on_top.then_some(PatchDelta {
            base,
            patched,
            side,
        })
    }

    /// The kernel that counts.
    pub(crate) fn recipe(&self) -> &'a Recipe {
        match self.side {
            Side::Base => self.base,
            Side::Patched => self.patched,
        }
    }

    /// The patches of the other kernel.
    pub(crate) fn other_patches(&self) -> &'a [Patch] {
        match self.side {
            Side::Base => &self.patched.patches,
            Side::Patched => &self.base.patches,
        }
    }

    /// Adds what it decides to a kernel's key.
    pub(crate) fn key(&self, digester: &mut Digester) {
        digester.field("profile", "2");
        for patch in self.other_patches() {
            digester.field("other", patch.digest().to_string());
        }
    }
}

/// The configuration asked for, with gcov in it.
pub(crate) fn requested(recipe: &Recipe) -> Result<Requested, ConfigError> {
    let mut recipe = recipe.clone();
    recipe.fragments.push(Fragment {
        name: "gcov".into(),
        text: format!("CONFIG_DEBUG_FS=y\n{OPTION}=y\n"),
    });
    Requested::of(&recipe)
}

/// What `make` is told, so that nothing but the objects of `plan` is compiled anew.
///
/// `CFLAGS_KERNEL` is kbuild's variable for flags of code that is built in
/// (`Documentation/kbuild/kbuild.rst`); `$@` is the object. `scripts/Makefile.lib` would,
/// with gcov in the configuration, call objtool on every object in another way.
pub(crate) fn variables(plan: &ProfilePlan) -> Vec<String> {
    let hidden = "$(filter %/Makefile.lib,$(lastword $(MAKEFILE_LIST)))";
    let mut variables = vec![format!("{OPTION}=$(if {hidden},,y)")];
    if !plan.objects.is_empty() {
        let objects: Vec<String> = plan
            .objects
            .iter()
            .map(|name| format!("{name}.o"))
            .collect();
        variables.push(format!(
            "CFLAGS_KERNEL=$(if $(filter {},$@),$(CFLAGS_GCOV))",
            objects.join(" ")
        ));
    }
    variables
}

/// The gcov that belongs to a compiler: `gcov-13` to `gcc-13`.
pub(crate) fn gcov(compiler: &str) -> String {
    match compiler.rfind("gcc") {
        Some(at) => format!("{}gcov{}", &compiler[..at], &compiler[at + 3..]),
        None => "gcov".into(),
    }
}

/// Puts a profile and the compiler's notes into a kernel's entry.
pub(crate) fn keep(
    entry: &Path,
    objects: &Path,
    plan: &ProfilePlan,
    compiler: &str,
    [before, after]: [&BTreeMap<String, Content>; 2],
) -> Result<(), CacheError> {
    for name in &plan.objects {
        let file = format!("{name}.gcno");
        let to = entry.join(NOTES).join(&file);
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).map_err(|error| CacheError::io("make", folder, error))?;
        }
        store::copy(&objects.join(&file), &to)?;
    }
    let profile = Profile {
        gcov: gcov(compiler),
        objects: plan.objects.clone(),
        files: changed(before, after, plan),
    };
    let path = entry.join(FILE);
    let fault = |error| CacheError::io("write", &path, error);
    let text = serde_json::to_vec_pretty(&profile).map_err(|error| fault(error.into()))?;
    fs::write(&path, text).map_err(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gcov_of_a_compiler_has_its_prefix_and_version() {
        for (compiler, expected) in [
            ("gcc", "gcov"),
            ("gcc-13", "gcov-13"),
            ("x86_64-linux-gnu-gcc-12", "x86_64-linux-gnu-gcov-12"),
            ("cc", "gcov"),
        ] {
            assert_eq!(gcov(compiler), expected);
        }
    }
}
