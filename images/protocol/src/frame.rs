//! Frames: one record per line, with a sequence number and a checksum.
//!
//! A line is `{"seq":N,"crc":"xxxxxxxx","record":{...}}`. The checksum is the CRC-32 (IEEE)
//! of `N:` and the text of the record, so that a lost, duplicated, reordered or corrupt line
//! is an error, and never just a missing value.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::record::Record;

/// A record with its sequence number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// 0 for the first record of a guest, then 1, 2, ...
    pub seq: u64,
    /// The record.
    pub record: Record,
}

/// Why a line is not the next frame.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The line does not have the format of a frame.
    #[error("the record line {line:?} is corrupt")]
    Form {
        /// The line, shortened.
        line: String,
        /// The error of the parser.
        #[source]
        source: serde_json::Error,
    },
    /// The checksum does not match.
    #[error("record {seq} is corrupt: its checksum is {found}, but its text has {expected}")]
    Check {
        /// The number in the line.
        seq: u64,
        /// The value in the line.
        found: String,
        /// The value of the text.
        expected: String,
    },
    /// The text is intact, but not a record that this version knows.
    #[error("record {seq} is not valid in contract {}", crate::CONTRACT)]
    Unknown {
        /// The number in the line.
        seq: u64,
        /// The error of the parser.
        #[source]
        source: serde_json::Error,
    },
    /// A line is missing or duplicated.
    #[error("record {expected} is missing: record {found} came instead")]
    Sequence {
        /// The number that should have come.
        expected: u64,
        /// The number that came.
        found: u64,
    },
}

#[derive(Serialize, Deserialize)]
struct Line<'a> {
    seq: u64,
    crc: String,
    #[serde(borrow)]
    record: &'a RawValue,
}

fn check(seq: u64, text: &str) -> String {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(format!("{seq}:").as_bytes());
    hasher.update(text.as_bytes());
    format!("{:08x}", hasher.finalize())
}

impl Frame {
    /// Writes the frame as a line, with its line feed.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        let record = serde_json::value::to_raw_value(&self.record)?;
        let crc = check(self.seq, record.get());
        let mut line = serde_json::to_string(&Line {
            seq: self.seq,
            crc,
            record: &record,
        })?;
        line.push('\n');
        Ok(line)
    }

    /// Reads a line, without its line feed.
    pub fn from_line(line: &[u8]) -> Result<Frame, FrameError> {
        let parsed: Line<'_> = serde_json::from_slice(line).map_err(|source| {
            let text = String::from_utf8_lossy(line);
            let line = text.chars().take(80).collect();
            FrameError::Form { line, source }
        })?;
        let expected = check(parsed.seq, parsed.record.get());
        if expected != parsed.crc {
            return Err(FrameError::Check {
                seq: parsed.seq,
                found: parsed.crc,
                expected,
            });
        }
        let record =
            serde_json::from_str(parsed.record.get()).map_err(|source| FrameError::Unknown {
                seq: parsed.seq,
                source,
            })?;
        Ok(Frame {
            seq: parsed.seq,
            record,
        })
    }
}

/// Splits a stream of bytes into frames and checks that none is missing.
#[derive(Debug, Default)]
pub struct Reader {
    pending: Vec<u8>,
    next: u64,
}

impl Reader {
    /// Adds bytes and returns the records that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Record>, FrameError> {
        self.pending.extend_from_slice(bytes);
        let mut records = Vec::new();
        let mut start = 0;
        while let Some(length) = self.pending[start..].iter().position(|b| *b == b'\n') {
            let frame = Frame::from_line(&self.pending[start..start + length])?;
            start += length + 1;
            if frame.seq != self.next {
                return Err(FrameError::Sequence {
                    expected: self.next,
                    found: frame.seq,
                });
            }
            self.next += 1;
            records.push(frame.record);
        }
        self.pending.drain(..start);
        Ok(records)
    }

    /// The bytes of a line that has not ended yet.
    pub fn pending(&self) -> &[u8] {
        &self.pending
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn window(seq: u64) -> Frame {
        Frame {
            seq,
            record: Record::Window { uptime_ns: 1234 },
        }
    }

    #[test]
    fn a_line_gives_its_frame_back() {
        let line = window(7).to_line().unwrap();
        assert_eq!(
            Frame::from_line(line.trim_end().as_bytes()).unwrap(),
            window(7)
        );
    }

    #[test]
    fn lines_may_come_in_pieces() {
        let text = [window(0).to_line().unwrap(), window(1).to_line().unwrap()].concat();
        let mut reader = Reader::default();
        let mut seen = 0;
        for byte in text.as_bytes() {
            seen += reader.push(&[*byte]).unwrap().len();
        }
        assert_eq!(seen, 2);
        assert!(reader.pending().is_empty());
    }

    #[test]
    fn a_lost_line_is_an_error() {
        let mut reader = Reader::default();
        reader
            .push(window(0).to_line().unwrap().as_bytes())
            .unwrap();
        let error = reader
            .push(window(2).to_line().unwrap().as_bytes())
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "record 1 is missing: record 2 came instead"
        );
    }

    #[test]
    fn a_duplicated_line_is_an_error() {
        let mut reader = Reader::default();
        let line = window(0).to_line().unwrap();
        reader.push(line.as_bytes()).unwrap();
        assert!(matches!(
            reader.push(line.as_bytes()),
            Err(FrameError::Sequence {
                expected: 1,
                found: 0
            })
        ));
    }

    proptest! {
        // One changed byte anywhere never gives a different record.
        #[test]
        fn a_corrupt_line_never_gives_another_record(at in 0_usize..60, to in any::<u8>()) {
            let line = window(3).to_line().unwrap();
            let mut bytes = line.trim_end().as_bytes().to_vec();
            let at = at % bytes.len();
            bytes[at] = to;
            if let Ok(frame) = Frame::from_line(&bytes) {
                prop_assert_eq!(frame, window(3));
            }
        }
    }
}
