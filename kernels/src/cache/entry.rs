//! Entries in the making: a temporary folder that becomes an entry by one rename.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use super::lock::{EntryLock, LOCK_FILE, Wait};
use super::{Cache, CacheError, Part};

/// How the names of temporary folders begin.
pub(super) const TEMPORARY: &str = ".tmp-";

/// A temporary folder younger than this may be one whose maker has not locked it yet.
const SETTLED: Duration = Duration::from_secs(60);

/// How long an entry that was just published may be locked by those who list the cache.
const HANDOVER: Duration = Duration::from_secs(30);

/// A folder that is not yet an entry. Dropped, it is removed; after a kill, swept.
#[derive(Debug)]
pub struct TempEntry {
    folder: Option<tempfile::TempDir>,
    lock: EntryLock,
    part: PathBuf,
}

impl TempEntry {
    /// The folder to put things into.
    pub fn path(&self) -> &Path {
        self.lock.entry()
    }

    /// Makes it the entry `name`: everything in it reaches the disk, then one rename.
    /// If that entry has come into being meanwhile, this one is dropped. The lock
    /// that comes back keeps the entry from being pruned.
    pub fn publish(mut self, cache: &Cache, name: &str) -> Result<EntryLock, CacheError> {
        let target = self.part.join(name);
        sync(self.path()).map_err(|error| CacheError::io("write", self.path(), error))?;
        match fs::rename(self.path(), &target) {
            Ok(()) => {
                if let Some(folder) = self.folder.take() {
                    // It has another name now, so there is nothing to remove.
                    let _ = folder.keep();
                }
                let _ = File::open(&self.part).and_then(|folder| folder.sync_all());
                let mut lock = self.lock;
                lock.move_to(target);
                lock.share()
                    .map_err(|error| CacheError::io("lock", lock.entry(), error))?;
                Ok(lock)
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists
                ) =>
            {
                cache.published(&target)
            }
            Err(error) => Err(CacheError::io("publish", target, error)),
        }
    }
}

impl Cache {
    /// Starts an entry of a part.
    pub fn temporary(&self, part: Part) -> Result<TempEntry, CacheError> {
        let part = self.part(part);
        loop {
            let folder = tempfile::Builder::new()
                .prefix(TEMPORARY)
                .tempdir_in(&part)
                .map_err(|error| CacheError::io("make a folder in", &part, error))?;
            // Another process may just be sweeping; then the next folder will do.
            if let Some(lock) = EntryLock::try_exclusive(folder.path(), true)? {
                return Ok(TempEntry {
                    folder: Some(folder),
                    lock,
                    part,
                });
            }
        }
    }

    /// Locks what another process has published first.
    fn published(&self, entry: &Path) -> Result<EntryLock, CacheError> {
        let wait = Wait {
            deadline: HANDOVER,
            cancel: &AtomicBool::new(false),
            told: &|_| {},
        };
        EntryLock::wait(entry, false, &wait)?.ok_or_else(|| CacheError::Damaged {
            path: entry.to_owned(),
            why: "it is in the way and has no lock file".to_owned(),
        })
    }

    /// Takes an entry out of the way at once, and then removes it. The caller holds
    /// its lock, or knows it to be damaged.
    pub fn remove(&self, entry: &Path) -> Result<(), CacheError> {
        let part = entry.parent().unwrap_or(&self.root);
        let grave = tempfile::Builder::new()
            .prefix(TEMPORARY)
            .tempdir_in(part)
            .map_err(|error| CacheError::io("make a folder in", part, error))?;
        match fs::rename(entry, grave.path().join("removed")) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(CacheError::io("remove", entry, error)),
        }
    }

    /// Removes what killed processes left half-made. Returns how many there were.
    pub fn sweep(&self) -> Result<usize, CacheError> {
        let mut swept = 0;
        let mut places: Vec<PathBuf> = Part::ALL.iter().map(|part| self.part(*part)).collect();
        places.push(self.root.clone());
        for place in places {
            let list =
                fs::read_dir(&place).map_err(|error| CacheError::io("list", &place, error))?;
            for item in list.flatten() {
                let path = item.path();
                if !item.file_name().to_string_lossy().starts_with(TEMPORARY) {
                    continue;
                }
                // Kept until it is gone, so that its maker cannot still lock it.
                let Some(_lock) = Self::abandoned(&path) else {
                    continue;
                };
                // Another process may be sweeping it as well.
                let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
                swept += 1;
            }
        }
        Ok(swept)
    }

    /// `None` if somebody makes something of it, else its lock as far as it has one.
    fn abandoned(path: &Path) -> Option<Option<EntryLock>> {
        if let Ok(Some(lock)) = EntryLock::try_exclusive(path, false) {
            return Some(Some(lock));
        }
        // Without a lock file: just made, or left before it had one.
        let settled = fs::symlink_metadata(path)
            .and_then(|data| data.modified())
            .is_ok_and(|made| {
                SystemTime::now()
                    .duration_since(made)
                    .is_ok_and(|age| age > SETTLED)
            });
        (!path.join(LOCK_FILE).exists() && settled).then_some(None)
    }
}

/// Brings a folder's files to the disk.
fn sync(folder: &Path) -> io::Result<()> {
    for item in fs::read_dir(folder)? {
        let item = item?;
        let kind = item.file_type()?;
        if kind.is_dir() {
            sync(&item.path())?;
        } else if kind.is_file() {
            File::open(item.path())?.sync_all()?;
        }
    }
    File::open(folder)?.sync_all()
}
