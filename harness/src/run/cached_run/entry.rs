//! A cached result in the cache: its files, and what they must be.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use numalab_kernels::cache::{CacheError, EntryLock, Part, Wait};
use numalab_kernels::{Cache, Digest};
use serde::{Deserialize, Serialize};

use crate::cache::content::Content;
use crate::run::inputs::Inputs;
use crate::run::result::{StartedFrom, Times};

/// The version of an entry's form.
pub(crate) const SCHEMA: u32 = 1;

/// The files of a run that are kept.
pub(crate) const FILES: [&str; 2] = ["console.log", "records.jsonl"];

const MANIFEST: &str = "manifest.json";

/// A cached result. While it lives, it is not pruned.
#[derive(Debug)]
pub(crate) struct CachedRun {
    lock: EntryLock,
    manifest: Manifest,
}

/// Where a result is from (`manifest.json`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    schema: u32,
    key: Digest,
    /// What was run. For a person: the key is made of more, and of less.
    inputs: Inputs,
    /// Where the guest's life began.
    started_from: StartedFrom,
    times: Times,
    /// The run's folder, as long as it is there.
    folder: Utf8PathBuf,
    /// The test runner's run that it was proved in.
    session: Option<String>,
    files: BTreeMap<String, Content>,
    at: Timestamp,
}

/// What the cache has under a key.
#[derive(Debug)]
pub(crate) enum CacheLookup {
    CachedRun(Box<CachedRun>),
    /// Two runs gave different records: the one that is cached, and where the other is.
    Disputed(Box<CachedRun>, PathBuf),
    /// Something that is not what it says; why.
    Damaged(String),
    Nothing,
}

impl Manifest {
    /// Of a run that came to its end just now, in its folder.
    pub(crate) fn new(
        key: Digest,
        inputs: Inputs,
        started_from: StartedFrom,
        times: Times,
        folder: &Utf8Path,
    ) -> Manifest {
        Manifest {
            schema: SCHEMA,
            key,
            inputs,
            started_from,
            times,
            folder: folder.to_owned(),
            session: None,
            files: BTreeMap::new(),
            at: Timestamp::now(),
        }
    }
}

impl CachedRun {
    pub(crate) fn key(&self) -> Digest {
        self.manifest.key
    }

    pub(super) fn session(&self) -> Option<&String> {
        self.manifest.session.as_ref()
    }

    /// When it was proved.
    pub(crate) fn at(&self) -> Timestamp {
        self.manifest.at
    }

    /// The folder of the run that proved it, which may be gone.
    pub(crate) fn folder(&self) -> &Utf8Path {
        &self.manifest.folder
    }

    /// Where the guest's life began.
    pub(crate) fn started_from(&self) -> StartedFrom {
        self.manifest.started_from
    }

    /// How long it took.
    pub(crate) fn times(&self) -> Times {
        self.manifest.times
    }

    /// One of [`FILES`].
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.lock.entry().join(name)
    }

    /// Its folder in the cache.
    pub(crate) fn place(&self) -> &Path {
        self.lock.entry()
    }
}

/// The name of an entry that holds the other records of a disputed key.
fn other(key: Digest) -> String {
    format!("{key}.differs")
}

/// Looks a result up, and through all its files.
pub(super) fn find(cache: &Cache, key: Digest) -> Result<CacheLookup, CacheError> {
    let name = key.to_string();
    let Some(lock) = cache.read(Part::CachedRuns, &name, &Wait::HANDOVER)? else {
        let exists = cache.entry(Part::CachedRuns, &name).exists();
        return Ok(match exists {
            true => CacheLookup::Damaged("it has no lock file".into()),
            false => CacheLookup::Nothing,
        });
    };
    let other = cache.entry(Part::CachedRuns, &other(key));
    Ok(match open(lock, key) {
        Ok(cached_run) if other.exists() => CacheLookup::Disputed(Box::new(cached_run), other),
        Ok(cached_run) => CacheLookup::CachedRun(Box::new(cached_run)),
        Err(why) => CacheLookup::Damaged(why),
    })
}

fn open(lock: EntryLock, key: Digest) -> Result<CachedRun, String> {
    let entry = lock.entry();
    let text = fs::read(entry.join(MANIFEST)).map_err(|error| format!("{MANIFEST}: {error}"))?;
    let manifest: Manifest =
        serde_json::from_slice(&text).map_err(|error| format!("{MANIFEST}: {error}"))?;
    if manifest.schema != SCHEMA || manifest.key != key {
        let Manifest { schema, key, .. } = manifest;
        return Err(format!("{MANIFEST} is that of {key}, schema {schema}"));
    }
    for name in FILES {
        let wanted = manifest.files.get(name);
        let wanted = wanted.ok_or_else(|| format!("{MANIFEST} does not name {name}"))?;
        wanted.check(name, &entry.join(name))?;
    }
    Ok(CachedRun { lock, manifest })
}

/// Keeps the files of a run. Where the same bytes are kept already, only their manifest is
/// renewed.
pub(super) fn publish(
    cache: &Cache,
    mut manifest: Manifest,
    session: Option<String>,
    differs: bool,
) -> Result<(), CacheError> {
    let key = manifest.key;
    manifest.session = session;
    let entry = cache.temporary(Part::CachedRuns)?;
    for name in FILES {
        let (from, to) = (manifest.folder.join(name), entry.path().join(name));
        fs::copy(&from, &to).map_err(|error| CacheError::io("write", &to, error))?;
        let content = Content::of(&to).map_err(|error| CacheError::io("read", &to, error))?;
        manifest.files.insert(name.to_owned(), content);
    }
    let path = entry.path().join(MANIFEST);
    let text = serde_json::to_vec_pretty(&manifest).map_err(|error| CacheError::Damaged {
        path: path.clone(),
        why: error.to_string(),
    })?;
    fs::write(&path, text).map_err(|error| CacheError::io("write", &path, error))?;
    let name = if differs { other(key) } else { key.to_string() };
    if !differs && let CacheLookup::CachedRun(kept) = find(cache, key)? {
        if kept.manifest.files == manifest.files {
            // One rename within one file system: nobody sees half of it.
            let target = kept.file(MANIFEST);
            return fs::rename(&path, &target)
                .map_err(|error| CacheError::io("write", &target, error));
        }
        // Somebody else has just kept other bytes; the next run will tell.
        return Ok(());
    }
    entry.publish(&name)?;
    Ok(())
}
