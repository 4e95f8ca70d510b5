//! Snapshots: each kernel is booted once on each machine and saved, and its runs are restored
//! from that.
//!
//! A restored run gives the same bytes as a cold one (see the agent's lifecycle). So no result
//! depends on whether there is a snapshot, and whatever goes wrong with one is reported and
//! the run boots cold.

mod entry;
mod failed_boot;
mod request;

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use numalab_kernels::cache::{CacheError, CachedEntry, Lookup, Part, TempEntry, Wait};
use numalab_kernels::{Cache, Digest};
use numalab_protocol::pages;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use self::entry::Manifest;
use crate::cache::build_lock::BuildLock;
use crate::error::Error;
use crate::error_chain::sentence;
use crate::guest::argv::{Boot, Start};
use crate::guest::deadline::Deadlines;
use crate::guest::lifecycle::{self, GuestEvent, Limits, SaveError};
use crate::guest::outcome::End;
use crate::guest::qcow2;
use crate::guest::slots::{Need, SlotError, Slots, Waiting};
use crate::timing::{Activity, Stopwatch};
use crate::ui::Ui;

pub use self::entry::{Copied, Saved};
pub use self::failed_boot::FailedBoot;
pub use self::request::SnapshotRequest;

/// How many times a boot whose window was missed is tried in all.
const BOOTS: u32 = 4;

/// How long to wait for another process that boots the same guest. It is longer than a boot
/// takes on a busy host, and leaves a test time to boot cold.
const PATIENCE: Duration = Duration::from_secs(240);

/// A snapshot, once it has been looked for.
type Cell = Arc<OnceCell<Snapshot>>;

/// What there is for a run to be restored from.
#[derive(Debug, Clone)]
pub enum Snapshot {
    /// A saved guest.
    Saved(Arc<Saved>),
    /// The boot that was to be saved failed, as that of a run would.
    Failed(Arc<FailedBoot>),
    /// Nothing, and the reason was reported: the run boots cold.
    None,
}

/// The snapshots in a cache, as one process uses them.
#[derive(Debug)]
pub struct Snapshots {
    cache: Cache,
    slots: Slots,
    stopwatch: Stopwatch,
    guests: Mutex<HashMap<Digest, Cell>>,
    /// Whether saving has failed for a reason that concerns all guests.
    off: AtomicBool,
}

/// What does not hold for the next run, which tries again.
enum ForOneRun {
    Failed(Arc<FailedBoot>),
    Interrupted,
}

/// Why a guest was not saved.
#[derive(Debug, thiserror::Error)]
enum SnapshotError {
    #[error(transparent)]
    Cache(#[from] CacheError),
    #[error(transparent)]
    Save(#[from] SaveError),
    #[error("{what}")]
    Io {
        what: String,
        #[source]
        source: io::Error,
    },
}

impl Snapshots {
    /// The snapshots in a cache.
    pub fn new(cache: Cache) -> Snapshots {
        Snapshots {
            slots: Slots::new(&cache, None),
            stopwatch: Stopwatch::default(),
            cache,
            guests: Mutex::default(),
            off: AtomicBool::new(false),
        }
    }

    /// Measures the time of boots with this stopwatch.
    #[must_use]
    pub fn timed_by(mut self, stopwatch: Stopwatch) -> Snapshots {
        self.stopwatch = stopwatch;
        self
    }

    /// Lets boots wait for one of these slots.
    #[must_use]
    pub fn in_slots(mut self, slots: Slots) -> Snapshots {
        self.slots = slots;
        self
    }

    /// The snapshot; booted and saved if there is none.
    ///
    /// # Errors
    /// A signal came.
    pub async fn get(
        &self,
        wanted: &SnapshotRequest<'_>,
        ui: &Ui,
        cancel: &CancellationToken,
    ) -> Result<Snapshot, Error> {
        let key = wanted.key();
        let cell = Arc::clone(self.guests().entry(key).or_default());
        let made = cell.get_or_try_init(|| async {
            if self.off.load(Ordering::Relaxed) {
                return Ok(Snapshot::None);
            }
            match self.get_or_save(wanted, key, ui, cancel).await {
                Ok(Snapshot::Failed(failed)) if failed.may_be_the_hosts() => {
                    Err(ForOneRun::Failed(failed))
                }
                Ok(snapshot) => Ok(snapshot),
                Err(_) if cancel.is_cancelled() => Err(ForOneRun::Interrupted),
                Err(error) => {
                    self.give_up(wanted, &error, ui);
                    Ok(Snapshot::None)
                }
            }
        });
        match made.await {
            Ok(snapshot) => Ok(snapshot.clone()),
            Err(ForOneRun::Failed(failed)) => Ok(Snapshot::Failed(failed)),
            Err(ForOneRun::Interrupted) => Err(Error::Interrupted),
        }
    }

    /// Copies a saved guest for one run, whose console and records begin as those of the saved
    /// one. `None` if that failed, which was reported.
    pub async fn copy(
        &self,
        saved: &Arc<Saved>,
        console: &Utf8Path,
        records: &Utf8Path,
        ui: &Ui,
    ) -> Option<Copied> {
        let (cache, from) = (self.cache.clone(), Arc::clone(saved));
        let (console, records) = (console.to_owned(), records.to_owned());
        let copy = move || Ok(from.copy(&cache, &console, &records)?);
        match blocking(copy).await {
            Ok(copied) => Some(copied),
            Err(error) => {
                let why = sentence(&error);
                ui.warn(&format!(
                    "a snapshot cannot be copied, so a run boots cold: {why}"
                ));
                None
            }
        }
    }

    /// Removes a saved guest that QEMU does not load; its runs boot cold.
    pub fn distrust(&self, saved: &Saved, why: &End, ui: &Ui) {
        ui.warn(&format!(
            "a snapshot is removed and its runs boot cold: {why}"
        ));
        let none = Arc::new(OnceCell::new_with(Some(Snapshot::None)));
        self.guests().insert(saved.key(), none);
        // If it cannot be removed, the next process finds out the same.
        let _ = self.cache.remove(saved.folder());
    }

    fn guests(&self) -> MutexGuard<'_, HashMap<Digest, Cell>> {
        // Entries are inserted complete, so a panic elsewhere leaves the map whole.
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports why there is no snapshot.
    fn give_up(&self, wanted: &SnapshotRequest<'_>, error: &SnapshotError, ui: &Ui) {
        let why = sentence(error);
        match error {
            SnapshotError::Cache(CacheError::Busy { .. })
            | SnapshotError::Save(
                SaveError::Ended { .. } | SaveError::Missed | SaveError::Guest(_),
            ) => {
                // It concerns this guest alone, and a cold run shows what keeps it from booting.
                ui.say(&format!(
                    "{} is not saved and boots cold: {why}",
                    wanted.title
                ));
            }
            _ if self.off.swap(true, Ordering::Relaxed) => {}
            _ => ui.warn(&format!("guests cannot be saved, so all boot cold: {why}")),
        }
    }

    async fn get_or_save(
        &self,
        wanted: &SnapshotRequest<'_>,
        key: Digest,
        ui: &Ui,
        cancel: &CancellationToken,
    ) -> Result<Snapshot, SnapshotError> {
        if let Lookup::Found(saved) = self.find(key).await? {
            return Ok(saved);
        }
        let title = wanted.title;
        let on_wait = |holder: &str| {
            ui.say(&format!(
                "waiting for {title}, which {holder} boots and saves"
            ));
        };
        let (cache, name) = (&self.cache, format!("{key}.boot"));
        let _lock =
            BuildLock::acquire(cache, Part::Snapshots, &name, PATIENCE, on_wait, cancel).await?;
        match self.find(key).await? {
            // Another process has saved it meanwhile.
            Lookup::Found(saved) => return Ok(saved),
            Lookup::Missing => {}
            Lookup::Damaged(why) => {
                ui.warn(&format!(
                    "the snapshot of {title} is damaged and made again: {why}"
                ));
                let entry = self.cache.entry(Part::Snapshots, &key.to_string());
                self.cache.remove(&entry)?;
            }
        }
        self.save(wanted, ui, cancel).await
    }

    async fn find(&self, key: Digest) -> Result<Lookup<Snapshot>, SnapshotError> {
        let cache = self.cache.clone();
        let found = blocking(move || Ok(CachedEntry::find(&cache, key, &Wait::HANDOVER)?)).await?;
        Ok(match found {
            Lookup::Found(entry) => Lookup::Found(Snapshot::Saved(Arc::new(Saved(entry)))),
            Lookup::Damaged(why) => Lookup::Damaged(why),
            Lookup::Missing => Lookup::Missing,
        })
    }

    async fn save(
        &self,
        wanted: &SnapshotRequest<'_>,
        ui: &Ui,
        cancel: &CancellationToken,
    ) -> Result<Snapshot, SnapshotError> {
        let title = &format!("booting {} to be saved", wanted.title);
        let need = Need {
            memory_mib: wanted.boot.machine.memory_mib(),
            alone: false,
        };
        let on_wait = |waiting: &Waiting| ui.say(&format!("{title} waits: {waiting}"));
        let slot = match self.slots.acquire(need, on_wait, cancel).await {
            Ok(slot) => slot,
            Err(SlotError::Memory(error)) => return Err(SaveError::Guest(error.into()).into()),
            Err(SlotError::Cancelled) => {
                let path = self.cache.part(Part::Snapshots);
                return Err(CacheError::Interrupted { path }.into());
            }
        };
        let shown = ui.task(title);
        let timed = self.stopwatch.begin(Activity::Boot);
        let mut boots = 1;
        let (entry, boot) = loop {
            let (entry, boot) = self.prepare(wanted)?;
            let on_event = |event: GuestEvent<'_>| match event {
                GuestEvent::Started { pid } => slot.set_process(pid),
                GuestEvent::Stage(stage) => shown.stage(&stage.to_string()),
                _ => {}
            };
            let (deadlines, limits) = (Deadlines::STANDARD, Limits::STANDARD);
            let (qemu, cancel) = (wanted.qemu, cancel.clone());
            match lifecycle::save(qemu, &boot, &deadlines, &limits, on_event, cancel).await {
                Ok(()) => break (entry, boot),
                Err(SaveError::Missed) if boots < BOOTS => boots += 1,
                Err(SaveError::Ended { end, .. }) if end.repeated().is_some() => {
                    return Ok(Snapshot::Failed(Arc::new(FailedBoot {
                        end,
                        console: boot.console,
                        records: boot.records,
                        _entry: entry,
                    })));
                }
                Err(error) => return Err(error.into()),
            }
        };
        drop((slot, timed));
        for page in &boot.pages {
            std::fs::remove_file(page).map_err(io_error("remove", page))?;
        }
        let manifest = Manifest::new(wanted);
        let saved = blocking(move || Ok(Saved::publish(entry, manifest)?)).await?;
        Ok(Snapshot::Saved(Arc::new(saved)))
    }

    /// A temporary entry with all that a boot writes to.
    fn prepare(&self, wanted: &SnapshotRequest<'_>) -> Result<(TempEntry, Boot), SnapshotError> {
        let entry = self.cache.temporary(Part::Snapshots)?;
        let folder = entry::utf8(entry.path())?;
        let write = |name: &str, bytes: &[u8]| -> Result<Utf8PathBuf, SnapshotError> {
            let path = folder.join(name);
            std::fs::write(&path, bytes).map_err(io_error("write", &path))?;
            Ok(path)
        };
        let mut pages = Vec::new();
        // Only their number and size enter the guest before its plan is read.
        for index in 0..pages::COUNT {
            pages.push(write(&format!("page{index}"), &[0; pages::PAGE])?);
        }
        let boot = Boot {
            pages: std::array::from_fn(|index| std::mem::take(&mut pages[index])),
            console: folder.join(request::CONSOLE),
            records: folder.join(request::RECORDS),
            start: Start::Savable(write(request::DISK, &qcow2::empty())?),
            ..wanted.boot.clone()
        };
        Ok((entry, boot))
    }
}

fn io_error(action: &'static str, path: &Utf8Path) -> impl FnOnce(io::Error) -> SnapshotError {
    let path = path.to_owned();
    move |source| SnapshotError::Cache(CacheError::io(action, path, source))
}

/// Reads and writes some ten MiB on another thread: one thread follows all guests of a
/// process.
async fn blocking<T, W>(work: W) -> Result<T, SnapshotError>
where
    T: Send + 'static,
    W: FnOnce() -> Result<T, SnapshotError> + Send + 'static,
{
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(SnapshotError::Io {
            what: "a snapshot cannot be read or written".into(),
            source: io::Error::other(error),
        }),
    }
}
