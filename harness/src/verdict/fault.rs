//! Faults that a kernel reports on its console, named so that the same fault of two kernels
//! is recognized.
//!
//! Addresses, times, offsets, line numbers and the numbers of CPUs and processes differ from
//! kernel to kernel and are removed; the kind, the function or file, and a warning's own words
//! remain. `guest::fault_kind` decides what a line means, `compare` whether a fault counts.

mod place;

use std::fmt;

use numalab_protocol::{Record, WINDOW_NS};
use serde::{Deserialize, Serialize};

use crate::guest::console::ConsoleFault;
use crate::guest::fault_kind::{FaultKind, Severity};
use crate::guest::outcome::Outcome;
pub(crate) use place::{message, plain};

/// A fault that a kernel reported once or more in one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What it is.
    pub sign: Sign,
    /// How bad.
    pub severity: Severity,
    /// How often it was printed.
    pub count: u64,
    /// The first one's line in the console, from 1; 0 if it was not kept.
    pub line: u64,
    /// The first one's line. Not fit for a terminal.
    pub message: String,
    /// The warning's own words, if it has any. Not fit for a terminal.
    #[serde(default)]
    pub words: String,
    /// The first one with what follows it. Not fit for a terminal.
    pub excerpt: String,
}

/// What two kernels' reports of the same fault have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sign {
    /// What kind.
    pub kind: FaultKind,
    /// When.
    pub phase: Phase,
    /// Where, and with which words: the message without what differs from kernel to kernel.
    pub place: String,
}

/// When a fault was reported. The same message at boot and in a scenario is two faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Before the guest took its plan.
    Boot,
    /// Afterwards, or not known.
    Plan,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Phase::Boot => "at boot",
            Phase::Plan => "while the scenario ran",
        })
    }
}

impl Fault {
    /// Its line with its words.
    pub fn said(&self) -> String {
        match self.words.as_str() {
            "" => self.message.clone(),
            words => format!("{}: {words}", self.message),
        }
    }
}

impl Sign {
    /// The sign of faults of a kind that was reported too often to keep all of them.
    pub(crate) fn uncounted(kind: FaultKind) -> Sign {
        Sign {
            kind,
            phase: Phase::Plan,
            place: UNCOUNTED.to_owned(),
        }
    }

    /// Whether it stands for faults that were not kept.
    pub fn is_uncounted(&self) -> bool {
        self.place == UNCOUNTED
    }
}

const UNCOUNTED: &str = "too many to keep";

/// Guest time, in microseconds, up to which what the console says belongs to the boot: the
/// middle of the window in which the agent spins and the kernel has nothing to say. The
/// console's clock and the agent's differ by less than half a window. `None` if the guest
/// did not come as far.
pub fn boot_end_us(records: &[Record]) -> Option<u64> {
    records.iter().find_map(|record| match record {
        Record::Ready { uptime_ns, .. } => Some(uptime_ns.saturating_add(WINDOW_NS / 2) / 1000),
        _ => None,
    })
}

/// The faults of a run, in the order in which they were first printed.
pub fn of_outcome(outcome: &Outcome) -> Vec<Fault> {
    let boot_end = boot_end_us(&outcome.records);
    let mut faults = of_console(&outcome.console_faults, boot_end);
    for (kind, count) in outcome.suppressed.kinds() {
        if kind.severity() < Severity::Warning {
            continue;
        }
        faults.push(Fault {
            sign: Sign::uncounted(kind),
            severity: kind.severity(),
            count,
            line: 0,
            message: format!("{count} more messages of the kind {kind}"),
            words: String::new(),
            excerpt: String::new(),
        });
    }
    faults
}

fn of_console(console_faults: &[ConsoleFault], boot_end_us: Option<u64>) -> Vec<Fault> {
    let mut faults: Vec<Fault> = Vec::new();
    for console_fault in console_faults {
        if console_fault.severity < Severity::Warning {
            continue;
        }
        let phase = match (boot_end_us, console_fault.at_us) {
            // It never came to take a plan.
            (None, _) => Phase::Boot,
            (Some(end), Some(at)) if at < end => Phase::Boot,
            _ => Phase::Plan,
        };
        let sign = Sign {
            kind: console_fault.kind,
            phase,
            place: place::of(console_fault),
        };
        match faults.iter_mut().find(|fault| fault.sign == sign) {
            Some(known) => known.count += 1,
            None => faults.push(Fault {
                sign,
                severity: console_fault.severity,
                count: 1,
                line: console_fault.line,
                message: console_fault.message.clone(),
                words: console_fault.heading.clone(),
                excerpt: console_fault.excerpt.clone(),
            }),
        }
    }
    faults
}

#[cfg(test)]
mod tests;
