//! The first line in which the records, or the consoles, of two runs differ.

use std::fmt;

use numalab_protocol::Frame;

use crate::guest::escape::escape;

/// How the records, or the console, of two runs compare.
#[derive(Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordDiff {
    /// The records are the same bytes.
    Identical {
        /// How many records.
        records: usize,
    },
    /// They are not.
    Differs {
        /// The first line that differs, from 1.
        line: usize,
        /// That line then; `None` if there was none.
        then: Option<String>,
        /// That line now; `None` if there is none.
        now: Option<String>,
    },
}

impl RecordDiff {
    /// Compares line by line.
    pub(crate) fn of(then: &[u8], now: &[u8]) -> RecordDiff {
        let lines = |bytes: &[u8]| -> Vec<Vec<u8>> {
            bytes
                .split_inclusive(|byte| *byte == b'\n')
                .map(<[u8]>::to_vec)
                .collect()
        };
        let (then, now) = (lines(then), lines(now));
        let differs =
            (0..then.len().max(now.len())).find(|index| then.get(*index) != now.get(*index));
        match differs {
            None => RecordDiff::Identical {
                records: then.len(),
            },
            Some(index) => {
                let text = |lines: &[Vec<u8>]| {
                    lines
                        .get(index)
                        .map(|line| String::from_utf8_lossy(line).trim_end().to_owned())
                };
                RecordDiff::Differs {
                    line: index + 1,
                    then: text(&then),
                    now: text(&now),
                }
            }
        }
    }
}

impl fmt::Display for RecordDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordDiff::Identical { records } => write!(f, "identical: {records} records"),
            RecordDiff::Differs { line, then, now } => {
                writeln!(f, "record {line} is the first that differs")?;
                let texts = [then, now].map(|text| text.as_deref().unwrap_or("nothing"));
                let [then_shown, now_shown] = around_difference(texts);
                write!(f, "  then: {then_shown}\n  now:  {now_shown}")?;
                // The guest did not write a line that does not match its own check value.
                match then
                    .as_deref()
                    .map(|text| Frame::from_line(text.as_bytes()))
                {
                    Some(Err(error)) => {
                        write!(f, "\n  the kept line is not as it was written: {error}")
                    }
                    _ => Ok(()),
                }
            }
        }
    }
}

/// How much of a line is shown before and after the first place that differs.
const CONTEXT: usize = 60;

fn around_difference(texts: [&str; 2]) -> [String; 2] {
    let [one, other] = texts.map(|text| text.chars().collect::<Vec<char>>());
    let same = one
        .iter()
        .zip(&other)
        .take_while(|(one, other)| one == other)
        .count();
    let first = same.saturating_sub(CONTEXT);
    [one, other].map(|text| {
        let last = text.len().min(same + CONTEXT);
        let part: String = text[first.min(last)..last].iter().collect();
        let before = if first > 0 { "..." } else { "" };
        let after = if last < text.len() { "..." } else { "" };
        format!("{before}{}{after}", escape(part.as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_found() {
        assert_eq!(
            RecordDiff::of(b"a\nb\n", b"a\nb\n"),
            RecordDiff::Identical { records: 2 }
        );
        let differs = RecordDiff::of(b"a\nb\nc\n", b"a\nx\nc\n");
        let shown = differs.to_string();
        assert!(shown.starts_with("record 2 is the first that differs\n  then: b\n  now:  x\n"));
        assert!(shown.contains("not as it was written"), "{shown}");
        let long = |digit| format!("{}{digit}{}\n", "a".repeat(500), "b".repeat(500));
        let shown = RecordDiff::of(long(1).as_bytes(), long(2).as_bytes()).to_string();
        assert!(shown.contains("a1b") && shown.contains("a2b"), "{shown}");
        let shorter = RecordDiff::of(b"a\nb\n", b"a\n");
        assert!(shorter.to_string().contains("then: b\n  now:  nothing"));
    }
}
