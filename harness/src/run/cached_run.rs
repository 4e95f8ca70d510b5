//! cached runs: in exact mode the records of a run are a function of what its guest can
//! see, so a run that came to its end is kept, and stands for every later one of that kind.
//!
//! What is kept are the records and the console, and never a verdict: they are judged anew
//! by whoever takes them, so an edited expectation needs no guest, and no mistake of an
//! earlier judge lives on. Runs that did not come to their end are not kept, for it could be
//! the host that ended them. How guests are run is not known here.

mod draw;
mod entry;
mod key;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use numalab_kernels::cache::{CacheError, EntryLock, Part};
use numalab_kernels::{Cache, Digest};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::cache::build_lock::BuildLock;
use crate::error_chain::sentence;
use crate::ui::Ui;

pub use self::draw::{Share, ShareError};
pub(crate) use self::entry::{CacheLookup, CachedRun, FILES, Manifest};
pub(crate) use self::key::RunIdentity;

/// How long to wait for another process that proves the same: longer than most runs take,
/// and less than a test runner allows.
const PATIENCE: Duration = Duration::from_secs(420);

/// Which cached results are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CachePolicy {
    /// All, but for a share that is proved again.
    All(Share),
    /// Those of one session, such as a test runner's: what was proved before it is proved
    /// again, once.
    Session(String),
    /// None: everything is proved again.
    Fresh,
}

/// The runs in a cache, as one process uses them.
#[derive(Debug)]
pub struct CachedRuns {
    cache: Cache,
    memory: CachePolicy,
    /// Whether keeping results has failed, and this was said.
    full: AtomicBool,
}

impl CachePolicy {
    /// What a test takes: the results of its test runner's own run (`NEXTEST_RUN_ID`), so
    /// that no test passes by what an earlier commit's run left behind.
    pub fn of_test() -> CachePolicy {
        match std::env::var("NEXTEST_RUN_ID") {
            Ok(run) if !run.is_empty() => CachePolicy::Session(run),
            _ => CachePolicy::Fresh,
        }
    }
}

impl CachedRuns {
    /// The runs in a cache.
    pub fn new(cache: Cache, memory: CachePolicy) -> CachedRuns {
        CachedRuns {
            cache,
            memory,
            full: AtomicBool::new(false),
        }
    }

    /// Looks a result up, and through all its files. It is for the caller to tell that one is
    /// damaged.
    pub(crate) async fn find(&self, key: Digest, ui: &Ui) -> CacheLookup {
        let cache = self.cache.clone();
        let found = blocking(move || entry::find(&cache, key)).await;
        match found {
            Ok(found) => found,
            Err(error) => {
                self.give_up(&error, ui);
                CacheLookup::Nothing
            }
        }
    }

    /// Whether there is a result that may be taken, as far as its name tells.
    pub(crate) fn contains(&self, key: Digest) -> bool {
        let entry = self.cache.entry(Part::CachedRuns, &key.to_string());
        matches!(self.memory, CachePolicy::All(_)) && entry.exists()
    }

    /// Whether a result may runner for the run that is wanted now.
    pub(crate) fn takes(&self, cached_run: &CachedRun, title: &str, ui: &Ui) -> bool {
        match &self.memory {
            CachePolicy::Fresh => false,
            CachePolicy::Session(session) => cached_run.session() == Some(session),
            CachePolicy::All(share) if share.draws(cached_run.key()) => {
                ui.say(&format!("{title} is cached and run again: {share}"));
                false
            }
            CachePolicy::All(_) => true,
        }
    }

    /// Waits until nobody else proves this. `None` if everybody is to prove it by himself,
    /// or if the others take too long.
    ///
    /// # Errors
    /// A signal came.
    pub(crate) async fn turn(
        &self,
        key: Digest,
        found: &CacheLookup,
        title: &str,
        ui: &Ui,
        cancel: &CancellationToken,
    ) -> Option<EntryLock> {
        match (&self.memory, found) {
            (CachePolicy::Fresh, _)
            | (CachePolicy::All(_), CacheLookup::CachedRun(_) | CacheLookup::Disputed(..)) => {
                return None;
            }
            _ => {}
        }
        let turn = BuildLock {
            cache: &self.cache,
            part: Part::CachedRuns,
            name: &format!("{key}.run"),
            patience: PATIENCE,
        };
        let waited_for = |holder: &str| ui.say(&format!("{title} waits: {holder} runs the same"));
        match turn.take(waited_for, cancel).await {
            Ok(turn) => Some(turn),
            Err(error) => {
                if !cancel.is_cancelled() {
                    let why = sentence(&error);
                    ui.say(&format!("{title} does not wait any longer: {why}"));
                }
                None
            }
        }
    }

    /// Gives the turn back.
    pub(crate) fn done(&self, turn: Option<EntryLock>) {
        if let Some(turn) = turn {
            // What cannot be removed is found, and locked, by the next one.
            let _ = self.cache.remove(turn.entry());
        }
    }

    /// Keeps a run that came to its end. One that differs from what is cached is kept
    /// beside it (`differs`). That it cannot be kept is said once, and changes no result.
    pub(crate) async fn keep(&self, manifest: Manifest, differs: bool, ui: &Ui) {
        let (cache, memory) = (self.cache.clone(), self.memory.clone());
        let session = match memory {
            CachePolicy::Session(session) => Some(session),
            CachePolicy::All(_) | CachePolicy::Fresh => None,
        };
        let kept = blocking(move || entry::publish(&cache, manifest, session, differs));
        if let Err(error) = kept.await {
            self.give_up(&error, ui);
        }
    }

    /// Removes a damaged entry, so that a whole one can take its place.
    pub(crate) fn remove(&self, key: Digest, ui: &Ui) {
        let entry = self.cache.entry(Part::CachedRuns, &key.to_string());
        if let Err(error) = self.cache.remove(&entry) {
            self.give_up(&error, ui);
        }
    }

    fn give_up(&self, error: &CacheError, ui: &Ui) {
        if !self.full.swap(true, Ordering::Relaxed) {
            let why = sentence(error);
            ui.warn(&format!(
                "results cannot be cached, so every scenario is run: {why}"
            ));
        }
    }
}

/// Reads and writes where no guest waits for it: all guests of a process are watched by one
/// thread.
async fn blocking<T, W>(work: W) -> Result<T, CacheError>
where
    T: Send + 'static,
    W: FnOnce() -> Result<T, CacheError> + Send + 'static,
{
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(CacheError::io(
            "work on",
            Path::new("a cached result"),
            io::Error::other(error),
        )),
    }
}
