//! The steps of a bisection, kept in the cache after each one, so that the same command goes on
//! after an interruption of any kind.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use numalab_kernels::cache::{Cache, CacheError, EntryLock, Part, Wait};
use numalab_kernels::{Digest, KernelError};
use serde::{Deserialize, Serialize};

use super::step::BisectStep;
use crate::error::Error;

/// The version of the file's format.
const SCHEMA: u32 = 2;

/// The steps of one bisection, locked for this process.
#[derive(Debug)]
pub(super) struct State {
    lock: EntryLock,
    saved: SavedSteps,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedSteps {
    schema: u32,
    steps: Vec<BisectStep>,
}

impl State {
    /// Opens the bisection of this key. Steps in which this machine may have failed are dropped,
    /// so that they are tried again.
    ///
    /// # Errors
    /// Another process runs the same bisection, or the cache cannot be used.
    pub(super) fn open(cache: &Cache, key: &Digest, restart: bool) -> Result<State, Error> {
        let wait = Wait {
            deadline: Duration::ZERO,
            cancel: &AtomicBool::new(false),
            on_wait: &|_| {},
        };
        let name = format!("bisect-{}", key.short());
        let lock = cache
            .lock(Part::Tools, &name, &wait)
            .map_err(KernelError::from)?;
        let saved = fs::read(lock.entry().join("steps.json"))
            .ok()
            .filter(|_| !restart)
            .and_then(|text| serde_json::from_slice(&text).ok())
            .filter(|saved: &SavedSteps| saved.schema == SCHEMA);
        let mut saved = saved.unwrap_or(SavedSteps {
            schema: SCHEMA,
            steps: Vec::new(),
        });
        saved.steps.retain(|step| step.result.host.is_none());
        Ok(State { lock, saved })
    }

    /// The steps, in the order in which they were done.
    pub(super) fn steps(&self) -> &[BisectStep] {
        &self.saved.steps
    }

    pub(super) fn find(&self, id: &str, clean: bool) -> Option<&BisectStep> {
        let mut steps = self.saved.steps.iter();
        steps.find(|step| step.commit == id && step.clean == clean)
    }

    /// Adds a step; it is on the disk when this returns.
    pub(super) fn add(&mut self, step: BisectStep) -> Result<(), Error> {
        self.saved.steps.push(step);
        let path: PathBuf = self.lock.entry().join("steps.json");
        let fault = |error| KernelError::from(CacheError::io("write", &path, error));
        let text = serde_json::to_vec_pretty(&self.saved).map_err(|error| fault(error.into()))?;
        let new = path.with_extension("new");
        let write = || {
            let file = fs::File::create(&new)?;
            std::io::Write::write_all(&mut &file, &text)?;
            file.sync_all()?;
            fs::rename(&new, &path)
        };
        write().map_err(fault)?;
        Ok(())
    }
}
