//! What the cache holds, and making room in it.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use walkdir::WalkDir;

use super::error::CacheError;
use super::folder::Cache;
use super::lock::{EntryLock, LOCK_FILE};
use super::part::Part;

/// One entry of the cache: a folder, or a file such as a guest image or a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
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

/// Which entries to remove. Those in use always stay.
#[derive(Debug, Clone, Copy, Default)]
pub struct Prune {
    /// Entries not used for longer than this.
    pub older_than: Option<Duration>,
    /// The least recently used ones, until at most this many bytes are left.
    pub at_most: Option<u64>,
    /// Remove nothing, only list what would be removed.
    pub dry_run: bool,
}

/// What pruning removed.
#[derive(Debug, Clone, Default)]
pub struct Pruned {
    /// The removed entries (with `dry_run`: those that would be).
    pub removed: Vec<Usage>,
    /// Entries that were kept only because they are in use.
    pub kept_in_use: Vec<Usage>,
    /// Half-made entries of killed processes, removed.
    pub swept: usize,
    /// Bytes left in entries.
    pub left: u64,
}

impl Cache {
    /// Lists the entries, by part and name.
    pub fn list(&self) -> Result<Vec<Usage>, CacheError> {
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
                // Skips one that another process has just removed.
                let Ok(data) = fs::metadata(path.join(LOCK_FILE)).or_else(|_| fs::metadata(&path))
                else {
                    continue;
                };
                entries.push(Usage {
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
            // Locked until it is removed: whoever locks it afterwards sees that it is gone.
            let Some(_lock) = unused(path) else {
                return Ok(false);
            };
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
    if path.is_file() {
        return unused(path).is_none();
    }
    path.join(LOCK_FILE).exists() && !matches!(EntryLock::try_exclusive_unsigned(path), Ok(Some(_)))
}

/// Locks a file that nobody has locked: its users hold a shared lock on the file itself.
fn unused(path: &Path) -> Option<File> {
    let file = File::open(path).ok()?;
    file.try_lock().is_ok().then_some(file)
}

/// Bytes on the disk under `path`. What cannot be read counts as nothing.
fn bytes(path: &Path) -> u64 {
    let items = WalkDir::new(path).into_iter().flatten();
    let data = items.filter_map(|item| item.metadata().ok());
    data.map(|data| data.blocks() * 512).sum()
}
