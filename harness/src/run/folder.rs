//! Run folders: everything of one run in one place that no other run shares.

use std::fs;

use camino::{Utf8Path, Utf8PathBuf};
use serde::Serialize;

use crate::error::Error;

/// A folder `<time>-<name>`, made anew.
#[derive(Debug)]
pub(crate) struct RunFolder {
    path: Utf8PathBuf,
}

impl RunFolder {
    /// Checks that run folders can be made under `runs`, by making and removing a file.
    ///
    /// # Errors
    /// They cannot.
    pub(crate) fn check_parent(runs: &Utf8Path) -> Result<(), Error> {
        fs::create_dir_all(runs).map_err(Error::file("make", runs))?;
        let probe = tempfile::Builder::new().prefix(".tmp-").tempfile_in(runs);
        probe.map_err(Error::file("write to", runs))?;
        Ok(())
    }

    /// Makes a folder under `runs`. Two runs of one name in one second get different ones.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn create(runs: &Utf8Path, name: &str) -> Result<RunFolder, Error> {
        fs::create_dir_all(runs).map_err(Error::file("make", runs))?;
        let time = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
        let name: String = name
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || "-._+".contains(c) {
                    c
                } else {
                    '-'
                }
            })
            .take(120)
            .collect();
        for attempt in 0.. {
            let suffix = if attempt == 0 {
                String::new()
            } else {
                format!(".{attempt}")
            };
            let path = runs.join(format!("{time}-{name}{suffix}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(RunFolder { path }),
                // Making it is what decides whose it is.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::file("make", &path)(error)),
            }
        }
        unreachable!("the loop ends only by returning")
    }

    /// A run folder that was made before.
    pub(crate) fn at(path: Utf8PathBuf) -> RunFolder {
        RunFolder { path }
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// A file in it.
    pub(crate) fn file(&self, name: &str) -> Utf8PathBuf {
        self.path.join(name)
    }

    /// Writes a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<Utf8PathBuf, Error> {
        let path = self.file(name);
        fs::write(&path, bytes).map_err(Error::file("write", &path))?;
        Ok(path)
    }

    /// Writes a value as JSON.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), Error> {
        let mut bytes = serde_json::to_vec_pretty(value)
            .map_err(|error| Error::file("write", &self.file(name))(error.into()))?;
        bytes.push(b'\n');
        self.write(name, &bytes)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_one_name_never_meet() {
        let temporary = tempfile::tempdir().unwrap();
        let runs = Utf8Path::from_path(temporary.path()).unwrap().join("runs");
        let make = || {
            RunFolder::create(&runs, "cpuset/single node")
                .unwrap()
                .path()
                .to_owned()
        };
        let folders: std::collections::BTreeSet<_> = (0..20).map(|_| make()).collect();
        assert_eq!(folders.len(), 20);
        assert!(
            folders
                .iter()
                .all(|folder| folder.as_str().contains("-cpuset-single-node"))
        );
    }
}
