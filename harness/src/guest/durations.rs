//! How long guests take, kept in the cache so that the longest can be started first and a
//! budget can be met.
//!
//! Durations are QEMU's processor time, which hardly depends on what else the host does. They
//! change no result: one that cannot be read or written is merely unknown.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use numalab_kernels::cache::Part;
use numalab_kernels::{Cache, Digest};
use serde::{Deserialize, Serialize};

/// The most kernels for which a scenario's duration is kept; the oldest are dropped.
const KERNELS: usize = 50;

/// The durations in a cache.
#[derive(Debug, Clone)]
pub struct Durations {
    folder: PathBuf,
}

/// How long a guest is expected to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// QEMU's processor time.
    pub cpu: Duration,
    /// What this rests on.
    pub basis: Basis,
}

/// What an expected duration rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// This scenario on this kernel.
    Measured,
    /// This scenario on another kernel.
    OtherKernel,
    /// What its plan asks for.
    Guessed,
}

/// The file of one scenario on one machine.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Entry {
    /// For a person.
    scenario: String,
    /// By the digest of the kernel's image.
    kernels: BTreeMap<String, Took>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Took {
    cpu_ms: u64,
    /// Whether its boot is in it.
    cold: bool,
    at: Timestamp,
}

impl Durations {
    /// The durations in a cache.
    pub fn new(cache: &Cache) -> Durations {
        Durations {
            folder: cache.part(Part::Durations),
        }
    }

    /// How long a scenario is expected to take on a kernel, if it ever ran. `shape` is the
    /// digest of what the guest does and where, whatever the kernel and the seed.
    pub fn expected(&self, shape: Digest, kernel: &str) -> Option<Expected> {
        let entry = self.read(shape)?;
        if let Some(took) = entry.kernels.get(kernel) {
            return Some(took.expected(Basis::Measured));
        }
        let latest = entry.kernels.values().max_by_key(|took| took.at)?;
        Some(latest.expected(Basis::OtherKernel))
    }

    /// Records how long a scenario took.
    pub(crate) fn note(
        &self,
        shape: Digest,
        scenario: &str,
        kernel: &str,
        cpu_ms: u64,
        cold: bool,
    ) {
        let mut entry = self.read(shape).unwrap_or_default();
        // A boot is no part of what the next run will take.
        if cold && entry.kernels.get(kernel).is_some_and(|took| !took.cold) {
            return;
        }
        entry.scenario = scenario.to_owned();
        let at = Timestamp::now();
        let took = Took { cpu_ms, cold, at };
        entry.kernels.insert(kernel.to_owned(), took);
        while entry.kernels.len() > KERNELS {
            let oldest = entry.kernels.iter().min_by_key(|(_, took)| took.at);
            let Some(oldest) = oldest.map(|(kernel, _)| kernel.clone()) else {
                break;
            };
            entry.kernels.remove(&oldest);
        }
        // By one rename. If two processes write at once, one duration is lost, which is harmless.
        let written = tempfile::Builder::new()
            .prefix(".tmp-")
            .tempfile_in(&self.folder)
            .and_then(|file| {
                serde_json::to_writer(&file, &entry)?;
                file.persist(self.path(shape)).map_err(|error| error.error)
            });
        drop(written);
    }

    fn read(&self, shape: Digest) -> Option<Entry> {
        serde_json::from_slice(&fs::read(self.path(shape)).ok()?).ok()
    }

    fn path(&self, shape: Digest) -> PathBuf {
        self.folder.join(format!("{}.json", shape.short()))
    }
}

impl Took {
    fn expected(self, basis: Basis) -> Expected {
        Expected {
            cpu: Duration::from_millis(self.cpu_ms),
            basis,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_known_again() {
        let folder = tempfile::tempdir().unwrap();
        let durations = Durations::new(&Cache::open(folder.path()).unwrap());
        let (shape, other) = (Digest::of(b"a"), Digest::of(b"b"));
        assert_eq!(durations.expected(shape, "k"), None);
        let expect = |kernel: &str, ms, basis| {
            let cpu = Duration::from_millis(ms);
            let expected = durations.expected(shape, kernel);
            assert_eq!(expected, Some(Expected { cpu, basis }), "{kernel}");
        };
        durations.note(shape, "s", "k", 3000, true);
        expect("k", 3000, Basis::Measured);
        durations.note(shape, "s", "k", 1000, false);
        // A boot does not make it longer again.
        durations.note(shape, "s", "k", 3000, true);
        expect("k", 1000, Basis::Measured);
        expect("another", 1000, Basis::OtherKernel);
        assert_eq!(durations.expected(other, "k"), None);
        for n in 0..2 * KERNELS {
            durations.note(shape, "s", &format!("k{n}"), 7, false);
        }
        let bytes = fs::read(durations.path(shape)).unwrap();
        let entry: Entry = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(entry.kernels.len(), KERNELS);
        // What is damaged is not known.
        fs::write(durations.path(shape), "{").unwrap();
        assert_eq!(durations.expected(shape, "k"), None);
        durations.note(shape, "s", "k", 1000, false);
        expect("k", 1000, Basis::Measured);
    }
}
