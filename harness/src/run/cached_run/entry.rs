//! A cached result in the cache.

use std::fs;
use std::path::{Path, PathBuf};

use camino::Utf8PathBuf;
use jiff::Timestamp;
use numalab_kernels::cache::{self, CacheError, CachedEntry, Lookup, Part, Wait};
use numalab_kernels::{Cache, Digest};
use serde::{Deserialize, Serialize};

use crate::cache::content::Contents;
use crate::run::inputs::Inputs;
use crate::run::result::{StartedFrom, Times};

/// The version of an entry's form.
pub(crate) const SCHEMA: u32 = 1;

/// The files of a run that are cached.
pub(crate) const FILES: [&str; 2] = ["console.log", "records.jsonl"];

/// A cached result. While it lives, it is not pruned.
pub(crate) type CachedRun = CachedEntry<Manifest>;

/// Where a result is from (`manifest.json`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    schema: u32,
    pub(crate) key: Digest,
    /// What was run, for a person. The key depends on more than this, and on less.
    inputs: Inputs,
    pub(crate) started_from: StartedFrom,
    pub(crate) times: Times,
    /// The run's folder, as long as it is there.
    pub(crate) folder: Utf8PathBuf,
    /// The test runner's run in which this was run.
    pub(super) session: Option<String>,
    files: Contents,
    pub(crate) at: Timestamp,
}

/// What the cache has under a key.
#[derive(Debug)]
pub(crate) enum CacheLookup {
    CachedRun(Box<CachedRun>),
    /// Two runs gave different records: the one that is cached, and where the other is.
    Disputed(Box<CachedRun>, PathBuf),
    /// Something that is not what its manifest says; why.
    Damaged(String),
    Nothing,
}

impl Manifest {
    /// That of a run that came to its end just now.
    pub(crate) fn new(
        key: Digest,
        inputs: Inputs,
        started_from: StartedFrom,
        times: Times,
        folder: Utf8PathBuf,
    ) -> Manifest {
        Manifest {
            schema: SCHEMA,
            key,
            inputs,
            started_from,
            times,
            folder,
            session: None,
            files: Contents::default(),
            at: Timestamp::now(),
        }
    }
}

impl cache::Manifest for Manifest {
    const PART: Part = Part::CachedRuns;
    const SCHEMA: u32 = SCHEMA;

    fn schema(&self) -> u32 {
        self.schema
    }

    fn key(&self) -> Digest {
        self.key
    }

    fn check(&self, folder: &Path) -> Result<(), String> {
        self.files.check(folder, &FILES)
    }
}

/// The name of an entry that holds the other records of a disputed key.
fn other(key: Digest) -> String {
    format!("{key}.differs")
}

/// Looks a result up and checks its files.
pub(super) fn find(cache: &Cache, key: Digest) -> Result<CacheLookup, CacheError> {
    let other = cache.entry(Part::CachedRuns, &other(key));
    Ok(match CachedRun::find(cache, key, &Wait::HANDOVER)? {
        Lookup::Found(run) if other.exists() => CacheLookup::Disputed(Box::new(run), other),
        Lookup::Found(run) => CacheLookup::CachedRun(Box::new(run)),
        Lookup::Damaged(why) => CacheLookup::Damaged(why),
        Lookup::Missing => CacheLookup::Nothing,
    })
}

/// Caches the files of a run. Where the same bytes are cached already, only their manifest is
/// replaced.
pub(super) fn publish(
    cache: &Cache,
    mut manifest: Manifest,
    differs: bool,
) -> Result<(), CacheError> {
    let entry = cache.temporary(Part::CachedRuns)?;
    for name in FILES {
        let (from, to) = (manifest.folder.join(name), entry.path().join(name));
        fs::copy(&from, &to).map_err(|error| CacheError::io("write", &to, error))?;
    }
    manifest.files = Contents::of(entry.path(), &FILES)?;
    if differs {
        CachedRun::write(&entry, &manifest)?;
        entry.publish(&other(manifest.key))?;
        return Ok(());
    }
    match find(cache, manifest.key)? {
        CacheLookup::CachedRun(kept) if kept.manifest.files == manifest.files => {
            CachedRun::write(&entry, &manifest)?;
            let [from, to] = [entry.path(), kept.folder()].map(|at| at.join("manifest.json"));
            // One rename within one file system: nobody sees half of it.
            fs::rename(from, &to).map_err(|error| CacheError::io("write", &to, error))
        }
        // Another process has just cached other bytes; the next run finds out.
        CacheLookup::CachedRun(_) => Ok(()),
        _ => CachedRun::publish(entry, &manifest).map(|_| ()),
    }
}
