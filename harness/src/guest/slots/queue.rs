//! The queue: locked files, one for each guest that runs or waits.
//!
//! A file whose lock is free belongs to a process that is gone, whatever is written in it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Whoever takes a slot holds this file's lock meanwhile.
const QUEUE_LOCK: &str = "queue_lock";

/// The folder of the entries.
#[derive(Debug)]
pub(super) struct SlotQueue {
    folder: PathBuf,
    queue_lock: File,
}

/// Our entry. Its file is removed when this is dropped.
#[derive(Debug)]
pub(super) struct QueueEntry {
    path: PathBuf,
    /// The time at which it was made, then what makes it unique.
    name: String,
    file: File,
    memory_mib: u64,
    alone: bool,
}

/// Another guest's entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OtherEntry {
    name: String,
    pub(super) running: bool,
    pub(super) alone: bool,
    memory_mib: u64,
    pid: Option<u32>,
}

impl SlotQueue {
    pub(super) fn open(folder: &Path) -> io::Result<SlotQueue> {
        fs::create_dir_all(folder)?;
        let queue_lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(folder.join(QUEUE_LOCK))?;
        Ok(SlotQueue {
            folder: folder.to_owned(),
            queue_lock,
        })
    }

    /// Adds an entry that waits.
    pub(super) fn join(&self, memory_mib: u64, alone: bool) -> io::Result<QueueEntry> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let nanos = now.unwrap_or_default().as_nanos();
        let name = format!("{nanos:024}-{}-{count}", std::process::id());
        let path = self.folder.join(&name);
        // Locked before it has its name: an entry that nobody has locked is removed.
        let temporary = self.folder.join(format!("new-{name}"));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&temporary)?;
        let entry = QueueEntry {
            path,
            name,
            file,
            memory_mib,
            alone,
        };
        let ready = entry
            .file
            .try_lock()
            .map_err(io::Error::from)
            .and_then(|()| entry.write("waits", None))
            .and_then(|()| fs::rename(&temporary, &entry.path));
        if ready.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        ready.map(|()| entry)
    }

    /// Locks the queue until the result is dropped; `None` if another process has the lock.
    pub(super) fn lock(&self) -> io::Result<Option<QueueLock<'_>>> {
        match self.queue_lock.try_lock() {
            Ok(()) => Ok(Some(QueueLock(&self.queue_lock))),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    /// The entries of other guests. Those whose process is gone are removed. Only for who
    /// holds the lock.
    pub(super) fn others(&self, ours: &QueueEntry) -> Vec<OtherEntry> {
        let Ok(list) = fs::read_dir(&self.folder) else {
            return Vec::new();
        };
        let names = list
            .flatten()
            .filter_map(|item| item.file_name().into_string().ok());
        names
            .filter(|name| *name != ours.name && name != QUEUE_LOCK)
            .filter_map(|name| self.other(name))
            .collect()
    }

    fn other(&self, name: String) -> Option<OtherEntry> {
        let path = self.folder.join(&name);
        let file = File::open(&path).ok()?;
        match file.try_lock_shared() {
            // Its process is gone.
            Ok(()) => {
                let half_made = name.starts_with("new-");
                if !half_made || is_old(&file) {
                    let _ = fs::remove_file(path);
                }
                None
            }
            Err(_) if name.starts_with("new-") => None,
            Err(_) => {
                let text = fs::read_to_string(&path).unwrap_or_default();
                let mut words = text.split_whitespace();
                Some(OtherEntry {
                    running: words.next() == Some("runs"),
                    memory_mib: words.next().and_then(|word| word.parse().ok()).unwrap_or(0),
                    alone: words.next() == Some("alone"),
                    pid: words.next().and_then(|word| word.parse().ok()),
                    name,
                })
            }
        }
    }
}

/// A file without a lock that was not just made.
fn is_old(file: &File) -> bool {
    file.metadata()
        .and_then(|data| data.modified())
        .is_ok_and(|made| made.elapsed().is_ok_and(|age| age.as_secs() > 60))
}

/// The locked queue.
#[derive(Debug)]
pub(super) struct QueueLock<'a>(&'a File);

impl Drop for QueueLock<'_> {
    fn drop(&mut self) {
        // Fails only for a file that cannot be locked at all.
        let _ = self.0.unlock();
    }
}

impl QueueEntry {
    /// Marks it as one that runs.
    pub(super) fn acquire(&mut self) {
        // If that cannot be written, others wait behind it: that costs only time.
        let _ = self.write("runs", None);
    }

    /// Records which process the guest is.
    pub(super) fn set_process(&self, pid: u32) {
        let _ = self.write("runs", Some(pid));
    }

    fn write(&self, state: &str, pid: Option<u32>) -> io::Result<()> {
        let alone = if self.alone { "alone" } else { "beside" };
        let pid = pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        let line = format!("{state} {} {alone} {pid}\n", self.memory_mib);
        // One write of a fixed length: nobody reads half a line.
        self.file.write_all_at(format!("{line:64}").as_bytes(), 0)
    }
}

impl Drop for QueueEntry {
    fn drop(&mut self) {
        // If it cannot be removed, the next process finds it unlocked.
        let _ = fs::remove_file(&self.path);
    }
}

impl OtherEntry {
    /// Whether it waits and came before ours.
    pub(super) fn is_before(&self, ours: &QueueEntry) -> bool {
        !self.running && self.name < ours.name
    }

    /// Memory that is reserved for it and that it does not use yet, in MiB.
    pub(super) fn unused_mib(&self) -> u64 {
        let used = self.pid.and_then(resident_mib).unwrap_or(0);
        self.memory_mib.saturating_sub(used)
    }
}

/// A process' resident memory.
fn resident_mib(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    let page = rustix::param::page_size() as u64;
    Some(pages.saturating_mul(page) / (1024 * 1024))
}
