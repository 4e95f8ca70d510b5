//! What a file of the cache must be: its length and its digest.

use std::fs;
use std::io;
use std::path::Path;

use numalab_kernels::Digest;
use serde::{Deserialize, Serialize};

/// What a file must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Content {
    /// Its length.
    pub(crate) bytes: u64,
    digest: Digest,
}

impl Content {
    /// What a file is now.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn of(path: &Path) -> io::Result<Content> {
        Ok(Content {
            bytes: fs::metadata(path)?.len(),
            digest: Digest::of_file(path)?,
        })
    }

    /// Checks that a file is what it must be; else says, of `name`, what is wrong.
    pub(crate) fn check(&self, name: &str, path: &Path) -> Result<(), String> {
        let found = Content::of(path).map_err(|error| format!("{name}: {error}"))?;
        if found.bytes != self.bytes {
            let (found, wanted) = (found.bytes, self.bytes);
            return Err(format!("{name} has {found} bytes instead of {wanted}"));
        }
        if found.digest != self.digest {
            return Err(format!("{name} does not have the digest {}", self.digest));
        }
        Ok(())
    }
}
