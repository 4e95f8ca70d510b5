//! Files of gcov as records: the guest splits them into pieces, the host joins them.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::record::{Phase, Record};

/// Bytes per piece.
const PIECE: usize = 24 * 1024;

/// The maximum number of files per phase.
pub const MOST_FILES: usize = 256;

/// The maximum size of all files of one phase together.
pub const MOST_BYTES: usize = 8 * 1024 * 1024;

/// Why files cannot be read from records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CoverageError {
    /// A piece is missing, duplicated or out of order.
    #[error("the guest sent a piece of {file} at byte {offset} out of order")]
    Order {
        /// The file.
        file: String,
        /// Where the piece begins.
        offset: usize,
    },
    /// Not base64.
    #[error("the guest's piece of {file} at byte {offset} is not base64")]
    Form {
        /// The file.
        file: String,
        /// Where the piece begins.
        offset: usize,
    },
    /// The bytes are not those that the guest read.
    #[error("the guest's file {file} is corrupt: its checksum does not match")]
    Check {
        /// The file.
        file: String,
    },
    /// The guest sent more than it may.
    #[error("the guest sent more than {MOST_BYTES} bytes of coverage")]
    TooMuch,
    /// The guest has omitted files.
    #[error("the guest omitted {0} files of coverage: there are too many, or they are too large")]
    LeftOut(usize),
    /// The phase has no end.
    #[error("the guest did not send all of its coverage")]
    Unfinished,
}

/// The files of one phase by name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// A file as records.
pub fn pieces(phase: Phase, file: &str, bytes: &[u8]) -> impl Iterator<Item = Record> {
    let check = crc32fast::hash(bytes);
    let starts = (0..bytes.len().max(1)).step_by(PIECE);
    starts.map(move |offset| {
        let piece = &bytes[offset..bytes.len().min(offset + PIECE)];
        Record::Coverage {
            phase,
            file: file.into(),
            length: bytes.len(),
            check,
            offset,
            data: STANDARD.encode(piece),
        }
    })
}

/// The files of a phase among the records of a guest.
///
/// # Errors
/// Files are missing, incomplete or corrupt.
pub fn files(records: &[Record], wanted: Phase) -> Result<Files, CoverageError> {
    let mut files = Files::new();
    let mut all = 0_usize;
    let mut open: Option<(&str, usize, u32)> = None;
    let mut end = None;
    for record in records {
        match record {
            Record::Coverage {
                phase,
                file,
                length,
                check,
                offset,
                data,
            } if *phase == wanted => {
                let order = || CoverageError::Order {
                    file: file.clone(),
                    offset: *offset,
                };
                let continued = open.is_some_and(|open| open == (file, *length, *check));
                if (open.is_some() && !continued)
                    || (open.is_none() && files.contains_key(file))
                    || end.is_some()
                {
                    return Err(order());
                }
                let bytes = files.entry(file.clone()).or_default();
                let piece = STANDARD.decode(data).map_err(|_| CoverageError::Form {
                    file: file.clone(),
                    offset: *offset,
                })?;
                all = all.saturating_add(piece.len());
                if all > MOST_BYTES || *length > MOST_BYTES {
                    return Err(CoverageError::TooMuch);
                }
                if bytes.len() != *offset || bytes.len() + piece.len() > *length {
                    return Err(order());
                }
                bytes.extend(piece);
                if bytes.len() == *length {
                    if crc32fast::hash(bytes) != *check {
                        return Err(CoverageError::Check { file: file.clone() });
                    }
                    open = None;
                } else {
                    open = Some((file, *length, *check));
                }
            }
            Record::CoverageEnd {
                phase,
                files: count,
                left_out,
            } if *phase == wanted => {
                if *left_out > 0 {
                    return Err(CoverageError::LeftOut(*left_out));
                }
                if open.is_some() || files.len() != *count || end.is_some() {
                    return Err(CoverageError::Unfinished);
                }
                end = Some(());
            }
            _ => {}
        }
    }
    end.map(|()| files).ok_or(CoverageError::Unfinished)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sent(phase: Phase, contents: &[(&str, &[u8])]) -> Vec<Record> {
        let mut records: Vec<Record> = contents
            .iter()
            .flat_map(|(file, bytes)| pieces(phase, file, bytes).collect::<Vec<_>>())
            .collect();
        records.push(Record::CoverageEnd {
            phase,
            files: contents.len(),
            left_out: 0,
        });
        records
    }

    #[test]
    fn phases_are_kept_apart() {
        let mut records = sent(Phase::Boot, &[("a.gcda", b"1")]);
        records.extend(sent(Phase::Steps, &[("a.gcda", b"2"), ("b.gcda", b"")]));
        assert_eq!(files(&records, Phase::Boot).unwrap()["a.gcda"], b"1");
        let steps = files(&records, Phase::Steps).unwrap();
        assert_eq!(
            (&steps["a.gcda"][..], &steps["b.gcda"][..]),
            (&b"2"[..], &b""[..])
        );
    }

    #[test]
    fn incomplete_coverage_is_an_error() {
        let long = vec![7; 3 * PIECE];
        let whole = sent(Phase::Steps, &[("a", &long), ("b", b"x")]);
        assert!(files(&whole, Phase::Steps).is_ok());
        for gone in 0..whole.len() {
            let mut records = whole.clone();
            records.remove(gone);
            assert!(files(&records, Phase::Steps).is_err(), "without {gone}");
        }
        for doubled in 0..whole.len() {
            let mut records = whole.clone();
            records.insert(doubled, whole[doubled].clone());
            assert!(files(&records, Phase::Steps).is_err(), "{doubled} twice");
        }
        assert_eq!(files(&[], Phase::Steps), Err(CoverageError::Unfinished));
    }

    #[test]
    fn omitted_files_are_an_error() {
        let records = [Record::CoverageEnd {
            phase: Phase::Steps,
            files: 0,
            left_out: 3,
        }];
        assert_eq!(
            files(&records, Phase::Steps),
            Err(CoverageError::LeftOut(3))
        );
    }

    proptest! {
        #[test]
        fn a_file_comes_back(bytes in proptest::collection::vec(any::<u8>(), 0..(2 * PIECE + 9))) {
            let records = sent(Phase::Boot, &[("f", &bytes)]);
            prop_assert_eq!(&files(&records, Phase::Boot).unwrap()["f"], &bytes);
        }

        // One changed byte of a piece never results in another file.
        #[test]
        fn a_corrupt_piece_is_refused(at in 0_usize..40, to in any::<u8>()) {
            let mut records = sent(Phase::Boot, &[("f", &[5; 30])]);
            let Record::Coverage { data, .. } = &mut records[0] else { unreachable!() };
            let mut bytes = data.clone().into_bytes();
            let at = at % bytes.len();
            let same = bytes[at] == to;
            bytes[at] = to;
            *data = String::from_utf8_lossy(&bytes).into_owned();
            prop_assert_eq!(files(&records, Phase::Boot).is_ok(), same);
        }
    }
}
