//! A saved guest in the cache: its files, what they must be, and copies of them.
//!
//! An entry is looked through whenever a process begins to use it; one that is not what its
//! manifest says is never used. How it is made is not known here.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use numalab_kernels::cache::{CacheError, EntryLock, Part, TempEntry, Wait};
use numalab_kernels::{Cache, Digest};
use serde::{Deserialize, Serialize};

use crate::cache::content::Content;

/// The version of an entry's form.
pub(super) const SCHEMA: u32 = 1;

pub(super) const DISK: &str = "guest.qcow2";
pub(super) const CONSOLE: &str = "console.log";
pub(super) const RECORDS: &str = "records.jsonl";
const MANIFEST: &str = "manifest.json";

/// A saved guest. While it lives, it is not pruned.
#[derive(Debug)]
pub struct Saved {
    lock: EntryLock,
    folder: Utf8PathBuf,
    manifest: Manifest,
}

/// A run's own copy of a saved guest's drive. It goes when this is dropped, and is swept
/// after a kill.
#[derive(Debug)]
pub struct Copied {
    /// The drive.
    pub disk: Utf8PathBuf,
    /// Bytes of records that the saved guest had sent.
    pub records: u64,
    _entry: TempEntry,
}

/// What a saved guest is made of (`manifest.json`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    schema: u32,
    key: Digest,
    /// SHA-256 of the kernel's image.
    kernel: String,
    /// SHA-256 of the initramfs.
    image: String,
    qemu: String,
    arguments: Vec<String>,
    files: BTreeMap<String, Content>,
    at: Timestamp,
}

/// What the cache has under a key.
pub(super) enum SnapshotLookup {
    Saved(Box<Saved>),
    /// Something that is not what it says; why.
    Damaged(String),
    Nothing,
}

impl Manifest {
    /// Of a guest that was saved into a folder just now.
    pub(super) fn new(
        key: Digest,
        kernel: String,
        image: String,
        qemu: String,
        arguments: Vec<String>,
        folder: &Path,
    ) -> Result<Manifest, CacheError> {
        let mut files = BTreeMap::new();
        for name in [DISK, CONSOLE, RECORDS] {
            let path = folder.join(name);
            let content = Content::of(&path).map_err(|e| CacheError::io("read", path, e))?;
            files.insert(name.to_owned(), content);
        }
        Ok(Manifest {
            schema: SCHEMA,
            key,
            kernel,
            image,
            qemu,
            arguments,
            files,
            at: Timestamp::now(),
        })
    }

    fn bytes(&self, name: &str) -> u64 {
        self.files.get(name).map_or(0, |content| content.bytes)
    }
}

/// Looks a saved guest up, and through all its files.
pub(super) fn find(cache: &Cache, key: Digest) -> Result<SnapshotLookup, CacheError> {
    let name = key.to_string();
    let Some(lock) = cache.read(Part::Snapshots, &name, &Wait::HANDOVER)? else {
        let exists = cache.entry(Part::Snapshots, &name).exists();
        return Ok(match exists {
            true => SnapshotLookup::Damaged("it has no lock file".into()),
            false => SnapshotLookup::Nothing,
        });
    };
    Ok(match open(lock, key) {
        Ok(saved) => SnapshotLookup::Saved(Box::new(saved)),
        Err(why) => SnapshotLookup::Damaged(why),
    })
}

fn open(lock: EntryLock, key: Digest) -> Result<Saved, String> {
    let entry = lock.entry().to_owned();
    let text = fs::read(entry.join(MANIFEST)).map_err(|error| format!("{MANIFEST}: {error}"))?;
    let manifest: Manifest =
        serde_json::from_slice(&text).map_err(|error| format!("{MANIFEST}: {error}"))?;
    if manifest.schema != SCHEMA || manifest.key != key {
        let Manifest { schema, key, .. } = manifest;
        return Err(format!("{MANIFEST} is that of {key}, schema {schema}"));
    }
    for name in [DISK, CONSOLE, RECORDS] {
        let wanted = manifest.files.get(name);
        let wanted = wanted.ok_or_else(|| format!("{MANIFEST} does not name {name}"))?;
        wanted.check(name, &entry.join(name))?;
    }
    let folder = utf8(&entry).map_err(|error| error.to_string())?;
    Ok(Saved {
        lock,
        folder,
        manifest,
    })
}

/// Makes a folder that holds the files of a manifest the entry of its key.
pub(super) fn publish(entry: TempEntry, manifest: Manifest) -> Result<Saved, CacheError> {
    let path = entry.path().join(MANIFEST);
    let damaged = |path: &Path, why: String| CacheError::Damaged {
        path: path.to_owned(),
        why,
    };
    let text = serde_json::to_vec_pretty(&manifest);
    let text = text.map_err(|error| damaged(&path, error.to_string()))?;
    fs::write(&path, text).map_err(|error| CacheError::io("write", &path, error))?;
    let key = manifest.key;
    let lock = entry.publish(&key.to_string())?;
    let place = lock.entry().to_owned();
    // Looked through as one that was found: what is on the disk now is what runs will use.
    open(lock, key).map_err(|why| damaged(&place, why))
}

impl Saved {
    /// The digest of all that it depends on: its name in the cache.
    pub fn key(&self) -> Digest {
        self.manifest.key
    }

    /// Its folder in the cache.
    pub fn folder(&self) -> &Path {
        self.lock.entry()
    }

    /// Copies it for one run: the drive to a place of its own, console and records to where
    /// the run has them.
    pub(super) fn copy(
        &self,
        cache: &Cache,
        console: &Utf8Path,
        records: &Utf8Path,
    ) -> Result<Copied, CacheError> {
        let entry = cache.temporary(Part::Snapshots)?;
        let disk = utf8(entry.path())?.join(DISK);
        for (name, to) in [(DISK, &*disk), (CONSOLE, console), (RECORDS, records)] {
            let wanted = self.manifest.bytes(name);
            let copied = clone(&self.folder.join(name), to);
            let copied = copied.map_err(|error| CacheError::io("write", to, error))?;
            if copied != wanted {
                return Err(CacheError::Damaged {
                    path: self.folder.join(name).into(),
                    why: format!("it has {copied} bytes instead of {wanted}"),
                });
            }
        }
        Ok(Copied {
            disk,
            records: self.manifest.bytes(RECORDS),
            _entry: entry,
        })
    }
}

/// Copies a file, by sharing its blocks where the file system can. Returns its length.
fn clone(from: &Utf8Path, to: &Utf8Path) -> io::Result<u64> {
    let source = File::open(from)?;
    let target = File::create(to)?;
    if rustix::fs::ioctl_ficlone(&target, &source).is_ok() {
        return Ok(target.metadata()?.len());
    }
    io::copy(&mut &source, &mut &target)
}

/// A path as text, which QEMU's options need.
pub(super) fn utf8(path: &Path) -> Result<Utf8PathBuf, CacheError> {
    Utf8PathBuf::try_from(path.to_owned()).map_err(|error| CacheError::Damaged {
        path: path.to_owned(),
        why: error.to_string(),
    })
}
