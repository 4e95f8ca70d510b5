//! The archive: a tar file, compressed with xz, the same bytes each time.

use std::collections::BTreeMap;
use std::io::{self, Write as _};

use liblzma::write::XzEncoder;

/// Every entry's time: 2000-01-01. GNU tar warns of the epoch itself.
const TIME: u64 = 946_684_800;

/// How hard xz tries. More than this gains a hundredth on a kernel's image.
const LEVEL: u32 = 6;

/// A file in the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its content.
    pub(super) bytes: Vec<u8>,
    mode: u32,
}

impl Entry {
    /// A file to read.
    pub(super) fn file(bytes: Vec<u8>) -> Entry {
        Entry { bytes, mode: 0o644 }
    }

    /// A file to execute.
    pub(super) fn program(bytes: Vec<u8>) -> Entry {
        Entry { bytes, mode: 0o755 }
    }
}

/// Packs files below a folder called `name`.
pub(super) fn pack(name: &str, entries: &BTreeMap<String, Entry>) -> io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(XzEncoder::new(Vec::new(), LEVEL));
    for (file, entry) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(entry.bytes.len() as u64);
        header.set_mode(entry.mode);
        header.set_mtime(TIME);
        header.set_uid(0);
        header.set_gid(0);
        tar.append_data(
            &mut header,
            format!("{name}/{file}"),
            entry.bytes.as_slice(),
        )?;
    }
    let mut archive = tar.into_inner()?.finish()?;
    archive.flush()?;
    Ok(archive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_files_give_the_same_bytes() {
        let entries: BTreeMap<String, Entry> = [
            ("b".to_owned(), Entry::program(vec![1; 5000])),
            ("a/c".to_owned(), Entry::file(vec![])),
        ]
        .into();
        let archive = pack("run", &entries).unwrap();
        assert_eq!(archive, pack("run", &entries).unwrap());
        let mut tar = tar::Archive::new(liblzma::read::XzDecoder::new(archive.as_slice()));
        let names: Vec<(String, u32)> = tar
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let mode = entry.header().mode().unwrap();
                (entry.path().unwrap().display().to_string(), mode)
            })
            .collect();
        assert_eq!(
            names,
            [("run/a/c".to_owned(), 0o644), ("run/b".to_owned(), 0o755)]
        );
    }
}
