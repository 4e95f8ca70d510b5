//! SlotQueue: locked files, one for each guest that runs or waits.
//!
//! Whether its owner lives is told by the lock alone, and never by what is written in it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Whoever sits down holds this file's lock meanwhile.
const QUEUE_LOCK: &str = "queue_lock";

/// The folder of the tickets.
#[derive(Debug)]
pub(super) struct SlotQueue {
    folder: PathBuf,
    queue_lock: File,
}

/// Our ticket. Its file goes when this is dropped.
#[derive(Debug)]
pub(super) struct QueueEntry {
    path: PathBuf,
    /// The time at which it was drawn, then what makes it the only one.
    name: String,
    file: File,
    memory_mib: u64,
    alone: bool,
}

/// Somebody else's ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Other {
    name: String,
    pub(super) seated: bool,
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

    /// Queues up.
    pub(super) fn queue(&self, memory_mib: u64, alone: bool) -> io::Result<QueueEntry> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let nanos = now.unwrap_or_default().as_nanos();
        let name = format!("{nanos:024}-{}-{count}", std::process::id());
        let path = self.folder.join(&name);
        // Locked before it has its name: a ticket that nobody has locked is a dead one's.
        let temporary = self.folder.join(format!("new-{name}"));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&temporary)?;
        let ticket = QueueEntry {
            path,
            name,
            file,
            memory_mib,
            alone,
        };
        let ready = ticket
            .file
            .try_lock()
            .map_err(io::Error::from)
            .and_then(|()| ticket.write("waits", None))
            .and_then(|()| fs::rename(&temporary, &ticket.path));
        if ready.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        ready.map(|()| ticket)
    }

    /// Closes the queue_lock behind us until the result is dropped; `None` if another is in it.
    pub(super) fn queue_lock(&self) -> io::Result<Option<Door<'_>>> {
        match self.queue_lock.try_lock() {
            Ok(()) => Ok(Some(Door(&self.queue_lock))),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    /// The tickets of the living, but for ours. Those of the dead are removed. Only behind
    /// the queue_lock.
    pub(super) fn others(&self, ours: &QueueEntry) -> Vec<Other> {
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

    fn other(&self, name: String) -> Option<Other> {
        let path = self.folder.join(&name);
        let file = File::open(&path).ok()?;
        match file.try_lock_shared() {
            // Nobody has it.
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
                Some(Other {
                    seated: words.next() == Some("sits"),
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

/// The closed queue_lock.
#[derive(Debug)]
pub(super) struct Door<'a>(&'a File);

impl Drop for Door<'_> {
    fn drop(&mut self) {
        // Fails only for a file that cannot be locked at all.
        let _ = self.0.unlock();
    }
}

impl QueueEntry {
    /// Sits down.
    pub(super) fn sit(&mut self) {
        // Unwritten, it stays one that waits, behind which others wait: no harm but time.
        let _ = self.write("sits", None);
    }

    /// Says which process the guest is.
    pub(super) fn is_process(&self, pid: u32) {
        let _ = self.write("sits", Some(pid));
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
        // One that is left is found to be a dead one's.
        let _ = fs::remove_file(&self.path);
    }
}

impl Other {
    /// Whether it waits and has come before us.
    pub(super) fn is_before(&self, ours: &QueueEntry) -> bool {
        !self.seated && self.name < ours.name
    }

    /// Memory that it was promised and does not use yet, in MiB.
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
