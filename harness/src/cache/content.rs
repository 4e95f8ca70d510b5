//! What the files of a cached entry must be: their lengths and digests.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use numalab_kernels::Digest;
use numalab_kernels::cache::CacheError;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Content {
    bytes: u64,
    digest: Digest,
}

/// The files of an entry, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Contents(BTreeMap<String, Content>);

impl Content {
    fn of(path: &Path) -> io::Result<Content> {
        Ok(Content {
            bytes: fs::metadata(path)?.len(),
            digest: Digest::of_file(path)?,
        })
    }
}

impl Contents {
    /// What these files of a folder are now.
    ///
    /// # Errors
    /// One cannot be read.
    pub(crate) fn of(folder: &Path, names: &[&str]) -> Result<Contents, CacheError> {
        let contents = names.iter().map(|name| {
            let path = folder.join(name);
            let content = Content::of(&path).map_err(|error| CacheError::io("read", path, error));
            Ok(((*name).to_owned(), content?))
        });
        Ok(Contents(contents.collect::<Result<_, CacheError>>()?))
    }

    /// Checks that these files of a folder are what they must be; else says what is wrong.
    pub(crate) fn check(&self, folder: &Path, names: &[&str]) -> Result<(), String> {
        for name in names {
            let Some(wanted) = self.0.get(*name) else {
                return Err(format!("manifest.json does not name {name}"));
            };
            let found = Content::of(&folder.join(name));
            let found = found.map_err(|error| format!("{name}: {error}"))?;
            if found.bytes != wanted.bytes {
                let (found, wanted) = (found.bytes, wanted.bytes);
                return Err(format!("{name} has {found} bytes instead of {wanted}"));
            }
            if found.digest != wanted.digest {
                let digest = wanted.digest;
                return Err(format!("{name} does not have the digest {digest}"));
            }
        }
        Ok(())
    }

    /// The length of a file.
    pub(crate) fn bytes(&self, name: &str) -> u64 {
        self.0.get(name).map_or(0, |content| content.bytes)
    }
}
