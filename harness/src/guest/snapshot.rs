//! Saved guests: each kernel is booted once on each machine, and every run is restored from
//! that.
//!
//! The guest's course makes this exact (see `course` of the agent): a restored run gives the
//! bytes of a cold one. So nothing depends on whether there is a saved guest, and whatever
//! goes wrong with one is a reason to boot cold and to say so, never one to fail.

mod entry;

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use numalab_kernels::cache::{CacheError, Part, TempEntry};
use numalab_kernels::digest::Digester;
use numalab_kernels::{Cache, Digest};
use numalab_protocol::{CONTRACT, WINDOW_NS, pages};
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use self::entry::{Manifest, SCHEMA, SnapshotLookup};
use crate::cache::build_lock::BuildLock;
use crate::error::Error;
use crate::error_chain::sentence;
use crate::guest::argv::{self, Boot, HostOptions, Monitor, Start};
use crate::guest::deadline::Deadlines;
use crate::guest::lifecycle::{self, GuestEvent, Limits, SaveError};
use crate::guest::outcome::End;
use crate::guest::qcow2;
use crate::guest::qemu::Qemu;
use crate::guest::slots::{Need, Slots, Waiting};
use crate::timing::{Activity, Stopwatch};
use crate::ui::Ui;

pub use self::entry::{Copied, Saved};

/// How many times a boot whose window was missed is tried in all.
const BOOTS: u32 = 4;

/// How long to wait for another process that boots the same guest. It is longer than a boot
/// takes on a busy host, and leaves a test time to boot cold.
const PATIENCE: Duration = Duration::from_secs(240);

/// A saved guest, once it has been looked for; `None` if there can be none.
type Cell = Arc<OnceCell<Option<Arc<Saved>>>>;

/// The saved guests of a cache, as one process uses them.
#[derive(Debug)]
pub struct Snapshots {
    cache: Cache,
    slots: Slots,
    stopwatch: Stopwatch,
    guests: Mutex<HashMap<Digest, Cell>>,
    /// Whether saving has failed in a way that all guests share.
    off: AtomicBool,
}

/// Which guest is wanted.
#[derive(Debug, Clone, Copy)]
pub struct SnapshotRequest<'a> {
    /// The QEMU that runs it.
    pub qemu: &'a Qemu,
    /// The cold boot that it is to runner for. Only what the guest can see of it matters: not
    /// where files lie, and not what is in the plan's pages.
    pub boot: &'a Boot,
    /// SHA-256 of the kernel's image.
    pub kernel: &'a str,
    /// SHA-256 of the initramfs.
    pub image: &'a str,
    /// What to call it.
    pub title: &'a str,
}

/// Why a guest is not saved.
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

impl SnapshotRequest<'_> {
    /// The name of the saved guest: the digest of all that it depends on.
    pub fn key(&self) -> Digest {
        let mut digester = Digester::new();
        digester
            .field("schema", SCHEMA.to_string())
            .field("contract", CONTRACT.to_string())
            .field("window", WINDOW_NS.to_string())
            .field("qemu", self.qemu.text())
            .field("kernel", self.kernel)
            .field("image", self.image);
        for argument in self.arguments() {
            digester.field("argument", argument);
        }
        digester.finish()
    }

    /// QEMU's arguments with names in place of paths.
    fn arguments(&self) -> Vec<String> {
        let boot = Boot {
            machine: self.boot.machine.clone(),
            platform: self.boot.platform,
            kernel: "kernel".into(),
            initrd: "initramfs".into(),
            pages: std::array::from_fn(|index| format!("page{index}").into()),
            console: entry::CONSOLE.into(),
            records: entry::RECORDS.into(),
            start: Start::Savable(entry::DISK.into()),
        };
        let surroundings = HostOptions {
            sandbox: self.qemu.sandbox(),
            monitor: Monitor::Descriptor(0),
        };
        argv::arguments(&boot, surroundings)
    }
}

impl Snapshots {
    /// The saved guests of a cache.
    pub fn new(cache: Cache) -> Snapshots {
        Snapshots {
            slots: Slots::new(&cache, None),
            stopwatch: Stopwatch::default(),
            cache,
            guests: Mutex::default(),
            off: AtomicBool::new(false),
        }
    }

    /// Takes the time of boots there.
    #[must_use]
    pub fn timed_by(mut self, stopwatch: Stopwatch) -> Snapshots {
        self.stopwatch = stopwatch;
        self
    }

    /// Lets boots wait for a slot there.
    #[must_use]
    pub fn seated_by(mut self, slots: Slots) -> Snapshots {
        self.slots = slots;
        self
    }

    /// The saved guest; booted and saved if there is none. `None` if there can be none, which
    /// has then been said: the run boots cold.
    ///
    /// # Errors
    /// A signal came.
    pub async fn get(
        &self,
        wish: &SnapshotRequest<'_>,
        ui: &Ui,
        cancel: &CancellationToken,
    ) -> Result<Option<Arc<Saved>>, Error> {
        let key = wish.key();
        let cell = Arc::clone(self.guests().entry(key).or_default());
        let saved = cell.get_or_try_init(|| async {
            if self.off.load(Ordering::Relaxed) {
                return Ok(None);
            }
            match self.ensure(wish, key, ui, cancel).await {
                Ok(saved) => Ok(Some(Arc::new(saved))),
                Err(_) if cancel.is_cancelled() => Err(Error::Interrupted),
                Err(error) => {
                    self.give_up(wish, &error, ui);
                    Ok(None)
                }
            }
        });
        Ok(saved.await?.clone())
    }

    /// A copy of a saved guest for one run, whose console and records begin as those of the
    /// saved one. `None` if it could not be made, which has then been said.
    pub async fn copy(
        &self,
        saved: &Arc<Saved>,
        console: &Utf8Path,
        records: &Utf8Path,
        ui: &Ui,
    ) -> Option<Copied> {
        let (cache, from) = (self.cache.clone(), Arc::clone(saved));
        let (console, records) = (console.to_owned(), records.to_owned());
        let copy = move || from.copy(&cache, &console, &records);
        match blocking(copy).await {
            Ok(copied) => Some(copied),
            Err(error) => {
                let why = sentence(&error);
                ui.warn(&format!(
                    "a saved guest cannot be copied, so a run boots cold: {why}"
                ));
                None
            }
        }
    }

    /// Removes a saved guest that QEMU does not load, and boots cold instead of it.
    pub fn distrust(&self, saved: &Saved, why: &End, ui: &Ui) {
        ui.warn(&format!(
            "a saved guest is removed and its runs boot cold: {why}"
        ));
        let none = Arc::new(OnceCell::new_with(Some(None)));
        self.guests().insert(saved.key(), none);
        // What cannot be removed is found out again.
        let _ = self.cache.remove(saved.folder());
    }

    fn guests(&self) -> MutexGuard<'_, HashMap<Digest, Cell>> {
        // Entries are inserted complete, so a panic elsewhere leaves the map whole.
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says why there is no saved guest.
    fn give_up(&self, wish: &SnapshotRequest<'_>, error: &SnapshotError, ui: &Ui) {
        let why = sentence(error);
        match error {
            SnapshotError::Cache(CacheError::Busy { .. })
            | SnapshotError::Save(
                SaveError::Ended { .. } | SaveError::Missed | SaveError::Guest(_),
            ) => {
                // It concerns this guest alone; what keeps it from booting, its run will tell.
                ui.say(&format!(
                    "{} is not saved and boots cold: {why}",
                    wish.title
                ));
            }
            _ if self.off.swap(true, Ordering::Relaxed) => {}
            _ => ui.warn(&format!("guests cannot be saved, so all boot cold: {why}")),
        }
    }

    async fn ensure(
        &self,
        wish: &SnapshotRequest<'_>,
        key: Digest,
        ui: &Ui,
        cancel: &CancellationToken,
    ) -> Result<Saved, SnapshotError> {
        if let SnapshotLookup::Saved(saved) = self.find(key).await? {
            return Ok(*saved);
        }
        let waited_for = |holder: &str| {
            let title = wish.title;
            ui.say(&format!(
                "waiting for {title}, which {holder} boots and saves"
            ));
        };
        let turn = BuildLock {
            cache: &self.cache,
            part: Part::Snapshots,
            name: &format!("{key}.boot"),
            patience: PATIENCE,
        };
        let turn = turn.take(waited_for, cancel).await?;
        let saved = match self.find(key).await? {
            // Another process has saved it meanwhile.
            SnapshotLookup::Saved(saved) => Ok(*saved),
            SnapshotLookup::Nothing => self.boot(wish, key, ui, cancel).await,
            SnapshotLookup::Damaged(why) => {
                let title = wish.title;
                ui.warn(&format!(
                    "the saved {title} is damaged and made anew: {why}"
                ));
                self.cache
                    .remove(&self.cache.entry(Part::Snapshots, &key.to_string()))?;
                self.boot(wish, key, ui, cancel).await
            }
        };
        // Whoever waits for it makes it anew; left alone, it would stay in the cache.
        let _ = self.cache.remove(turn.entry());
        saved
    }

    async fn find(&self, key: Digest) -> Result<SnapshotLookup, SnapshotError> {
        let cache = self.cache.clone();
        blocking(move || Ok(entry::find(&cache, key)?)).await
    }

    async fn boot(
        &self,
        wish: &SnapshotRequest<'_>,
        key: Digest,
        ui: &Ui,
        cancel: &CancellationToken,
    ) -> Result<Saved, SnapshotError> {
        let title = &format!("booting {} to be saved", wish.title);
        let shown = ui.task(title);
        let need = Need {
            memory_mib: wish.boot.machine.memory_mib(),
            alone: false,
        };
        let on_wait = |waiting: &Waiting| ui.say(&format!("{title} waits: {waiting}"));
        let slot = self.slots.take(need, on_wait, cancel).await;
        let Some(slot) = slot.map_err(|error| SaveError::Guest(error.into()))? else {
            let path = self.cache.part(Part::Snapshots);
            return Err(CacheError::Interrupted { path }.into());
        };
        let going = self.stopwatch.begin(Activity::Boot);
        let mut boots = 1;
        let (entry, boot) = loop {
            let (entry, boot) = self.prepare(wish)?;
            let on_event = |event: GuestEvent<'_>| match event {
                GuestEvent::Started { pid } => slot.is_process(pid),
                GuestEvent::Stage(stage) => shown.stage(&stage.to_string()),
                GuestEvent::Waiting(error) => ui.say(&format!("{} waits: {error}", wish.title)),
                _ => {}
            };
            let (deadlines, limits) = (Deadlines::STANDARD, Limits::STANDARD);
            let cancel = cancel.clone();
            match lifecycle::save(wish.qemu, &boot, &deadlines, &limits, on_event, cancel).await {
                Ok(()) => break (entry, boot),
                Err(SaveError::Missed) if boots < BOOTS => boots += 1,
                Err(error) => return Err(error.into()),
            }
        };
        drop((slot, going));
        let arguments = wish.arguments();
        let (kernel, image) = (wish.kernel.to_owned(), wish.image.to_owned());
        let qemu = wish.qemu.text().to_owned();
        blocking(move || {
            for page in &boot.pages {
                std::fs::remove_file(page).map_err(io_error("remove", page))?;
            }
            let manifest = Manifest::new(key, kernel, image, qemu, arguments, entry.path())?;
            Ok(entry::publish(entry, manifest)?)
        })
        .await
    }

    /// A temporary entry with all that a boot writes to.
    fn prepare(&self, wish: &SnapshotRequest<'_>) -> Result<(TempEntry, Boot), SnapshotError> {
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
            console: folder.join(entry::CONSOLE),
            records: folder.join(entry::RECORDS),
            start: Start::Savable(write(entry::DISK, &qcow2::empty())?),
            ..wish.boot.clone()
        };
        Ok((entry, boot))
    }
}

fn io_error(action: &'static str, path: &Utf8Path) -> impl FnOnce(io::Error) -> SnapshotError {
    let path = path.to_owned();
    move |source| SnapshotError::Cache(CacheError::io(action, path, source))
}

/// Reads and writes some ten MiB where no guest waits for it: all guests of a process are
/// watched by one thread.
async fn blocking<T, W>(work: W) -> Result<T, SnapshotError>
where
    T: Send + 'static,
    W: FnOnce() -> Result<T, SnapshotError> + Send + 'static,
{
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(SnapshotError::Io {
            what: "the work on a saved guest was not done".into(),
            source: io::Error::other(error),
        }),
    }
}
