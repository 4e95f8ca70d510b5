//! A file that grows while it is read.
//!
//! Each read returns what has been added since the last one.

use std::fs::File;
use std::io::{self, Read};

use camino::{Utf8Path, Utf8PathBuf};

/// The most bytes taken at once, so that one file does not keep the other waiting.
const CHUNK: u64 = 256 * 1024;

/// A file that is followed from its start.
#[derive(Debug)]
pub struct Follower {
    file: File,
    path: Utf8PathBuf,
    seen: u64,
    limit: u64,
}

/// Why a file is not followed any further.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// It cannot be made or read.
    #[error("{path} cannot be used")]
    Io {
        /// The file.
        path: Utf8PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is longer than it may be.
    #[error("{path} has more than {limit} bytes")]
    TooLong {
        /// The file.
        path: Utf8PathBuf,
        /// The limit.
        limit: u64,
    },
}

impl Follower {
    /// Makes the file, empty, and follows it. QEMU opens it later and empties it again.
    pub fn create(path: &Utf8Path, limit: u64) -> Result<Follower, FollowError> {
        let io = |source| FollowError::Io {
            path: path.into(),
            source,
        };
        File::create(path).map_err(io)?;
        Follower::open(path, limit)
    }

    /// Follows a file that is there, with what it holds already. QEMU adds to it.
    pub fn open(path: &Utf8Path, limit: u64) -> Result<Follower, FollowError> {
        let file = File::open(path).map_err(|source| FollowError::Io {
            path: path.into(),
            source,
        })?;
        Ok(Follower {
            file,
            path: path.into(),
            seen: 0,
            limit,
        })
    }

    /// What has been added, at most 256 KiB of it; empty if there is nothing new. Everything up
    /// to the limit is returned before the error: the first lines show what floods the file.
    pub fn more(&mut self) -> Result<Vec<u8>, FollowError> {
        let mut bytes = Vec::new();
        let most = match self.limit.saturating_sub(self.seen) {
            0 => 1,
            allowed => allowed.min(CHUNK),
        };
        let read = (&mut self.file).take(most).read_to_end(&mut bytes);
        read.map_err(|source| FollowError::Io {
            path: self.path.clone(),
            source,
        })?;
        self.seen += bytes.len() as u64;
        if self.seen > self.limit {
            return Err(FollowError::TooLong {
                path: self.path.clone(),
                limit: self.limit,
            });
        }
        Ok(bytes)
    }

    /// Where it is.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Whether its file system has no room for more, as far as that can be known.
    pub fn has_no_room(&self) -> bool {
        // Less than QEMU's longest write: a nearly full file system refuses one and takes
        // the next.
        const ROOM: u64 = 16 * 1024;
        let room = rustix::fs::fstatvfs(&self.file);
        room.is_ok_and(|room| room.f_bavail.saturating_mul(room.f_frsize) < ROOM)
    }

    /// Bytes read so far.
    pub fn seen(&self) -> u64 {
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_is_added_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::try_from(folder.path().join("f")).unwrap();
        std::fs::write(&path, "of an earlier run").unwrap();
        let mut follower = Follower::create(&path, 20).unwrap();
        assert!(follower.more().unwrap().is_empty());
        let mut file = File::create(&path).unwrap();
        file.write_all(b"one").unwrap();
        assert_eq!(follower.more().unwrap(), b"one");
        assert!(follower.more().unwrap().is_empty());
        file.write_all(b"two").unwrap();
        assert_eq!(follower.more().unwrap(), b"two");
        assert_eq!(follower.seen(), 6);
    }

    #[test]
    fn what_is_there_already_is_read_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::try_from(folder.path().join("f")).unwrap();
        std::fs::write(&path, "before").unwrap();
        let mut follower = Follower::open(&path, 20).unwrap();
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b" and after").unwrap();
        assert_eq!(follower.more().unwrap(), b"before and after");
    }

    #[test]
    fn a_file_that_grows_beyond_its_limit_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::try_from(folder.path().join("f")).unwrap();
        let mut follower = Follower::create(&path, 20).unwrap();
        std::fs::write(&path, [b'x'; 20]).unwrap();
        assert_eq!(follower.more().unwrap().len(), 20);
        std::fs::write(&path, [b'x'; 21]).unwrap();
        assert!(matches!(
            follower.more(),
            Err(FollowError::TooLong { limit: 20, .. })
        ));
    }

    #[test]
    fn a_flood_is_read_up_to_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::try_from(folder.path().join("f")).unwrap();
        let mut follower = Follower::create(&path, 20).unwrap();
        std::fs::write(&path, [b'x'; 100]).unwrap();
        assert_eq!(follower.more().unwrap().len(), 20);
        for _ in 0..2 {
            assert!(follower.more().is_err());
        }
    }

    #[test]
    fn a_missing_folder_is_reported_at_once() {
        let error = Follower::create(Utf8Path::new("/nonexistent/console"), 1).unwrap_err();
        assert_eq!(error.to_string(), "/nonexistent/console cannot be used");
    }
}
