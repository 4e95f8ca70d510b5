//! Entries in the making: a temporary folder that becomes an entry by one rename.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use walkdir::WalkDir;

use super::error::CacheError;
use super::folder::{Cache, TEMPORARY};
use super::lock::{EntryLock, LOCK_FILE, Wait};
use super::part::Part;

/// A folder that is not yet an entry. Dropping it removes it; what a killed process leaves
/// is swept.
#[derive(Debug)]
pub struct TempEntry {
    folder: Option<TempDir>,
    lock: EntryLock,
    part: PathBuf,
}

impl TempEntry {
    /// The folder to put things into.
    pub fn path(&self) -> &Path {
        self.lock.entry()
    }

    /// Makes it the entry `name`: everything in it reaches the disk, then one rename.
    /// If another process has published that entry meanwhile, this one is dropped. The
    /// returned lock keeps the entry from being pruned.
    pub fn publish(mut self, name: &str) -> Result<EntryLock, CacheError> {
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
                let lock = EntryLock::wait(&target, false, &Wait::HANDOVER)?;
                lock.ok_or_else(|| CacheError::Damaged {
                    path: target,
                    why: "it is in the way and has no lock file".to_owned(),
                })
            }
            Err(error) => Err(CacheError::io("publish", target, error)),
        }
    }
}

impl Cache {
    /// Starts an entry of a part.
    pub fn temporary(&self, part: Part) -> Result<TempEntry, CacheError> {
        let part = self.part(part);
        let (folder, lock) = locked_folder(&part)?;
        Ok(TempEntry {
            folder: Some(folder),
            lock,
            part,
        })
    }

    /// Takes an entry out of the way at once, and then removes it. The caller holds
    /// its lock, or knows that it is damaged.
    pub fn remove(&self, entry: &Path) -> Result<(), CacheError> {
        let part = entry.parent().unwrap_or(self.root());
        let (grave, _lock) = locked_folder(part)?;
        match fs::rename(entry, grave.path().join("removed")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(CacheError::io("remove", entry, error))
            }
            _ => Ok(()),
        }
    }

    /// Removes what killed processes left half-made. Returns how many there were.
    pub fn sweep(&self) -> Result<usize, CacheError> {
        let mut swept = 0;
        let mut places: Vec<PathBuf> = Part::ALL.iter().map(|part| self.part(*part)).collect();
        places.push(self.root().to_owned());
        for place in places {
            let list =
                fs::read_dir(&place).map_err(|error| CacheError::io("list", &place, error))?;
            for item in list.flatten() {
                let path = item.path();
                if !item.file_name().to_string_lossy().starts_with(TEMPORARY) {
                    continue;
                }
                // Locked until it is gone, so that nobody else can still lock it.
                let lock = EntryLock::try_exclusive(&path, false);
                let _making = match lock {
                    Ok(Some(_)) => None,
                    _ if path.join(LOCK_FILE).exists() => continue,
                    _ => match making(&place, true) {
                        Some(making) => Some(making),
                        None => continue,
                    },
                };
                // Another process may be sweeping it, too.
                let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
                swept += 1;
            }
        }
        Ok(swept)
    }
}

/// Makes a temporary folder in a part, locked.
fn locked_folder(part: &Path) -> Result<(TempDir, EntryLock), CacheError> {
    // Until its lock file is locked, the part itself is: a folder without one that nobody is
    // making now was left by a killed process.
    let _making = making(part, false);
    loop {
        let folder = tempfile::Builder::new()
            .prefix(TEMPORARY)
            .tempdir_in(part)
            .map_err(|error| CacheError::io("make a folder in", part, error))?;
        // Another process may just be sweeping; then the next folder will do.
        if let Some(lock) = EntryLock::try_exclusive(folder.path(), true)? {
            return Ok((folder, lock));
        }
    }
}

/// Locks a part against sweeping (shared) or against the making of folders in it
/// (exclusive, only tried).
fn making(part: &Path, sweep: bool) -> Option<File> {
    let folder = File::open(part).ok()?;
    let locked = if sweep {
        folder.try_lock().is_ok()
    } else {
        folder.lock_shared().is_ok()
    };
    locked.then_some(folder)
}

/// Brings a folder's files to the disk.
fn sync(folder: &Path) -> io::Result<()> {
    for item in WalkDir::new(folder).contents_first(true) {
        let item = item?;
        if item.file_type().is_file() || item.file_type().is_dir() {
            File::open(item.path())?.sync_all()?;
        }
    }
    Ok(())
}
