//! The counts of a kernel built with gcov, as files of `/sys/kernel/debug/gcov`
//! (`Documentation/dev-tools/gcov.rst`).
//!
//! Opening such a file copies its counts (`gcov_seq_open`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use numalab_protocol::Record;
use numalab_protocol::coverage::{MOST_BYTES, MOST_FILES, pieces};
use numalab_protocol::record::Phase;

use crate::errno::{CallError, failed};
use crate::file;
use crate::records::Records;
use crate::stop::{Stage, Stop};

const ROOT: &str = "/sys/kernel/debug/gcov";

/// Sends the counts since power on, and resets them.
pub(crate) fn begin(records: &mut Records) -> Result<(), Stop> {
    send(records, Phase::Boot)?;
    file::write(&format!("{ROOT}/reset"), "1").stage("coverage")
}

/// Sends the counts since [`begin`].
pub(crate) fn end(records: &mut Records) -> Result<(), Stop> {
    send(records, Phase::Steps)
}

fn send(records: &mut Records, phase: Phase) -> Result<(), Stop> {
    let mut paths = Vec::new();
    find(Path::new(ROOT), &mut paths).stage("coverage")?;
    paths.sort();
    let (mut sent, mut left_out, mut all) = (0, 0, 0_usize);
    for path in paths {
        let bytes = fs::read(&path)
            .map_err(unreadable(&path))
            .stage("coverage")?;
        if sent == MOST_FILES || all + bytes.len() > MOST_BYTES {
            left_out += 1;
            continue;
        }
        all += bytes.len();
        sent += 1;
        let name = path.strip_prefix(ROOT).unwrap_or(&path).to_string_lossy();
        for record in pieces(phase, &name, &bytes) {
            records.send(record)?;
        }
    }
    records.send(Record::CoverageEnd {
        phase,
        files: sent,
        left_out,
    })?;
    Ok(records.drain()?)
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> CallError {
    let path = path.display();
    failed(format!(
        "{path} cannot be read (the kernel needs CONFIG_GCOV_KERNEL)"
    ))
}

/// All files of counts below a folder. The links beside them, to files of the compiler, are
/// dangling in a guest.
fn find(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<(), CallError> {
    for entry in fs::read_dir(folder).map_err(unreadable(folder))? {
        let entry = entry.map_err(unreadable(folder))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(unreadable(&path))?;
        if kind.is_dir() {
            find(&path, paths)?;
        } else if kind.is_file() && path.extension().is_some_and(|end| end == "gcda") {
            paths.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_counts_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/b");
        fs::create_dir_all(&deep).unwrap();
        for name in ["fair.gcda", "fair.gcno", "reset"] {
            fs::write(deep.join(name), "").unwrap();
        }
        std::os::unix::fs::symlink(deep.join("fair.gcda"), deep.join("link.gcda")).unwrap();
        let mut paths = Vec::new();
        find(folder.path(), &mut paths).unwrap();
        assert_eq!(paths, [deep.join("fair.gcda")]);
    }

    #[test]
    fn the_error_without_gcov_names_the_option() {
        let error = find(Path::new("/nonexistent/gcov"), &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("CONFIG_GCOV_KERNEL"), "{error}");
    }
}
