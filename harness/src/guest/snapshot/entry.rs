//! A saved guest in the cache, and copies of it.

use std::fs::File;
use std::io;
use std::path::Path;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use numalab_kernels::cache::{self, CacheError, CachedEntry, Part, TempEntry};
use numalab_kernels::{Cache, Digest};
use serde::{Deserialize, Serialize};

use super::request::{CONSOLE, DISK, RECORDS, SCHEMA, SnapshotRequest};
use crate::cache::content::Contents;

const FILES: [&str; 3] = [DISK, CONSOLE, RECORDS];

/// A saved guest. While it lives, it is not pruned.
#[derive(Debug)]
pub struct Saved(pub(super) CachedEntry<Manifest>);

/// A run's own copy of a saved guest's drive. It is removed when this is dropped.
#[derive(Debug)]
pub struct Copied {
    /// The drive.
    pub disk: Utf8PathBuf,
    /// Bytes of records that the saved guest had sent.
    pub records: u64,
    _entry: TempEntry,
}

/// What a saved guest is made from (`manifest.json`).
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
    files: Contents,
    at: Timestamp,
}

impl Manifest {
    /// That of a guest that was saved into a folder just now.
    pub(super) fn new(wanted: &SnapshotRequest<'_>) -> Manifest {
        Manifest {
            schema: SCHEMA,
            key: wanted.key(),
            kernel: wanted.kernel.to_owned(),
            image: wanted.image.to_owned(),
            qemu: wanted.qemu.text().to_owned(),
            arguments: wanted.arguments(),
            files: Contents::default(),
            at: Timestamp::now(),
        }
    }
}

impl cache::Manifest for Manifest {
    const PART: Part = Part::Snapshots;
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

impl Saved {
    /// Publishes a folder into which a guest was saved.
    pub(super) fn publish(entry: TempEntry, mut manifest: Manifest) -> Result<Saved, CacheError> {
        manifest.files = Contents::of(entry.path(), &FILES)?;
        Ok(Saved(CachedEntry::publish(entry, &manifest)?))
    }

    /// The digest of all that it depends on: its name in the cache.
    pub fn key(&self) -> Digest {
        self.0.manifest.key
    }

    /// Its folder in the cache.
    pub fn folder(&self) -> &Path {
        self.0.folder()
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
            let wanted = self.0.manifest.files.bytes(name);
            let copied = clone(&self.folder().join(name), to);
            let copied = copied.map_err(|error| CacheError::io("write", to, error))?;
            if copied != wanted {
                return Err(CacheError::Damaged {
                    path: self.folder().join(name),
                    why: format!("it has {copied} bytes instead of {wanted}"),
                });
            }
        }
        Ok(Copied {
            disk,
            records: self.0.manifest.files.bytes(RECORDS),
            _entry: entry,
        })
    }
}

/// Copies a file, by sharing its blocks where the file system can. Returns its length.
fn clone(from: &Path, to: &Utf8Path) -> io::Result<u64> {
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
