//! Entries with a manifest, which says what the entry is and what its files must be.

use std::fs;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::CacheError;
use super::folder::Cache;
use super::lock::{EntryLock, Wait};
use super::part::Part;
use super::temporary::TempEntry;
use crate::digest::Digest;

const MANIFEST: &str = "manifest.json";

/// What an entry is made of (`manifest.json` in it).
pub trait Manifest: Serialize + DeserializeOwned {
    /// The part of the cache that such entries are in.
    const PART: Part;

    /// The number of the manifest's form.
    const SCHEMA: u32;

    /// The number of this manifest's form.
    fn schema(&self) -> u32;

    /// The digest of all that the entry depends on: its name in the cache.
    fn key(&self) -> Digest;

    /// Checks the entry's files; else says what is wrong with them.
    fn check(&self, folder: &Path) -> Result<(), String>;
}

/// An entry whose files are what its manifest says. While it lives, it is not pruned.
#[derive(Debug)]
pub struct CachedEntry<M> {
    lock: EntryLock,
    /// What it is made of.
    pub manifest: M,
}

/// What the cache has under a key.
#[derive(Debug)]
pub enum Lookup<T> {
    /// What was looked for.
    Found(T),
    /// Something that is not what it claims to be; why.
    Damaged(String),
    /// Nothing.
    Missing,
}

impl<M: Manifest> CachedEntry<M> {
    /// Looks an entry up, and checks its files.
    pub fn find(cache: &Cache, key: Digest, wait: &Wait<'_>) -> Result<Lookup<Self>, CacheError> {
        let name = key.to_string();
        let Some(lock) = cache.read(M::PART, &name, wait)? else {
            return Ok(match cache.entry(M::PART, &name).exists() {
                true => Lookup::Damaged("it has no lock file".to_owned()),
                false => Lookup::Missing,
            });
        };
        Ok(match Self::open(lock, key) {
            Ok(entry) => Lookup::Found(entry),
            Err(why) => Lookup::Damaged(why),
        })
    }

    fn open(lock: EntryLock, key: Digest) -> Result<Self, String> {
        let fault = |error: &dyn std::fmt::Display| format!("{MANIFEST}: {error}");
        let text = fs::read(lock.entry().join(MANIFEST)).map_err(|error| fault(&error))?;
        let manifest: M = serde_json::from_slice(&text).map_err(|error| fault(&error))?;
        let (schema, own) = (manifest.schema(), manifest.key());
        if schema != M::SCHEMA || own != key {
            return Err(format!("{MANIFEST} is that of {own}, schema {schema}"));
        }
        manifest.check(lock.entry())?;
        Ok(Self { lock, manifest })
    }

    /// Publishes a folder that holds the manifest's files. They are checked again: what is
    /// on the disk now is what will be used.
    pub fn publish(entry: TempEntry, manifest: &M) -> Result<Self, CacheError> {
        Self::write(&entry, manifest)?;
        let lock = entry.publish(&manifest.key().to_string())?;
        let path = lock.entry().to_owned();
        Self::open(lock, manifest.key()).map_err(|why| CacheError::Damaged { path, why })
    }

    /// Writes the manifest into a folder that is to become an entry.
    pub fn write(entry: &TempEntry, manifest: &M) -> Result<(), CacheError> {
        write_json(&entry.path().join(MANIFEST), manifest)
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.lock.entry()
    }

    /// Splits it into its lock, which keeps it from being pruned, and its manifest.
    pub(crate) fn into_parts(self) -> (EntryLock, M) {
        (self.lock, self.manifest)
    }
}

/// Writes a value as JSON.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), CacheError> {
    let text = serde_json::to_vec_pretty(value).map_err(|error| CacheError::Damaged {
        path: path.to_owned(),
        why: error.to_string(),
    })?;
    fs::write(path, text).map_err(|error| CacheError::io("write", path, error))
}
