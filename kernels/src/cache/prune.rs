//! What the cache holds, and making room in it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::lock::{EntryLock, LOCK_FILE};
use super::{Cache, CacheError, Part};

/// One entry of the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its part.
    pub part: Part,
    /// Its name in that part.
    pub name: String,
    /// Bytes on the disk.
    pub bytes: u64,
    /// When it was last used.
    pub last_used: SystemTime,
    /// Whether a process uses it now.
    pub in_use: bool,
    /// Where it lies.
    pub path: PathBuf,
}

/// What is to go. Entries in use always stay.
#[derive(Debug, Clone, Copy, Default)]
pub struct Prune {
    /// Entries not used for longer than this.
    pub older_than: Option<Duration>,
    /// The least recently used ones, until no more than this many bytes are left.
    pub at_most: Option<u64>,
    /// Only says what would go.
    pub dry_run: bool,
}

/// What went.
#[derive(Debug, Clone, Default)]
pub struct Pruned {
    /// The removed entries (with `dry_run`: those that would be).
    pub removed: Vec<Entry>,
    /// Entries that should have gone but are in use.
    pub kept_in_use: Vec<Entry>,
    /// Half-made entries of killed processes, removed.
    pub swept: usize,
    /// Bytes left in entries.
    pub left: u64,
}

impl Cache {
    /// Lists the entries, by part and name.
    pub fn list(&self) -> Result<Vec<Entry>, CacheError> {
        let mut entries = Vec::new();
        for part in Part::ALL {
            let place = self.part(part);
            let list =
                fs::read_dir(&place).map_err(|error| CacheError::io("list", &place, error))?;
            for item in list.flatten() {
                let name = item.file_name().to_string_lossy().into_owned();
                if name.starts_with('.') {
                    continue;
                }
                let path = item.path();
                // One that vanishes meanwhile is none.
                let Ok(data) = fs::metadata(path.join(LOCK_FILE)).or_else(|_| fs::metadata(&path))
                else {
                    continue;
                };
                entries.push(Entry {
                    part,
                    name,
                    bytes: bytes(&path),
                    last_used: data.modified().unwrap_or(SystemTime::UNIX_EPOCH),
                    in_use: in_use(&path),
                    path,
                });
            }
        }
        entries.sort_by(|left, right| (left.part, &left.name).cmp(&(right.part, &right.name)));
        Ok(entries)
    }

    /// Makes room. Entries go in the order of their last use, oldest first.
    pub fn prune(&self, prune: &Prune) -> Result<Pruned, CacheError> {
        let mut pruned = Pruned::default();
        if !prune.dry_run {
            pruned.swept = self.sweep()?;
        }
        let mut entries = self.list()?;
        entries.sort_by_key(|entry| entry.last_used);
        let now = SystemTime::now();
        pruned.left = entries.iter().map(|entry| entry.bytes).sum();
        for entry in entries {
            let age = now.duration_since(entry.last_used).unwrap_or_default();
            let too_old = prune.older_than.is_some_and(|limit| age > limit);
            let too_much = prune.at_most.is_some_and(|limit| pruned.left > limit);
            if !too_old && !too_much {
                continue;
            }
            let gone = if prune.dry_run {
                !entry.in_use
            } else {
                self.discard(&entry.path)?
            };
            if gone {
                pruned.left = pruned.left.saturating_sub(entry.bytes);
                pruned.removed.push(entry);
            } else {
                pruned.kept_in_use.push(entry);
            }
        }
        Ok(pruned)
    }

    /// Removes an entry unless it is in use.
    fn discard(&self, path: &Path) -> Result<bool, CacheError> {
        if path.is_file() {
            fs::remove_file(path).map_err(|error| CacheError::io("remove", path, error))?;
            return Ok(true);
        }
        // An entry without a lock file gets one: others might be about to use it.
        match EntryLock::try_exclusive(path, true)? {
            Some(_lock) => self.remove(path).map(|()| true),
            None => Ok(false),
        }
    }
}

fn in_use(path: &Path) -> bool {
    path.join(LOCK_FILE).exists() && !matches!(EntryLock::try_exclusive_unsigned(path), Ok(Some(_)))
}

/// Bytes on the disk under `path`. What cannot be read counts nothing.
fn bytes(path: &Path) -> u64 {
    let Ok(data) = fs::symlink_metadata(path) else {
        return 0;
    };
    let own = data.blocks() * 512;
    if !data.is_dir() {
        return own;
    }
    let Ok(list) = fs::read_dir(path) else {
        return own;
    };
    own + list.flatten().map(|item| bytes(&item.path())).sum::<u64>()
}
