//! Slots: how many guests run on this host at a time, over all processes of this user's
//! cache, and how much memory they have been promised.
//!
//! An exact guest is one busy thread and takes one core; a live guest takes them all. Whoever
//! wants a slot queues up; the one who came first is served first, so that several commands
//! share the host fairly and nobody starves. A slot is a locked file in the cache's folder
//! `slots`: it ends with its process, however that ends.

mod queue;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use numalab_kernels::Cache;
use tokio_util::sync::CancellationToken;

use self::queue::{QueueEntry, SlotQueue};
use crate::guest::host::{MemoryError, OVERHEAD_MIB, PATIENCE, check_memory_beside};

/// How long to wait for a core. Whoever has waited so long runs all the same: that is slow,
/// and harms nothing. For memory, [`PATIENCE`] holds.
const CORE_PATIENCE: Duration = Duration::from_secs(240);

/// How often the queue is looked at.
const POLL: Duration = Duration::from_millis(20);

/// The slots of a host.
#[derive(Debug, Clone)]
pub struct Slots {
    folder: PathBuf,
    cores: usize,
}

/// What a guest takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Its memory, in MiB, without QEMU's own.
    pub memory_mib: u64,
    /// Whether it needs the host for itself: a live guest, whose threads are many and whose
    /// measure is time.
    pub alone: bool,
}

/// A guest's place on the host. It is free again when this is dropped, or the process ends.
#[derive(Debug)]
pub struct Slot {
    /// `None` where the cache cannot be written to: then nobody is counted.
    ticket: Option<QueueEntry>,
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiting {
    /// A core: so many guests run, or are before us.
    Core(usize),
    /// Memory.
    Memory(MemoryError),
}

impl Slots {
    /// The slots of this host: as many as this process may use cores, by its affinity and
    /// by its control groups' quotas, and at least `jobs`.
    pub fn new(cache: &Cache, jobs: Option<usize>) -> Slots {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Slots {
            folder: cache.root().join("slots"),
            cores: cores.max(jobs.unwrap_or(0)),
        }
    }

    /// How many guests can run at a time.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// Waits for a place. Tells `on_wait` once what it waits for, if it is not free at once.
    /// `None` if it was cancelled.
    ///
    /// # Errors
    /// The host has not the memory, or not within [`PATIENCE`].
    pub async fn take(
        &self,
        need: Need,
        on_wait: impl FnOnce(&Waiting),
        cancel: &CancellationToken,
    ) -> Result<Option<Slot>, MemoryError> {
        let (start, mut on_wait) = (Instant::now(), Some(on_wait));
        // Without a queue everybody runs at once, and the memory is looked at later.
        let Ok(tickets) = SlotQueue::open(&self.folder) else {
            return Ok(Some(Slot { ticket: None }));
        };
        let promised = need.memory_mib.saturating_add(OVERHEAD_MIB);
        let Ok(mut ticket) = tickets.queue(promised, need.alone) else {
            return Ok(Some(Slot { ticket: None }));
        };
        loop {
            // What cannot be told is looked at again.
            if let Some(waiting) = self.look(&tickets, &mut ticket, need) {
                let waited = start.elapsed();
                match &waiting {
                    Waiting::Core(_) if waited >= CORE_PATIENCE => {
                        ticket.sit();
                        return Ok(Some(Slot {
                            ticket: Some(ticket),
                        }));
                    }
                    Waiting::Memory(error) => check(error, waited)?,
                    Waiting::Core(_) => {}
                }
                // Moments are not worth a word.
                if waited > 5 * POLL
                    && let Some(on_wait) = on_wait.take()
                {
                    on_wait(&waiting);
                }
            } else {
                return Ok(Some(Slot {
                    ticket: Some(ticket),
                }));
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Ok(None),
                () = tokio::time::sleep(POLL) => {}
            }
        }
    }

    /// Sits down if it is our turn and there is room; else what is missing.
    fn look(&self, tickets: &SlotQueue, ticket: &mut QueueEntry, need: Need) -> Option<Waiting> {
        let Ok(Some(_door)) = tickets.queue_lock() else {
            return Some(Waiting::Core(0));
        };
        let others = tickets.others(ticket);
        let before_us = others
            .iter()
            .filter(|other| other.is_before(ticket))
            .count();
        let seated: Vec<_> = others.iter().filter(|other| other.seated).collect();
        let full = if need.alone {
            !seated.is_empty()
        } else {
            seated.len() >= self.cores || seated.iter().any(|other| other.alone)
        };
        if full || before_us > 0 {
            return Some(Waiting::Core(seated.len() + before_us));
        }
        let promised = seated.iter().map(|other| other.unused_mib()).sum();
        match check_memory_beside(need.memory_mib, promised) {
            Ok(()) => {
                ticket.sit();
                None
            }
            Err(error) => Some(Waiting::Memory(error)),
        }
    }
}

/// Whether memory is still waited for.
fn check(error: &MemoryError, waited: Duration) -> Result<(), MemoryError> {
    match error {
        MemoryError::Now {
            needed_mib,
            available_mib,
            limit,
        } if waited >= PATIENCE => Err(MemoryError::Waited {
            waited,
            needed_mib: *needed_mib,
            available_mib: *available_mib,
            limit: limit.clone(),
        }),
        MemoryError::Now { .. } => Ok(()),
        error => Err(error.clone()),
    }
}

impl Slot {
    /// Tells which process the guest is, so that its use of memory can be seen.
    pub fn is_process(&self, pid: u32) {
        if let Some(ticket) = &self.ticket {
            ticket.is_process(pid);
        }
    }
}

impl std::fmt::Display for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Waiting::Core(guests) => write!(f, "{guests} other guests run or are before it"),
            Waiting::Memory(error) => write!(f, "{error}"),
        }
    }
}

#[cfg(test)]
mod tests;
