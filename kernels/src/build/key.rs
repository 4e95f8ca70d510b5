//! What decides a kernel's bytes, as a digest: the name of its entry in the store.

use super::context::Builder;
use crate::build::compile::{RECIPE, VARIABLES};
use crate::config::Requested;
use crate::digest::{Digest, Digester};
use crate::error::KernelError;
use crate::profile;
use crate::source::Identity;
use crate::spec::{Direction, Recipe};
use crate::tools::toolchain::Toolchain;

impl Builder<'_> {
    pub(super) fn requested(&self, recipe: &Recipe) -> Result<Requested, KernelError> {
        Ok(match self.profiling {
            Some(_) => profile::requested(recipe)?,
            None => Requested::of(recipe)?,
        })
    }

    pub(super) fn key(
        &self,
        source: &Identity,
        recipe: &Recipe,
        requested: &Requested,
        toolchain: &Toolchain,
    ) -> Digest {
        let mut digester = key(source, recipe, requested, toolchain);
        if let Some(subject) = &self.profiling {
            subject.key(&mut digester);
        }
        digester.finish()
    }
}

/// The digest of everything that decides a kernel's bytes.
fn key(
    source: &Identity,
    recipe: &Recipe,
    requested: &Requested,
    toolchain: &Toolchain,
) -> Digester {
    let mut digester = Digester::new();
    digester
        .field("recipe", RECIPE)
        .field("source", source.digest.to_string())
        .field("options", requested.identity())
        .field("compiler", &toolchain.compiler)
        .field("linker", &toolchain.linker);
    for (name, value) in VARIABLES {
        digester.field(name, value);
    }
    // What is found in the store is not checked again.
    let musts = requested.musts();
    if !musts.is_empty() {
        digester.field("musts", musts);
    }
    for patch in &recipe.patches {
        let direction = match patch.direction {
            Direction::Apply => "apply",
            Direction::Revert => "revert",
        };
        digester.field(direction, patch.digest().to_string());
    }
    digester
}
