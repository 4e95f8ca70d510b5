//! Locks on entries, which end with the processes that hold them.
//!
//! They are `flock` locks on a file inside the entry. Children may inherit one (see
//! the module `process`): an entry is then free only when they have ended as well.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::error::CacheError;
use super::folder::Cache;
use super::part::Part;

/// The lock file's name inside an entry.
pub(super) const LOCK_FILE: &str = "lock";

/// How often a lock is tried while waiting.
const POLL: Duration = Duration::from_millis(50);

/// A lock on an entry. It is given up when this is dropped and no child has it.
#[derive(Debug)]
pub struct EntryLock {
    file: File,
    entry: PathBuf,
}

/// How to wait for a lock.
pub struct Wait<'a> {
    /// For how long at most.
    pub deadline: Duration,
    /// Set by whoever wants the waiting to end.
    pub cancel: &'a AtomicBool,
    /// Called once, with the holder's description, if there is anything to wait for.
    pub on_wait: &'a dyn Fn(&str),
}

static NEVER: AtomicBool = AtomicBool::new(false);

impl Wait<'static> {
    /// For an entry that is locked at most for moments, by those who list or publish it.
    pub const HANDOVER: Self = Self {
        deadline: Duration::from_secs(30),
        cancel: &NEVER,
        on_wait: &|_| {},
    };
}

impl EntryLock {
    /// The entry's folder.
    pub fn entry(&self) -> &Path {
        &self.entry
    }

    /// The descriptor that children are to inherit.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Lets others read the entry again, but not remove it.
    pub(super) fn share(&self) -> io::Result<()> {
        self.file.lock_shared()
    }

    /// Remembers that the entry was used now, for pruning by age.
    fn touch(&self) {
        // Best effort: another user's entry is still good to read.
        let _ = self.file.set_modified(SystemTime::now());
    }

    /// Opens an entry's lock file. `None` if there is none and none is to be made.
    fn open(entry: &Path, make: bool) -> Result<Option<Self>, CacheError> {
        let path = entry.join(LOCK_FILE);
        let mut open = OpenOptions::new();
        open.read(true).write(true).create(make);
        let file = match open.open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // An entry of another user, or on a read-only medium, can be read.
            Err(_) if !make && path.exists() => {
                File::open(&path).map_err(|error| CacheError::io("open", &path, error))?
            }
            Err(error) => return Err(CacheError::io("open", &path, error)),
        };
        Ok(Some(Self {
            file,
            entry: entry.to_owned(),
        }))
    }

    /// Whether the locked file is still the one that the entry has: it may have been
    /// pruned, and made anew, while this one waited.
    fn is_current(&self) -> bool {
        let Ok(mine) = self.file.metadata() else {
            return false;
        };
        fs::metadata(self.entry.join(LOCK_FILE))
            .is_ok_and(|theirs| (mine.dev(), mine.ino()) == (theirs.dev(), theirs.ino()))
    }

    fn try_take(&self, exclusive: bool) -> Result<bool, CacheError> {
        let taken = if exclusive {
            self.file.try_lock()
        } else {
            self.file.try_lock_shared()
        };
        match taken {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(CacheError::io("lock", &self.entry, error)),
        }
    }

    /// Locks an entry exclusively if nobody else uses it; makes only the lock file.
    pub(super) fn try_exclusive(entry: &Path, make: bool) -> Result<Option<Self>, CacheError> {
        let Some(lock) = Self::open(entry, make)? else {
            return Ok(None);
        };
        if lock.try_take(true)? && lock.is_current() {
            lock.sign();
            return Ok(Some(lock));
        }
        Ok(None)
    }

    /// The same without a trace, to see whether anybody uses an entry.
    pub(super) fn try_exclusive_unsigned(entry: &Path) -> Result<Option<Self>, CacheError> {
        let lock = Self::open(entry, false)?;
        match lock {
            Some(lock) if lock.try_take(true)? && lock.is_current() => Ok(Some(lock)),
            _ => Ok(None),
        }
    }

    /// Says that the entry was renamed; the lock stays what it was.
    pub(super) fn move_to(&mut self, entry: PathBuf) {
        self.entry = entry;
    }

    fn sign(&self) {
        // For messages only: the lock itself is the kernel's.
        let mut file = &self.file;
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| write!(file, "{}", std::process::id()));
    }

    fn holder(&self) -> String {
        let mut text = String::new();
        let mut file = &self.file;
        let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
        match (read, text.trim().parse::<u32>()) {
            (Ok(_), Ok(process)) => format!("process {process} (or a child that it left)"),
            _ => "another process".to_owned(),
        }
    }

    pub(super) fn wait(
        entry: &Path,
        exclusive: bool,
        wait: &Wait<'_>,
    ) -> Result<Option<Self>, CacheError> {
        let start = Instant::now();
        let mut waiting = false;
        loop {
            if exclusive {
                fs::create_dir_all(entry).map_err(|error| CacheError::io("make", entry, error))?;
            }
            let Some(lock) = Self::open(entry, exclusive)? else {
                if exclusive {
                    // Pruned between the two calls above.
                    continue;
                }
                return Ok(None);
            };
            loop {
                if lock.try_take(exclusive)? {
                    break;
                }
                if !waiting {
                    waiting = true;
                    (wait.on_wait)(&lock.holder());
                }
                if wait.cancel.load(Ordering::Relaxed) {
                    return Err(CacheError::Interrupted {
                        path: entry.to_owned(),
                    });
                }
                if start.elapsed() >= wait.deadline {
                    return Err(CacheError::Busy {
                        path: entry.to_owned(),
                        seconds: start.elapsed().as_secs(),
                        holder: lock.holder(),
                    });
                }
                thread::sleep(POLL);
            }
            if lock.is_current() {
                lock.touch();
                if exclusive {
                    lock.sign();
                }
                return Ok(Some(lock));
            }
        }
    }
}

impl Cache {
    /// Locks an entry for this process alone, making its folder if there is none.
    pub fn lock(&self, part: Part, name: &str, wait: &Wait<'_>) -> Result<EntryLock, CacheError> {
        let entry = self.entry(part, name);
        match EntryLock::wait(&entry, true, wait)? {
            Some(lock) => Ok(lock),
            None => Err(CacheError::Damaged {
                path: entry,
                why: "its lock file vanishes".to_owned(),
            }),
        }
    }

    /// Locks a published entry against removal; `None` if there is no such entry.
    pub fn read(
        &self,
        part: Part,
        name: &str,
        wait: &Wait<'_>,
    ) -> Result<Option<EntryLock>, CacheError> {
        EntryLock::wait(&self.entry(part, name), false, wait)
    }
}
