//! What a bisection has found so far, kept in the cache after each step, so that the same
//! command goes on where an earlier one was interrupted, by whatever.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use numalab_kernels::Digest;
use numalab_kernels::cache::{Cache, CacheError, EntryLock, Part, Wait};
use serde::{Deserialize, Serialize};

use super::Step;
use crate::error::Error;

/// The version of the file's form.
const SCHEMA: u32 = 1;

/// The steps of one bisection, locked for this process.
#[derive(Debug)]
pub(super) struct State {
    lock: EntryLock,
    kept: Kept,
}

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    schema: u32,
    steps: Vec<Step>,
}

impl State {
    /// Opens what is kept under the digest of everything that decides the answers.
    ///
    /// # Errors
    /// Another process does the same bisection, or the cache cannot be used.
    pub(super) fn open(cache: &Cache, key: &Digest, restart: bool) -> Result<State, Error> {
        let wait = Wait {
            deadline: Duration::ZERO,
            cancel: &AtomicBool::new(false),
            on_wait: &|_| {},
        };
        let name = format!("bisect-{}", key.short());
        let lock = cache
            .lock(Part::Tools, &name, &wait)
            .map_err(numalab_kernels::KernelError::from)?;
        let empty = Kept {
            schema: SCHEMA,
            steps: Vec::new(),
        };
        let kept = fs::read(lock.entry().join("steps.json"))
            .ok()
            .filter(|_| !restart)
            .and_then(|text| serde_json::from_slice(&text).ok())
            .filter(|kept: &Kept| kept.schema == SCHEMA);
        Ok(State {
            lock,
            kept: kept.unwrap_or(empty),
        })
    }

    /// The steps, in the order in which they were done.
    pub(super) fn steps(&self) -> &[Step] {
        &self.kept.steps
    }

    /// What is known of a commit.
    pub(super) fn find(&self, id: &str, clean: bool) -> Option<&Step> {
        let mut steps = self.kept.steps.iter();
        steps.find(|step| step.commit == id && step.clean == clean)
    }

    /// Adds a step; it is on the disk when this returns.
    pub(super) fn add(&mut self, step: Step) -> Result<(), Error> {
        self.kept.steps.push(step);
        let path: PathBuf = self.lock.entry().join("steps.json");
        let fault =
            |error| numalab_kernels::KernelError::from(CacheError::io("write", &path, error));
        let text = serde_json::to_vec_pretty(&self.kept).map_err(|error| fault(error.into()))?;
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
