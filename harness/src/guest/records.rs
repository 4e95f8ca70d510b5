//! The records of one guest, as they come in.
//!
//! Only complete lines with a correct checksum become records.

use numalab_protocol::frame::Reader;
use numalab_protocol::{FrameError, Record};

/// The most bytes of one line. The longest record, a snapshot with many tasks, has some
/// tens of KiB.
pub const LINE_LIMIT: usize = 1024 * 1024;

/// The records so far.
#[derive(Debug, Default)]
pub struct Records {
    reader: Reader,
    records: Vec<Record>,
}

/// Why the records cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// A line is lost, doubled or mangled.
    #[error("the guest's records are damaged")]
    Frame(#[source] FrameError),
    /// More than [`LINE_LIMIT`] without a line feed.
    #[error("the guest sent a record of more than {LINE_LIMIT} bytes")]
    TooLong,
    /// The guest ended within a line.
    #[error("the guest ended within a record, after {line:?}")]
    Cut {
        /// The line, shortened.
        line: String,
    },
}

impl Records {
    /// Takes more bytes and returns the records that they complete. Those before an error
    /// are kept.
    pub fn push(&mut self, bytes: &[u8]) -> Result<&[Record], RecordsError> {
        let before = self.records.len();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            // Within the limit also before the reader has looked for the line's end.
            if self.reader.pending().len() + piece.len() > LINE_LIMIT {
                return Err(RecordsError::TooLong);
            }
            let complete = self.reader.push(piece).map_err(RecordsError::Frame)?;
            self.records.extend(complete);
        }
        Ok(&self.records[before..])
    }

    /// All records so far.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Checks that the last line is whole.
    pub fn finish(&self) -> Result<(), RecordsError> {
        let pending = self.reader.pending();
        if pending.is_empty() {
            return Ok(());
        }
        let line = String::from_utf8_lossy(pending);
        let line = line.chars().take(80).collect();
        Err(RecordsError::Cut { line })
    }

    /// The records.
    pub fn into_records(self) -> Vec<Record> {
        self.records
    }
}

#[cfg(test)]
mod tests {
    use numalab_protocol::Frame;

    use super::*;

    fn line(seq: u64) -> Vec<u8> {
        let record = Record::Window { uptime_ns: seq };
        Frame { seq, record }.to_line().unwrap().into_bytes()
    }

    #[test]
    fn records_before_a_damaged_line_are_kept() {
        let mut records = Records::default();
        let bytes = [line(0), line(1), line(3)].concat();
        let error = records.push(&bytes).unwrap_err();
        assert!(matches!(
            error,
            RecordsError::Frame(FrameError::Sequence { .. })
        ));
        assert_eq!(records.records().len(), 2);
    }

    #[test]
    fn a_line_without_end_is_given_up() {
        let mut records = Records::default();
        let piece = vec![b'x'; LINE_LIMIT / 2];
        records.push(&piece).unwrap();
        records.push(&piece).unwrap();
        assert!(matches!(records.push(b"x"), Err(RecordsError::TooLong)));
    }

    #[test]
    fn a_guest_that_ends_within_a_record_is_noticed() {
        let mut records = Records::default();
        let bytes = [line(0), line(1)[..9].to_vec()].concat();
        assert_eq!(records.push(&bytes).unwrap().len(), 1);
        let error = records.finish().unwrap_err().to_string();
        assert_eq!(
            error,
            r#"the guest ended within a record, after "{\"seq\":1,""#
        );
        records.push(&line(1)[9..]).unwrap();
        assert!(records.finish().is_ok());
    }
}
