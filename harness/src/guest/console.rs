//! The kernel's console: searched for faults, never for results.
//!
//! Takes bytes in pieces of any size. `fault_kind` knows which messages are faults.

use std::collections::{BTreeMap, VecDeque};
use std::sync::LazyLock;

use regex::bytes::Regex;

use super::fault_kind::{FaultKind, Severity, classify};

/// The most bytes of a line that are searched.
const LINE_LIMIT: usize = 4096;

/// Lines of an excerpt after its first: a warning with registers and a short call trace.
const EXCERPT_LINES: usize = 40;

/// The most faults of each kind that are kept. A guest that warns without end is not more
/// broken, and its other faults still find room.
pub const FAULTS: usize = 100;

/// What `WARN` and `BUG` begin with (`CUT_HERE` of `include/asm-generic/bug.h`).
const CUT_HERE: &[u8] = b"------------[ cut here ]";

/// The most lines of a warning's own text.
const HEADING_LINES: usize = 4;

/// Lines that are kept for "the last console lines".
const LAST_LINES: usize = 20;

/// A fault that the console shows.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ConsoleFault {
    /// What kind.
    pub kind: FaultKind,
    /// How bad.
    pub severity: Severity,
    /// The line's number in the console, from 1.
    pub line: u64,
    /// The message, without printk's prefix, decoded lossily. Not fit for a terminal
    /// (`escape`).
    pub message: String,
    /// The line and those after it, as they are.
    pub excerpt: String,
    /// Guest time of its time stamp, in microseconds since boot, if it has one.
    pub at_us: Option<u64>,
    /// What `WARN` prints before its own line, behind `cut here`: the words that tell one
    /// warning of a function from another. Empty if there are none.
    pub heading: String,
}

/// How many faults were not kept, by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct Suppressed {
    kinds: BTreeMap<FaultKind, u64>,
}

impl Suppressed {
    /// How many of a severity or a worse one.
    pub fn at_least(&self, severity: Severity) -> u64 {
        let kinds = self.kinds.iter();
        let worse = kinds.filter(|(kind, _)| kind.severity() >= severity);
        worse.map(|(_, count)| count).sum()
    }

    /// How many of all.
    pub fn count(&self) -> u64 {
        self.at_least(Severity::Notice)
    }

    /// The kinds and how many of each, from the first in the order of [`FaultKind`].
    pub fn kinds(&self) -> impl Iterator<Item = (FaultKind, u64)> {
        self.kinds.iter().map(|(kind, count)| (*kind, *count))
    }

    /// The kind that matters most: of the worst severity, and preferably one that a busy host
    /// cannot cause.
    pub fn worst(&self) -> Option<FaultKind> {
        let weight = |kind: &FaultKind| (kind.severity(), !kind.may_be_the_hosts());
        self.kinds.keys().copied().max_by_key(weight)
    }

    fn add(&mut self, kind: FaultKind) {
        *self.kinds.entry(kind).or_default() += 1;
    }
}

/// The console so far.
#[derive(Debug, Default)]
pub struct Console {
    pending: Vec<u8>,
    lines: u64,
    stamps: bool,
    last: VecDeque<String>,
    console_faults: Vec<ConsoleFault>,
    /// Lines that still belong to the last fault, kept or not.
    excerpt_left: usize,
    /// Whether the last fault was kept.
    kept: bool,
    /// The lines since the last `cut here`, while they may still be a heading.
    heading: Option<Vec<String>>,
    suppressed: Suppressed,
}

impl Console {
    /// Takes more bytes. Returns the faults in them; their excerpts are not complete yet.
    pub fn push(&mut self, bytes: &[u8]) -> &[ConsoleFault] {
        let before = self.console_faults.len();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = LINE_LIMIT.saturating_sub(self.pending.len());
            let (text, ended) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            self.pending
                .extend_from_slice(&text[..text.len().min(room)]);
            if ended {
                let line = std::mem::take(&mut self.pending);
                self.line(&line);
            }
        }
        &self.console_faults[before..]
    }

    /// Takes the last line although it has no line feed: a guest that stops in a panic may
    /// not end it.
    pub fn finish(&mut self) -> &[ConsoleFault] {
        let before = self.console_faults.len();
        if !self.pending.is_empty() {
            let line = std::mem::take(&mut self.pending);
            self.line(&line);
        }
        &self.console_faults[before..]
    }

    /// The faults so far, at most [`FAULTS`] of each kind.
    pub fn console_faults(&self) -> &[ConsoleFault] {
        &self.console_faults
    }

    /// How many more there were.
    pub fn suppressed(&self) -> &Suppressed {
        &self.suppressed
    }

    /// The last lines, decoded lossily and not fit for a terminal.
    pub fn last_lines(&self) -> impl Iterator<Item = &str> {
        self.last.iter().map(String::as_str)
    }

    /// The faults, how many were not kept, and the last lines.
    pub fn into_parts(self) -> (Vec<ConsoleFault>, Suppressed, Vec<String>) {
        (self.console_faults, self.suppressed, self.last.into())
    }

    fn line(&mut self, raw: &[u8]) {
        self.lines += 1;
        let line = without_escapes(raw);
        let text = String::from_utf8_lossy(&line).into_owned();
        let (message, at_us) = message(&line);
        let stamped = at_us.is_some();
        self.stamps |= stamped;
        let kind = classify(message, stamped || !self.stamps);
        let heading = self.heading(message, kind);
        // The call trace of a fault belongs to it.
        let kind = kind.filter(|kind| *kind != FaultKind::CallTrace || self.excerpt_left == 0);
        match kind {
            Some(kind) if !self.has_room(kind) => {
                self.excerpt_left = EXCERPT_LINES;
                self.kept = false;
                self.suppressed.add(kind);
            }
            Some(kind) => {
                self.excerpt_left = EXCERPT_LINES;
                self.kept = true;
                self.console_faults.push(ConsoleFault {
                    kind,
                    severity: kind.severity(),
                    line: self.lines,
                    message: String::from_utf8_lossy(message).into_owned(),
                    excerpt: text.clone(),
                    at_us,
                    heading,
                });
            }
            None => {
                // kmemleak's report is indented; what follows it is another thing.
                let last = self.console_faults.last().filter(|_| self.kept);
                let is_leak =
                    last.is_some_and(|console_fault| console_fault.kind == FaultKind::Leak);
                if is_leak && !text.starts_with(' ') {
                    self.excerpt_left = 0;
                }
                let left = self.excerpt_left;
                self.excerpt_left = left.saturating_sub(1);
                if left > 0
                    && self.kept
                    && let Some(console_fault) = self.console_faults.last_mut()
                {
                    console_fault.excerpt.push('\n');
                    console_fault.excerpt.push_str(&text);
                }
            }
        }
        if self.last.len() == LAST_LINES {
            self.last.pop_front();
        }
        self.last.push_back(text);
    }

    /// Collects the lines between `cut here` and a fault, and returns them with the fault.
    fn heading(&mut self, message: &[u8], kind: Option<FaultKind>) -> String {
        if message.starts_with(CUT_HERE) {
            self.heading = Some(Vec::new());
        } else if kind.is_some() {
            return self.heading.take().unwrap_or_default().join(" ");
        } else if let Some(lines) = &mut self.heading {
            lines.push(String::from_utf8_lossy(message).trim().to_owned());
            self.heading.take_if(|lines| lines.len() > HEADING_LINES);
        }
        String::new()
    }

    fn has_room(&self, kind: FaultKind) -> bool {
        let alike = self
            .console_faults
            .iter()
            .filter(|known| known.kind == kind);
        alike.count() < FAULTS
    }
}

/// Takes terminal escape sequences, carriage returns and NULs out of a line.
fn without_escapes(line: &[u8]) -> Vec<u8> {
    static ESCAPES: LazyLock<Regex> = LazyLock::new(|| {
        let text =
            r"(?-u)\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])|[\r\x00]";
        Regex::new(text).expect("a constant, compiled by a test")
    });
    ESCAPES.replace_all(line, &b""[..]).into_owned()
}

/// The message of a line, without `<6>`, `[    1.234567]` and, from `CONFIG_PRINTK_CALLER`,
/// `[    T1]`; and the time stamp, in microseconds. User space may have left a line unended:
/// if the line does not start with a time stamp, the message starts behind the first one.
fn message(line: &[u8]) -> (&[u8], Option<u64>) {
    static STAMP: LazyLock<Regex> = LazyLock::new(|| {
        let text = r"(?-u)(?:<\d{1,3}>)?\[ *(\d+)\.(\d{6})\](?:\[ *[TC]\d+\])? ?";
        Regex::new(text).expect("a constant, compiled by a test")
    });
    let Some(stamp) = STAMP.captures(line) else {
        return (line, None);
    };
    let number = |index: usize| {
        let digits = stamp
            .get(index)
            .map_or(&b""[..], |digits| digits.as_bytes());
        let digit = |sum: u64, digit: &u8| {
            let digit = u64::from(digit.wrapping_sub(b'0'));
            sum.saturating_mul(10).saturating_add(digit)
        };
        digits.iter().fold(0, digit)
    };
    let at_us = number(1)
        .saturating_mul(1_000_000)
        .saturating_add(number(2));
    let end = stamp.get(0).map_or(0, |whole| whole.end());
    (&line[end..], Some(at_us))
}

#[cfg(test)]
mod tests;
