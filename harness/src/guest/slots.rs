//! Slots: how many guests run on this host at a time, over all processes that use this cache,
//! and how much memory is reserved for them.
//!
//! An exact guest is one busy thread and takes one core; a live guest takes them all. Guests
//! queue for slots, first come, first served, so that several commands share the host fairly.
//! A slot is a locked file in the cache's folder `slots`: it is free when its process ends,
//! however that ends.

mod queue;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use numalab_kernels::Cache;
use tokio_util::sync::CancellationToken;

use self::queue::{QueueEntry, SlotQueue};
use crate::guest::host::{self, MemoryError, OVERHEAD_MIB};

/// How long to wait for a core. After that the guest runs all the same: that is slow, and
/// harms nothing.
const CORE_PATIENCE: Duration = Duration::from_secs(240);

/// How long to wait for memory.
const MEMORY_PATIENCE: Duration = Duration::from_secs(600);

/// How often the queue is looked at.
const POLL: Duration = Duration::from_millis(20);

/// The slots of a host.
#[derive(Debug, Clone)]
pub struct Slots {
    folder: PathBuf,
    cores: usize,
    /// Where `/proc` and `/sys` are.
    root: PathBuf,
    memory_patience: Duration,
}

/// What a guest needs of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Its memory, in MiB, without QEMU's own.
    pub memory_mib: u64,
    /// Whether no other guest may run: a live guest has many threads and measures time.
    pub alone: bool,
}

/// A guest's place on the host. It is free again when this is dropped, or the process ends.
#[derive(Debug)]
pub struct Slot {
    /// `None` where the cache cannot be written to: then guests are not counted.
    entry: Option<QueueEntry>,
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiting {
    /// A core: how many guests run or wait before this one.
    Core(usize),
    /// Memory.
    Memory(MemoryError),
}

/// Why there is no slot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SlotError {
    /// Waiting was cancelled.
    #[error("waiting for a slot was interrupted")]
    Cancelled,
    /// The host lacks the memory, or did for too long.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

impl Slots {
    /// The slots of this host: as many as this process may use cores, by its affinity and by
    /// the quotas of its control groups, and at least `jobs`.
    pub fn new(cache: &Cache, jobs: Option<usize>) -> Slots {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Slots {
            folder: cache.root().join("slots"),
            cores: cores.max(jobs.unwrap_or(0)),
            root: "/".into(),
            memory_patience: MEMORY_PATIENCE,
        }
    }

    /// How many guests can run at a time.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// Waits for a slot. Calls `on_wait` once, with what it waits for, if none is free at
    /// once.
    ///
    /// # Errors
    /// Waiting was cancelled, or the host lacks the memory.
    pub async fn acquire(
        &self,
        need: Need,
        on_wait: impl FnOnce(&Waiting),
        cancel: &CancellationToken,
    ) -> Result<Slot, SlotError> {
        let (start, mut on_wait) = (Instant::now(), Some(on_wait));
        let reserved = need.memory_mib.saturating_add(OVERHEAD_MIB);
        let queue = SlotQueue::open(&self.folder);
        let queued = queue.and_then(|queue| {
            let entry = queue.join(reserved, need.alone)?;
            Ok((queue, entry))
        });
        let mut queued = queued.ok();
        loop {
            let waiting = match &mut queued {
                Some((queue, entry)) => self.try_acquire(queue, entry, need),
                // Without a queue only memory counts.
                None => self.lacks_memory(need, 0),
            };
            let mut entry = || queued.take().map(|(_, entry)| entry);
            let waited = start.elapsed();
            let waiting = match waiting {
                None => return Ok(Slot { entry: entry() }),
                Some(Waiting::Core(_)) if waited >= CORE_PATIENCE => {
                    let mut slot = Slot { entry: entry() };
                    slot.entry.iter_mut().for_each(QueueEntry::acquire);
                    return Ok(slot);
                }
                Some(Waiting::Memory(error)) if waited >= self.memory_patience => {
                    return Err(error.after(waited).into());
                }
                Some(Waiting::Memory(error @ MemoryError::Never { .. })) => {
                    return Err(error.into());
                }
                Some(waiting) => waiting,
            };
            // A wait of moments is not worth a line.
            if waited > 5 * POLL
                && let Some(on_wait) = on_wait.take()
            {
                on_wait(&waiting);
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(SlotError::Cancelled),
                () = tokio::time::sleep(POLL) => {}
            }
        }
    }

    /// Takes a slot if one is free and nobody waits before this entry; else what is missing.
    fn try_acquire(
        &self,
        queue: &SlotQueue,
        entry: &mut QueueEntry,
        need: Need,
    ) -> Option<Waiting> {
        // Where the lock cannot be taken now, the next look tries again.
        let Ok(Some(_queue_lock)) = queue.lock() else {
            return Some(Waiting::Core(0));
        };
        let others = queue.others(entry);
        let before = others.iter().filter(|other| other.is_before(entry)).count();
        let running: Vec<_> = others.iter().filter(|other| other.running).collect();
        let full = if need.alone {
            !running.is_empty()
        } else {
            running.len() >= self.cores || running.iter().any(|other| other.alone)
        };
        if full || before > 0 {
            return Some(Waiting::Core(running.len() + before));
        }
        let reserved = running.iter().map(|other| other.unused_mib()).sum();
        let lacks_memory = self.lacks_memory(need, reserved);
        if lacks_memory.is_none() {
            entry.acquire();
        }
        lacks_memory
    }

    fn lacks_memory(&self, need: Need, reserved_mib: u64) -> Option<Waiting> {
        let checked = host::check_memory_at(&self.root, need.memory_mib, reserved_mib);
        checked.err().map(Waiting::Memory)
    }
}

impl Slot {
    /// Records which process the guest is, so that its use of memory can be seen.
    pub fn set_process(&self, pid: u32) {
        if let Some(entry) = &self.entry {
            entry.set_process(pid);
        }
    }
}

impl std::fmt::Display for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Waiting::Core(guests) => write!(f, "{guests} other guests run or wait before it"),
            Waiting::Memory(error) => write!(f, "{error}"),
        }
    }
}

#[cfg(test)]
mod tests;
