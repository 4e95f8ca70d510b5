//! Takes a run's result from the cache, and compares what was run anyway with it.

use std::path::{Path, PathBuf};

use camino::Utf8Path;
use numalab_kernels::Digest;
use numalab_protocol::Record;
use tokio_util::sync::CancellationToken;

use crate::cache::build_lock::BuildLock;
use crate::error_chain::sentence;
use crate::guest::lifecycle::{self, Limits};
use crate::guest::outcome::{End, Outcome};
use crate::run::cached_run::{CacheLookup, CachedRun, CachedRuns, FILES, Manifest};
use crate::run::prepare::Prepared;
use crate::run::record_diff::RecordDiff;
use crate::run::request::RunRequest;
use crate::run::result::{CachedResult, DeterminismCheck, Ran, StartedFrom};
use crate::run::runner::Runner;
use crate::ui::Ui;

/// A run's place in the cache: what is there, and the right to fill it.
pub(super) struct Lookup<'r> {
    /// `None` if the result cannot be cached.
    place: Option<(&'r CachedRuns, Digest)>,
    found: CacheLookup,
    _lock: Option<BuildLock>,
}

impl<'r> Lookup<'r> {
    pub(super) fn new(runner: &'r Runner, request: &RunRequest<'_>) -> Lookup<'r> {
        Lookup {
            place: runner.cached_runs().zip(runner.cache_key(request)),
            found: CacheLookup::Nothing,
            _lock: None,
        }
    }

    /// Takes the result from the cache, or waits until no other process makes it.
    pub(super) async fn find(
        &mut self,
        prepared: &Prepared<'_>,
        ui: &Ui,
        cancel: &CancellationToken,
    ) -> Option<Ran> {
        let (cached_runs, key) = self.place?;
        let title = &prepared.title;
        self.found = cached_runs.find(key, ui).await;
        if let Some(ran) = self.take(cached_runs, prepared, ui) {
            return Some(ran);
        }
        let lock = cached_runs.lock(key, &self.found, title, ui, cancel).await;
        if lock.is_some() {
            self._lock = lock;
            // Another process may have made it meanwhile.
            self.found = cached_runs.find(key, ui).await;
            if let Some(ran) = self.take(cached_runs, prepared, ui) {
                return Some(ran);
            }
        }
        if let CacheLookup::Damaged(why) = &self.found {
            ui.warn(&format!(
                "the cached result of {title} is damaged and not used: {why}"
            ));
        }
        None
    }

    /// Takes what was found, if the policy allows it and it is whole.
    fn take(&mut self, cached_runs: &CachedRuns, prepared: &Prepared<'_>, ui: &Ui) -> Option<Ran> {
        let CacheLookup::CachedRun(cached_run) = &self.found else {
            return None;
        };
        if !cached_runs.may_use(cached_run, &prepared.title, ui) {
            return None;
        }
        match read(prepared, cached_run) {
            Ok(ran) => Some(ran),
            Err(Unusable::Damaged(why)) => {
                self.found = CacheLookup::Damaged(why);
                None
            }
            // It stays, to be compared with the run.
            Err(Unusable::Host(why)) => {
                ui.warn(&format!("{} is cached and {why}", prepared.title));
                None
            }
        }
    }

    /// Compares a run with what is cached, and caches it.
    pub(super) async fn check_and_keep(
        self,
        runner: &Runner,
        prepared: &Prepared<'_>,
        ran: Ran,
        ui: &Ui,
    ) -> Ran {
        let Some((cached_runs, key)) = self.place else {
            return ran;
        };
        // Only what is the guest's doing is kept and compared.
        let Some(end) = ran.outcome.as_ref().ok().and_then(GuestEnd::of) else {
            return ran;
        };
        let whole = end == GuestEnd::Whole;
        let folder = prepared.folder.path();
        let inputs = runner.inputs(prepared.request);
        let (started_from, times) = (ran.started_from, ran.times);
        let manifest = Manifest::new(key, inputs, started_from, times, folder.to_owned());
        let determinism = match self.found {
            CacheLookup::Nothing if whole => {
                cached_runs.keep(manifest, false, ui).await;
                None
            }
            CacheLookup::Damaged(_) if whole => {
                cached_runs.remove(key, ui);
                cached_runs.keep(manifest, false, ui).await;
                None
            }
            CacheLookup::Nothing | CacheLookup::Damaged(_) => None,
            CacheLookup::CachedRun(then) => match difference(&then, folder) {
                Ok(None) if whole => {
                    cached_runs.keep(manifest, false, ui).await;
                    let at = then.manifest.at;
                    Some(DeterminismCheck::Identical { at })
                }
                Ok(differs) => {
                    let what = differs.unwrap_or_else(|| "the guest's end differs".to_owned());
                    cached_runs.keep(manifest, true, ui).await;
                    Some(different(&then, folder, what))
                }
                Err(error) => {
                    ui.warn(&format!("a cached result cannot be compared: {error}"));
                    None
                }
            },
            CacheLookup::Disputed(then, other) => {
                let what = format!(
                    "earlier runs of the same inputs gave different records, in {} and {}; \
                     remove both to start over",
                    then.folder().display(),
                    other.display()
                );
                Some(different(&then, folder, what))
            }
        };
        if let Some(DeterminismCheck::Different { then, now, what }) = &determinism {
            ui.warn(&format!(
                "{}: determinism failure: two runs of the same inputs differ: {what}\n  \
                 cached: {then}\n  now:    {now}",
                prepared.title
            ));
        }
        Ran { determinism, ..ran }
    }
}

/// How a guest ended, as far as that is its own doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GuestEnd {
    /// With its last record, every step carried out.
    Whole,
    Short,
}

impl GuestEnd {
    /// `None` if it could be the host's doing: so can a guest that powers off without its
    /// last record, for the host may have failed to write it.
    fn of(outcome: &Outcome) -> Option<GuestEnd> {
        match (&outcome.end, outcome.last()) {
            (End::PowerOff, Some(Record::End { complete: true, .. })) => Some(GuestEnd::Whole),
            (End::PowerOff, Some(_)) | (End::Panic | End::Reset, _) => Some(GuestEnd::Short),
            _ => None,
        }
    }
}

/// Why a cached result is not used.
enum Unusable {
    /// It is not whole; why.
    Damaged(String),
    /// It cannot be copied or read now, which is not its fault.
    Host(String),
}

/// Copies a cached result into a run's folder, and reads it.
fn read(prepared: &Prepared<'_>, cached_run: &CachedRun) -> Result<Ran, Unusable> {
    let manifest = &cached_run.manifest;
    for name in FILES {
        std::fs::copy(cached_run.folder().join(name), prepared.folder.file(name))
            .map_err(|error| Unusable::Host(format!("cannot be copied: {error}")))?;
    }
    let outcome = lifecycle::recall(&prepared.boot, &Limits::STANDARD, End::PowerOff)
        .map_err(|error| Unusable::Host(format!("cannot be read: {}", sentence(&error))))?;
    match GuestEnd::of(&outcome) {
        Some(GuestEnd::Whole) => Ok(Ran {
            cached: Some(CachedResult {
                at: manifest.at,
                started_from: manifest.started_from,
                times: manifest.times,
                folder: manifest.folder.clone(),
                key: manifest.key.to_string(),
            }),
            ..Ran::new(Ok(outcome), StartedFrom::Cache)
        }),
        _ => Err(Unusable::Damaged(format!(
            "it is not whole: {}",
            outcome.end
        ))),
    }
}

/// The first difference between a cached result and a run, if any.
fn difference(then: &CachedRun, now: &Utf8Path) -> Result<Option<String>, String> {
    for name in FILES.iter().rev() {
        let read = |path: PathBuf| {
            std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let (then, now) = (
            read(then.folder().join(name))?,
            read(now.join(name).into())?,
        );
        let diff = RecordDiff::of(&then, &now);
        if let RecordDiff::Differs { .. } = &diff {
            let text = diff.to_string();
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            return Ok(Some(format!("{name}: {}", lines.join("; "))));
        }
    }
    Ok(None)
}

fn different(then: &CachedRun, now: &Utf8Path, what: String) -> DeterminismCheck {
    let utf8 = |path: &Path| path.to_string_lossy().into_owned().into();
    DeterminismCheck::Different {
        then: utf8(then.folder()),
        now: now.to_owned(),
        what,
    }
}
