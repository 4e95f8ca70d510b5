//! A run's result from memory, or a guest's, and what each says of the other.

use std::path::PathBuf;

use camino::Utf8PathBuf;
use numalab_kernels::Digest;
use numalab_protocol::pages;
use tokio_util::sync::CancellationToken;

use super::{Ran, RunRequest, Runner};
use crate::error::Error;
use crate::error_chain::sentence;
use crate::guest::argv::Boot;
use crate::guest::durations::{Basis, Expected};
use crate::guest::estimate;
use crate::guest::lifecycle::{self, Limits};
use crate::guest::mode::Platform;
use crate::guest::outcome::{End, Outcome};
use crate::run::cached_run::{CacheLookup, CachedRun, CachedRuns, FILES, Manifest, RunIdentity};
use crate::run::folder::RunFolder;
use crate::run::record_diff::RecordDiff;
use crate::run::result::{CachedResult, DeterminismCheck, StartedFrom, Times};
use crate::ui::Ui;

/// A run that is about to begin.
pub(super) struct Prepared<'a> {
    pub(super) request: &'a RunRequest<'a>,
    pub(super) title: &'a str,
    pub(super) folder: &'a RunFolder,
    pub(super) boot: Boot,
    /// The plan's pages.
    pub(super) pages: Vec<Vec<u8>>,
}

impl Runner {
    /// Takes the result from memory, or else runs the guest and keeps what came of it.
    ///
    /// # Errors
    /// A signal came.
    pub(super) async fn prove(
        &self,
        mut prepared: Prepared<'_>,
        ui: &Ui,
        cancel: &CancellationToken,
    ) -> Result<Ran, Error> {
        // A firmware that is not known cannot be part of a name.
        let cached_runs = self.builder.cached_runs.as_ref();
        let Some(cached_runs) = cached_runs.filter(|_| self.builder.firmware.is_some()) else {
            return self.guest(&mut prepared, ui, cancel).await;
        };
        let platform = prepared.boot.platform;
        let subject = self.subject(prepared.request, platform, &prepared.pages);
        let (key, title) = (subject.key(), prepared.title);
        let mut found = cached_runs.find(key, ui).await;
        let mut turn = None;
        if let Some(ran) = cached(&prepared, cached_runs, &mut found, ui) {
            return Ok(ran);
        }
        if let Some(taken) = cached_runs.turn(key, &found, title, ui, cancel).await {
            turn = Some(taken);
            // Another process may have proved it meanwhile.
            found = cached_runs.find(key, ui).await;
            if let Some(ran) = cached(&prepared, cached_runs, &mut found, ui) {
                cached_runs.done(turn);
                return Ok(ran);
            }
        }
        if let CacheLookup::Damaged(why) = &found {
            ui.warn(&format!(
                "the cached result of {title} is damaged and not used: {why}"
            ));
        }
        let ran = self.guest(&mut prepared, ui, cancel).await;
        let ran = match ran {
            Ok(ran) => Ok(self
                .settle(cached_runs, key, &prepared, found, ran, ui)
                .await),
            Err(error) => Err(error),
        };
        cached_runs.done(turn);
        ran
    }

    /// The name of a run's result, where it may be cached.
    pub(crate) fn cache_key(&self, request: &RunRequest<'_>) -> Option<Digest> {
        self.builder.cached_runs.as_ref()?;
        self.builder.firmware.as_ref()?;
        // What is wrong with a platform or a plan is told when it is run.
        let platform = self.platform(request).ok()?;
        let pages = pages::encode(&request.plan()).ok()?;
        Some(self.subject(request, platform, &pages).key())
    }

    /// Whether a run's result is cached, by its name alone.
    pub fn is_cached(&self, request: &RunRequest<'_>) -> bool {
        let cached_runs = self.builder.cached_runs.as_ref();
        let key = self.cache_key(request);
        cached_runs
            .zip(key)
            .is_some_and(|(cached_runs, key)| cached_runs.contains(key))
    }

    /// A name for the guest that a run is restored from, if it is.
    pub(crate) fn boot_of(&self, request: &RunRequest<'_>) -> Option<Digest> {
        self.builder.snapshots.as_ref()?;
        if !request.kernel.can_be_saved() {
            return None;
        }
        let platform = self.platform(request).ok()?;
        // Booted without a plan.
        Some(self.subject(request, platform, &[]).key())
    }

    fn subject<'a>(
        &'a self,
        request: &'a RunRequest<'_>,
        platform: Platform,
        pages: &'a [Vec<u8>],
    ) -> RunIdentity<'a> {
        RunIdentity {
            machine: &request.machine,
            platform,
            pages,
            qemu: self.builder.qemu.text(),
            firmware: self.builder.firmware.as_deref().unwrap_or_default(),
            kernel: &request.kernel.digest,
            image: self.image(request.kernel).1,
            plan_in: request.kernel.plan_in,
        }
    }

    /// How long a run is expected to take.
    pub fn expected(&self, request: &RunRequest<'_>) -> Expected {
        let (plan, kernel) = (request.plan(), &request.kernel.digest);
        let known = self.shape(request);
        let known = known.and_then(|shape| self.builder.durations.expected(shape, kernel));
        known.unwrap_or_else(|| Expected {
            cpu: estimate::guess(&plan),
            basis: Basis::Guessed,
        })
    }

    /// Records how long a run took that came to its end.
    pub(super) fn note_duration(&self, request: &RunRequest<'_>, ran: &Ran) {
        let whole = ran.outcome.as_ref().is_ok_and(Outcome::is_whole);
        if let Some(shape) = self.shape(request).filter(|_| whole) {
            let (scenario, kernel) = (&request.scenario.name, &request.kernel.digest);
            let (cpu, cold) = (ran.times.qemu_cpu_ms, ran.started_from == StartedFrom::Cold);
            let durations = &self.builder.durations;
            durations.note(shape, scenario, kernel, cpu, cold);
        }
    }

    /// What a run is, whatever its kernel and seed.
    fn shape(&self, request: &RunRequest<'_>) -> Option<Digest> {
        let plan = request.scenario.plan(&request.machine, 0);
        let pages = pages::encode(&plan).ok()?;
        let platform = self.platform(request).ok()?;
        Some(self.subject(request, platform, &pages).shape())
    }

    /// Holds a run against what is cached, and keeps it.
    async fn settle(
        &self,
        cached_runs: &CachedRuns,
        key: Digest,
        prepared: &Prepared<'_>,
        found: CacheLookup,
        ran: Ran,
        ui: &Ui,
    ) -> Ran {
        // Only what is the guest's doing is kept and compared.
        let Some(end) = ran.outcome.as_ref().ok().and_then(Ended::of) else {
            return ran;
        };
        let folder = prepared.folder.path();
        let inputs = self.inputs(prepared.request);
        let manifest = Manifest::new(key, inputs, ran.started_from, ran.times, folder);
        let whole = end == Ended::Whole;
        let determinism = match found {
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
                    Some(DeterminismCheck::Identical {
                        at: then.at().to_string(),
                    })
                }
                Ok(differs) => {
                    let what = differs.unwrap_or_else(|| "the guest's end differs".to_owned());
                    cached_runs.keep(manifest, true, ui).await;
                    Some(different(&then, folder.to_owned(), what))
                }
                Err(error) => {
                    ui.warn(&format!("a cached result cannot be compared: {error}"));
                    None
                }
            },
            CacheLookup::Disputed(then, other) => {
                let what = disputed(&then, &other);
                Some(different(&then, folder.to_owned(), what))
            }
        };
        if let Some(DeterminismCheck::Different { then, now, what }) = &determinism {
            let title = prepared.title;
            ui.warn(&format!(
                "{title}: determinism failure: two runs of the same inputs differ: {what}\n  \
                 cached: {then}\n  now:    {now}"
            ));
        }
        Ran { determinism, ..ran }
    }
}

/// How a guest ended, as far as that is its own doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// With its last record, every step carried out.
    Whole,
    /// Otherwise.
    Short,
}

impl Ended {
    fn of(outcome: &Outcome) -> Option<Ended> {
        use numalab_protocol::Record;
        match (&outcome.end, outcome.last()) {
            (End::PowerOff, Some(Record::End { complete: true, .. })) => Some(Ended::Whole),
            (End::PowerOff | End::Panic | End::Reset, _) => Some(Ended::Short),
            // It could be the host's doing.
            _ => None,
        }
    }
}

/// A cached result, if there is one to be taken. One that is not whole becomes a damaged
/// one; one that cannot be taken for the host's sake stays, to be held against the run.
fn cached(
    prepared: &Prepared<'_>,
    cached_runs: &CachedRuns,
    found: &mut CacheLookup,
    ui: &Ui,
) -> Option<Ran> {
    let CacheLookup::CachedRun(cached_run) = found else {
        return None;
    };
    if !cached_runs.takes(cached_run, prepared.title, ui) {
        return None;
    }
    match recall(prepared, cached_run, ui) {
        Recalled::Ran(ran) => Some(*ran),
        Recalled::Damaged(why) => {
            *found = CacheLookup::Damaged(why);
            None
        }
        Recalled::Impossible => None,
    }
}

/// What became of taking a cached result.
enum Recalled {
    Ran(Box<Ran>),
    /// It is no proof of anything; why.
    Damaged(String),
    /// It cannot be copied or read now, which is not its fault, and has been said.
    Impossible,
}

/// Takes a cached result into a run's folder.
fn recall(prepared: &Prepared<'_>, cached_run: &CachedRun, ui: &Ui) -> Recalled {
    let copied = FILES.into_iter().try_for_each(|name| {
        std::fs::copy(cached_run.file(name), prepared.folder.file(name)).map(|_| ())
    });
    let title = prepared.title;
    if let Err(error) = copied {
        ui.warn(&format!("{title} is cached and cannot be copied: {error}"));
        return Recalled::Impossible;
    }
    let outcome = lifecycle::recall(&prepared.boot, &Limits::STANDARD, |_| {});
    match outcome {
        Ok(outcome) if Ended::of(&outcome) == Some(Ended::Whole) => Recalled::Ran(Box::new(Ran {
            outcome: Ok(outcome),
            started_from: StartedFrom::Cache,
            times: Times::default(),
            cached: Some(CachedResult {
                at: cached_run.at().to_string(),
                started_from: cached_run.started_from(),
                times: cached_run.times(),
                folder: cached_run.folder().to_owned(),
                key: cached_run.key().to_string(),
            }),
            determinism: None,
        })),
        Ok(outcome) => Recalled::Damaged(format!("it is not whole: {}", outcome.end)),
        Err(error) => {
            let why = sentence(&error);
            ui.warn(&format!("{title} is cached and cannot be read: {why}"));
            Recalled::Impossible
        }
    }
}

/// What differs between a cached result and a run, if anything.
fn difference(then: &CachedRun, now: &camino::Utf8Path) -> Result<Option<String>, String> {
    for name in FILES.iter().rev() {
        let read = |path: PathBuf| {
            std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let (then, now) = (read(then.file(name))?, read(now.join(name).into())?);
        let differs = RecordDiff::of(&then, &now);
        if let RecordDiff::Differs { .. } = &differs {
            let text = differs.to_string();
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            return Ok(Some(format!("{name}: {}", lines.join("; "))));
        }
    }
    Ok(None)
}

fn different(then: &CachedRun, now: Utf8PathBuf, what: String) -> DeterminismCheck {
    DeterminismCheck::Different {
        then: then.place().to_string_lossy().into_owned().into(),
        now,
        what,
    }
}

fn disputed(then: &CachedRun, other: &std::path::Path) -> String {
    format!(
        "earlier runs of the same inputs gave different records, in {} and {}; remove both to \
         start over",
        then.place().display(),
        other.display()
    )
}
