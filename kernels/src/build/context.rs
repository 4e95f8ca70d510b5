//! What all steps of getting a kernel share.

use std::sync::atomic::AtomicBool;

use super::options::BuildOptions;
use crate::cache::{Cache, CacheError, Lookup, Part, Wait};
use crate::digest::Digest;
use crate::profile::PatchDelta;
use crate::progress::{BuildEvent, Progress};
use crate::source::Fetcher;
use crate::store::{self, Kernel};
use crate::tools::toolchain::Toolbox;

/// With what kernels are got.
pub(super) struct Builder<'a> {
    pub(super) cache: &'a Cache,
    pub(super) options: &'a BuildOptions,
    pub(super) progress: &'a dyn Progress,
    pub(super) cancel: &'a AtomicBool,
    pub(super) tools: Toolbox,
    /// What is to be counted, if anything.
    pub(super) profiling: Option<PatchDelta<'a>>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        cache: &'a Cache,
        options: &'a BuildOptions,
        progress: &'a dyn Progress,
        cancel: &'a AtomicBool,
        profiling: Option<PatchDelta<'a>>,
    ) -> Self {
        let path = options.path.clone();
        let path = path.unwrap_or_else(|| std::env::var_os("PATH").unwrap_or_default());
        let tools = Toolbox::new(path, &options.compiler);
        Self {
            cache,
            options,
            progress,
            cancel,
            tools,
            profiling,
        }
    }

    pub(super) fn fetcher(&self) -> Fetcher<'_> {
        Fetcher {
            cache: self.cache,
            tools: &self.tools,
            progress: self.progress,
            cancel: self.cancel,
            fetch_deadline: self.options.fetch_deadline,
            stall_deadline: self.options.stall_deadline,
            wait_deadline: self.options.wait_deadline,
            fresh: self.options.fresh,
        }
    }

    /// Looks a kernel up; a damaged one is told and taken out of the way.
    pub(super) fn find(&self, key: &Digest, name: &str) -> Result<Option<Kernel>, CacheError> {
        let wait = Wait {
            deadline: self.options.wait_deadline,
            cancel: self.cancel,
            on_wait: &|holder| {
                let note = format!("waiting for the kernel {name}, which {holder} uses");
                self.progress.event(BuildEvent::Note(&note));
            },
        };
        match store::find(self.cache, *key, name, &wait)? {
            Lookup::Found(kernel) => {
                if let Some(built) = &kernel.manifest.built {
                    for note in &built.notes {
                        self.progress.event(BuildEvent::Note(note));
                    }
                    for warning in &built.moved {
                        self.progress.event(BuildEvent::Warning(warning));
                    }
                }
                Ok(Some(kernel))
            }
            Lookup::Missing => Ok(None),
            Lookup::Damaged(why) => {
                let warning =
                    format!("the kernel {name} in the cache is damaged ({why}): it is made again");
                self.progress.event(BuildEvent::Warning(&warning));
                self.cache
                    .remove(&self.cache.entry(Part::Kernels, &key.to_string()))?;
                Ok(None)
            }
        }
    }
}
