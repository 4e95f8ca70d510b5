//! Cached runs: in exact mode the records of a run are a function of what its guest can see,
//! so a run that came to its end also answers for every later run of the same inputs.
//!
//! An entry holds records and console, and never a verdict: these are judged whenever they
//! are used, so a changed expectation needs no guest, and a verdict that an earlier version
//! got wrong does not survive. Runs that did not come to their end are not cached, because
//! the host may have ended them.

mod draw;
mod entry;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use numalab_kernels::cache::{CacheError, Part};
use numalab_kernels::{Cache, Digest};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::cache::build_lock::BuildLock;
use crate::environment::Environment;
use crate::error_chain::sentence;
use crate::ui::Ui;

pub use self::draw::{Share, ShareError};
pub(crate) use self::entry::{CacheLookup, CachedRun, FILES, Manifest, SCHEMA};

/// How long to wait for another process that runs the same: longer than most runs take, and
/// less than a test runner allows.
const PATIENCE: Duration = Duration::from_secs(420);

/// Which cached results are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CachePolicy {
    /// All, except for a share that is run again.
    All(Share),
    /// Those of one session, such as a test runner's: older ones are run again, once.
    Session(String),
    /// None: everything is run again.
    Fresh,
}

/// The runs in a cache, as one process uses them.
#[derive(Debug)]
pub struct CachedRuns {
    cache: Cache,
    policy: CachePolicy,
    /// Whether the cache has failed, which is reported once.
    failed: AtomicBool,
}

impl CachePolicy {
    /// What a test uses: the results of its test runner's own run (`NEXTEST_RUN_ID`), so that
    /// no test passes because of what an earlier commit's run left in the cache.
    pub fn of_test(environment: &Environment) -> CachePolicy {
        match environment.test_run.clone() {
            Some(run) => CachePolicy::Session(run),
            None => CachePolicy::Fresh,
        }
    }
}

impl CachedRuns {
    /// The runs in a cache.
    pub fn new(cache: Cache, policy: CachePolicy) -> CachedRuns {
        CachedRuns {
            cache,
            policy,
            failed: AtomicBool::new(false),
        }
    }

    /// Looks a result up and checks all its files.
    pub(crate) async fn find(&self, key: Digest, ui: &Ui) -> CacheLookup {
        let cache = self.cache.clone();
        let found = blocking(move || entry::find(&cache, key)).await;
        found.unwrap_or_else(|error| {
            self.report(&error, ui);
            CacheLookup::Nothing
        })
    }

    /// Whether there is a result that may be used. Its files are not checked.
    pub(crate) fn contains(&self, key: Digest) -> bool {
        let entry = self.cache.entry(Part::CachedRuns, &key.to_string());
        matches!(self.policy, CachePolicy::All(_)) && entry.exists()
    }

    /// Whether the policy allows a result to be used now.
    pub(crate) fn may_use(&self, cached_run: &CachedRun, title: &str, ui: &Ui) -> bool {
        match &self.policy {
            CachePolicy::Fresh => false,
            CachePolicy::Session(session) => cached_run.manifest.session.as_ref() == Some(session),
            CachePolicy::All(share) if share.draws(cached_run.manifest.key) => {
                ui.say(&format!("{title} is cached and run again: {share}"));
                false
            }
            CachePolicy::All(_) => true,
        }
    }

    /// Waits until no other process makes this result. `None` if it is to be made whether or
    /// not others make it, or if the others take too long.
    pub(crate) async fn lock(
        &self,
        key: Digest,
        found: &CacheLookup,
        title: &str,
        ui: &Ui,
        cancel: &CancellationToken,
    ) -> Option<BuildLock> {
        match (&self.policy, found) {
            (CachePolicy::Fresh, _)
            | (CachePolicy::All(_), CacheLookup::CachedRun(_) | CacheLookup::Disputed(..)) => {
                return None;
            }
            _ => {}
        }
        let (cache, name) = (&self.cache, format!("{key}.run"));
        let on_wait = |holder: &str| ui.say(&format!("{title} waits: {holder} runs the same"));
        let lock =
            BuildLock::acquire(cache, Part::CachedRuns, &name, PATIENCE, on_wait, cancel).await;
        match lock {
            Ok(lock) => Some(lock),
            Err(error) => {
                if !cancel.is_cancelled() {
                    let why = sentence(&error);
                    ui.say(&format!("{title} does not wait any longer: {why}"));
                }
                None
            }
        }
    }

    /// Caches a run. One that differs from the cached one is put beside it (`differs`). A
    /// failure is reported once and changes no result.
    pub(crate) async fn keep(&self, mut manifest: Manifest, differs: bool, ui: &Ui) {
        let cache = self.cache.clone();
        if let CachePolicy::Session(session) = &self.policy {
            manifest.session = Some(session.clone());
        }
        let kept = blocking(move || entry::publish(&cache, manifest, differs));
        if let Err(error) = kept.await {
            self.report(&error, ui);
        }
    }

    /// Removes a damaged entry, so that a whole one can take its place.
    pub(crate) fn remove(&self, key: Digest, ui: &Ui) {
        let entry = self.cache.entry(Part::CachedRuns, &key.to_string());
        if let Err(error) = self.cache.remove(&entry) {
            self.report(&error, ui);
        }
    }

    fn report(&self, error: &CacheError, ui: &Ui) {
        if !self.failed.swap(true, Ordering::Relaxed) {
            let why = sentence(error);
            ui.warn(&format!(
                "results cannot be cached, so every scenario is run: {why}"
            ));
        }
    }
}

/// Reads and writes on another thread: one thread follows all guests of a process.
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
