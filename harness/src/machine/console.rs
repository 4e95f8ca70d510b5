//! The kernel's console: looked through for trouble, never for results.
//!
//! Works on bytes, in whatever pieces they come. Which messages are trouble is in
//! `trouble`; what follows from it is the caller's.

use std::collections::VecDeque;
use std::sync::LazyLock;

use regex::bytes::Regex;

use super::trouble::{Kind, Severity, classify};

/// The most bytes of a line that are looked at.
const LINE_LIMIT: usize = 4096;

/// Lines of an excerpt after its first: a warning with registers and a short call trace.
const EXCERPT_LINES: usize = 40;

/// The most troubles that are kept; a guest that warns without end is no more broken.
pub const TROUBLES: usize = 100;

/// Lines that are kept for "the last console lines".
const LAST_LINES: usize = 20;

/// A piece of trouble.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Trouble {
    /// What kind.
    pub kind: Kind,
    /// How bad.
    pub severity: Severity,
    /// The line's number in the console, from 1.
    pub line: u64,
    /// The message, without printk's prefix, decoded lossily. Not fit for a terminal
    /// (`escape`).
    pub message: String,
    /// The line and those after it, as they are.
    pub excerpt: String,
}

/// The console so far.
#[derive(Debug, Default)]
pub struct Console {
    pending: Vec<u8>,
    lines: u64,
    stamps: bool,
    last: VecDeque<String>,
    troubles: Vec<Trouble>,
    excerpt_left: usize,
    suppressed: u64,
}

impl Console {
    /// Takes more bytes. Returns the troubles that they bring; their excerpts are not
    /// complete yet.
    pub fn push(&mut self, bytes: &[u8]) -> &[Trouble] {
        let before = self.troubles.len();
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
        &self.troubles[before..]
    }

    /// Looks at a last line without a line feed: a guest that stops in a panic may not end
    /// it.
    pub fn finish(&mut self) -> &[Trouble] {
        let before = self.troubles.len();
        if !self.pending.is_empty() {
            let line = std::mem::take(&mut self.pending);
            self.line(&line);
        }
        &self.troubles[before..]
    }

    /// The troubles so far, at most [`TROUBLES`].
    pub fn troubles(&self) -> &[Trouble] {
        &self.troubles
    }

    /// How many more there were.
    pub fn suppressed(&self) -> u64 {
        self.suppressed
    }

    /// The last lines, decoded lossily and not fit for a terminal.
    pub fn last_lines(&self) -> impl Iterator<Item = &str> {
        self.last.iter().map(String::as_str)
    }

    /// Gives away the troubles and the last lines.
    pub fn into_parts(self) -> (Vec<Trouble>, Vec<String>) {
        (self.troubles, self.last.into())
    }

    fn line(&mut self, raw: &[u8]) {
        self.lines += 1;
        let line = without_escapes(raw);
        let text = String::from_utf8_lossy(&line).into_owned();
        let (message, stamped) = message(&line);
        self.stamps |= stamped;
        let kind = classify(message, stamped || !self.stamps);
        // The call trace of a trouble belongs to it.
        let kind = kind.filter(|kind| *kind != Kind::CallTrace || self.excerpt_left == 0);
        match kind {
            Some(_) if self.troubles.len() == TROUBLES => self.suppressed += 1,
            Some(kind) => {
                self.excerpt_left = EXCERPT_LINES;
                self.troubles.push(Trouble {
                    kind,
                    severity: kind.severity(),
                    line: self.lines,
                    message: String::from_utf8_lossy(message).into_owned(),
                    excerpt: text.clone(),
                });
            }
            None => {
                if let (1.., Some(trouble)) = (self.excerpt_left, self.troubles.last_mut()) {
                    self.excerpt_left -= 1;
                    trouble.excerpt.push('\n');
                    trouble.excerpt.push_str(&text);
                }
            }
        }
        if self.last.len() == LAST_LINES {
            self.last.pop_front();
        }
        self.last.push_back(text);
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
/// `[    T1]`; and whether there was a time stamp. User space may have left a line unended:
/// if the line does not start with a time stamp, the message starts behind the first one.
fn message(line: &[u8]) -> (&[u8], bool) {
    static STAMP: LazyLock<Regex> = LazyLock::new(|| {
        let text = r"(?-u)(?:<\d{1,3}>)?\[ *\d+\.\d{6}\](?:\[ *[TC]\d+\])? ?";
        Regex::new(text).expect("a constant, compiled by a test")
    });
    match STAMP.find(line) {
        Some(stamp) => (&line[stamp.end()..], true),
        None => (line, false),
    }
}

#[cfg(test)]
mod tests;
