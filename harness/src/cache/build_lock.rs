//! Locks for making an entry of the cache: of all that want to make it, in this process and in
//! others, one does and the others wait.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use numalab_kernels::Cache;
use numalab_kernels::cache::{CacheError, EntryLock, Part, Wait};
use tokio_util::sync::CancellationToken;

/// How often the lock is tried.
const POLL: Duration = Duration::from_millis(50);

/// The right to make an entry, until this is dropped.
#[derive(Debug)]
pub(crate) struct BuildLock {
    cache: Cache,
    lock: EntryLock,
}

impl BuildLock {
    /// Waits for the lock with this name, for `patience` at most. Calls `on_wait` once, with
    /// the holder, if it is not free.
    ///
    /// # Errors
    /// The others take too long, waiting was cancelled, or the cache cannot be used.
    pub(crate) async fn acquire(
        cache: &Cache,
        part: Part,
        name: &str,
        patience: Duration,
        on_wait: impl FnOnce(&str),
        cancel: &CancellationToken,
    ) -> Result<BuildLock, CacheError> {
        let start = Instant::now();
        let mut on_wait = Some(on_wait);
        loop {
            // Only tried: this thread may have to follow the guest that is waited for.
            let wait = Wait {
                deadline: Duration::ZERO,
                cancel: &AtomicBool::new(false),
                on_wait: &|_| {},
            };
            match cache.lock(part, name, &wait) {
                Err(CacheError::Busy { holder, .. })
                    if start.elapsed() < patience && !cancel.is_cancelled() =>
                {
                    if let Some(on_wait) = on_wait.take() {
                        on_wait(&holder);
                    }
                }
                Err(error) => return Err(error),
                Ok(lock) => {
                    let cache = cache.clone();
                    return Ok(BuildLock { cache, lock });
                }
            }
            tokio::select! {
                () = cancel.cancelled() => {}
                () = tokio::time::sleep(POLL) => {}
            }
        }
    }
}

impl Drop for BuildLock {
    fn drop(&mut self) {
        // Left alone, its folder would stay in the cache. If it cannot be removed, the next
        // process locks it again.
        let _ = self.cache.remove(self.lock.entry());
    }
}
