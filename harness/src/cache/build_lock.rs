//! Turns: of those who want to make one entry of the cache, in this process and in others,
//! one makes it and the others wait.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use numalab_kernels::Cache;
use numalab_kernels::cache::{CacheError, EntryLock, Part, Wait};
use tokio_util::sync::CancellationToken;

/// How often it is tried.
const POLL: Duration = Duration::from_millis(50);

/// What is to be made.
#[derive(Debug)]
pub(crate) struct BuildLock<'a> {
    pub(crate) cache: &'a Cache,
    pub(crate) part: Part,
    /// The name of the folder that is locked meanwhile. Whoever has had the turn removes it;
    /// left alone, it would stay in the cache.
    pub(crate) name: &'a str,
    /// How long to wait.
    pub(crate) patience: Duration,
}

impl BuildLock<'_> {
    /// Waits until nobody else has the turn. `on_wait` is told, once, whom this waits for.
    ///
    /// # Errors
    /// The others take too long, waiting was cancelled, or the cache cannot be used.
    pub(crate) async fn take(
        &self,
        on_wait: impl FnOnce(&str),
        cancel: &CancellationToken,
    ) -> Result<EntryLock, CacheError> {
        let start = Instant::now();
        let mut on_wait = Some(on_wait);
        loop {
            // Only tried: the worker may have to drive the guest that is waited for.
            let wait = Wait {
                deadline: Duration::ZERO,
                cancel: &AtomicBool::new(false),
                on_wait: &|_| {},
            };
            match self.cache.lock(self.part, self.name, &wait) {
                Err(CacheError::Busy { holder, .. })
                    if start.elapsed() < self.patience && !cancel.is_cancelled() =>
                {
                    if let Some(on_wait) = on_wait.take() {
                        on_wait(&holder);
                    }
                }
                other => return other,
            }
            tokio::select! {
                () = cancel.cancelled() => {}
                () = tokio::time::sleep(POLL) => {}
            }
        }
    }
}
