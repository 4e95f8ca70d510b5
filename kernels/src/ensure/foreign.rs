//! Images that somebody else built.

use std::fs;
use std::path::Path;

use jiff::Timestamp;

use super::Work;
use crate::cache::{CacheError, Part};
use crate::config;
use crate::digest::{Digest, Digester};
use crate::error::KernelError;
use crate::image;
use crate::progress::Event;
use crate::store::{self, Kernel, Manifest, SCHEMA};

impl Work<'_> {
    /// Takes somebody else's image into the store, so that what is booted is what was
    /// digested even if it is built anew meanwhile.
    pub(super) fn adopt(&self, name: &str, path: &Path) -> Result<Kernel, KernelError> {
        let read = |error| CacheError::io("read", path, error);
        let digest = Digest::of_file(path).map_err(read)?;
        let beside = config::beside_image(path, image::inspect(path)?.release.as_deref());
        let settings = match &beside {
            Some(path) => fs::read(path).map_err(|error| CacheError::io("read", path, error))?,
            None => Vec::new(),
        };
        let key = Digester::new()
            .field("image", digest.to_string())
            .field("config", &settings)
            .finish();
        let kernel = match self.find(&key, name)? {
            Some(kernel) => kernel,
            None => {
                let entry = self.cache.temporary(Part::Kernels)?;
                let copy = entry.path().join("copied");
                store::copy(path, &copy)?;
                // What was copied counts, should it have changed meanwhile.
                let found = image::inspect(&copy)?;
                let image_digest = Digest::of_file(&copy).map_err(read)?;
                let place = entry.path().join(store::image_name(found.kind));
                fs::rename(&copy, &place).map_err(|error| CacheError::io("write", place, error))?;
                if beside.is_some() {
                    let place = entry.path().join(store::CONFIG);
                    fs::write(&place, &settings)
                        .map_err(|error| CacheError::io("write", place, error))?;
                }
                let key = Digester::new()
                    .field("image", image_digest.to_string())
                    .field("config", &settings)
                    .finish();
                let manifest = Manifest {
                    schema: SCHEMA,
                    name: name.to_owned(),
                    key,
                    kind: found.kind,
                    image_digest,
                    release: found.release.unwrap_or_else(|| "unknown".to_owned()),
                    built: None,
                    at: Timestamp::now(),
                };
                store::publish(self.cache, entry, &manifest, name)?
            }
        };
        for (option, why) in kernel.lacks()? {
            let warning = format!("{name} was built without {option}: {why}");
            self.progress.event(Event::Warning(&warning));
        }
        Ok(kernel)
    }
}
