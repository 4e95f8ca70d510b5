//! Object trees: one for each source and configuration, kept from build to build.
//!
//! A marker lies beside an object tree while a tool writes into it. If it is still
//! there when the next build starts, the tool was not left to end by itself: a file
//! written since may be cut off and yet newer than its source, so all of these are
//! removed, and the build makes them anew.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::cache::CacheError;
use crate::digest::Digest;
use crate::files::empty;
use crate::warnings::CompilerWarning;

/// The object trees of one source tree.
pub(crate) struct ObjectTree {
    folder: PathBuf,
    name: String,
}

/// What is remembered beside an object tree.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct BuildState {
    /// What the `.config` in it was made from.
    pub(crate) configured: Option<Digest>,
    /// The warnings of that.
    #[serde(default)]
    pub(crate) warnings: Vec<String>,
    /// For a git source: the id of the tree that it was built from last.
    #[serde(default)]
    pub(crate) tree: Option<String>,
    /// What became of a whole configuration.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
    /// The compiler's warnings about all that is in the tree; `None` if they are not known.
    #[serde(default)]
    pub(crate) compiler_warnings: Option<Vec<CompilerWarning>>,
    /// Steps of the last build that began with nothing.
    pub(crate) cold_steps: Option<u64>,
    /// Steps of the last other build.
    pub(crate) warm_steps: Option<u64>,
}

impl ObjectTree {
    /// The object tree `name` beside a source; the caller holds the entry's lock.
    pub(crate) fn of(folder: &Path, name: &str) -> Self {
        Self {
            folder: folder.to_owned(),
            name: format!("obj-{name}"),
        }
    }

    /// Where the build's output goes.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    /// Whether nothing was ever built in it.
    pub(crate) fn is_empty(&self) -> bool {
        fs::read_dir(self.path()).map_or(true, |mut items| items.next().is_none())
    }

    /// Whether a build in it has come to its end.
    pub(crate) fn is_whole(&self) -> bool {
        self.path().join("vmlinux").is_file()
            && !self.beside("building").exists()
            && self.memory().configured.is_some()
    }

    fn beside(&self, what: &str) -> PathBuf {
        self.folder.join(format!("{}.{what}", self.name))
    }

    pub(crate) fn memory(&self) -> BuildState {
        fs::read(self.beside("memory"))
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default()
    }

    pub(crate) fn remember(&self, memory: &BuildState) -> Result<(), CacheError> {
        let path = self.beside("memory");
        let fault = |error| CacheError::io("write", &path, error);
        let text = serde_json::to_vec(memory).map_err(|error| fault(error.into()))?;
        let new = self.beside("memory-new");
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, &path))
            .map_err(fault)
    }

    /// Makes the tree fit for a build. Returns how many files an interrupted build
    /// left that are not to be trusted; they are gone.
    pub(crate) fn prepare(&self) -> Result<usize, CacheError> {
        let path = self.path();
        fs::create_dir_all(&path).map_err(|error| CacheError::io("make", &path, error))?;
        let marker = self.beside("building");
        let mut removed = 0;
        if let Ok(data) = fs::metadata(&marker) {
            // Also what the configuration in it was made from is unknown now.
            let memory = BuildState {
                configured: None,
                ..self.memory()
            };
            self.remember(&memory)?;
            let since = changed(&data);
            remove_since(&path, since, &mut removed)
                .map_err(|error| CacheError::io("clean", &path, error))?;
            fs::remove_file(&marker).map_err(|error| CacheError::io("remove", &marker, error))?;
        }
        if self.is_empty() {
            self.remember(&BuildState {
                compiler_warnings: Some(Vec::new()),
                ..self.memory()
            })?;
        }
        Ok(removed)
    }

    /// Removes all that is in the tree.
    pub(crate) fn clear(&self) -> Result<(), CacheError> {
        let path = self.path();
        empty(&path).map_err(|error| CacheError::io("clean", &path, error))
    }

    /// Removes what was compiled with an included file of one of these last names, as
    /// kbuild's own dependency files tell. Returns how much that was.
    ///
    /// A file that has appeared in the source can be found in place of another one of its
    /// name that comes later in the search, which `make` cannot know. Whatever it may hide
    /// has its last name, so nothing else is concerned.
    pub(crate) fn forget_users_of(&self, names: &BTreeSet<String>) -> Result<usize, CacheError> {
        let path = self.path();
        let mut removed = 0;
        forget(&path, names, &mut removed)
            .map_err(|error| CacheError::io("clean", &path, error))?;
        Ok(removed)
    }

    /// Puts the marker: from here on a tool may write.
    pub(crate) fn begin(&self) -> Result<(), CacheError> {
        let marker = self.beside("building");
        // Its time is the file system's own, like those of the files to come.
        File::create(&marker)
            .and_then(|file| file.sync_all())
            .map_err(|error| CacheError::io("write", marker, error))
    }

    /// Takes the marker away: the tool ended by itself, so what it wrote is whole.
    pub(crate) fn end(&self) -> Result<(), CacheError> {
        let marker = self.beside("building");
        fs::remove_file(&marker).map_err(|error| CacheError::io("remove", marker, error))?;
        // The time up to which objects are known to have been written.
        let last = self.folder.join("last-build");
        File::create(&last).map_err(|error| CacheError::io("write", last, error))?;
        Ok(())
    }
}

/// Removes all object trees of a source if they were written in what is now the
/// future: then an edited file would look older than what was compiled from it.
/// Whether it did.
pub(crate) fn distrust_future(folder: &Path) -> Result<bool, CacheError> {
    let ahead = fs::metadata(folder.join("last-build"))
        .and_then(|data| data.modified())
        .is_ok_and(|last| last > SystemTime::now());
    if !ahead {
        return Ok(false);
    }
    let fault = |error| CacheError::io("clean", folder, error);
    for item in fs::read_dir(folder).map_err(fault)? {
        let item = item.map_err(fault)?;
        let name = item.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("obj-") {
            let path = item.path();
            if path.is_dir() {
                empty(&path).map_err(fault)?;
            } else {
                fs::remove_file(&path).map_err(fault)?;
            }
        }
    }
    fs::remove_file(folder.join("last-build")).map_err(fault)?;
    Ok(true)
}

/// The later of a file's change times, in nanoseconds since the epoch. The time of
/// the inode's change cannot be set back.
fn changed(data: &Metadata) -> i128 {
    let nanoseconds =
        |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
    nanoseconds(data.ctime(), data.ctime_nsec()).max(nanoseconds(data.mtime(), data.mtime_nsec()))
}

fn forget(folder: &Path, names: &BTreeSet<String>, removed: &mut usize) -> io::Result<()> {
    for item in fs::read_dir(folder)? {
        let item = item?;
        let path = item.path();
        if item.file_type()?.is_dir() {
            forget(&path, names, removed)?;
            continue;
        }
        let own = item.file_name();
        let own = own.to_string_lossy();
        let Some(target) = own
            .strip_prefix('.')
            .and_then(|own| own.strip_suffix(".cmd"))
        else {
            continue;
        };
        let text = fs::read(&path)?;
        if includes(&String::from_utf8_lossy(&text), names) {
            for gone in [&folder.join(target), &path] {
                match fs::remove_file(gone) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            *removed += 1;
        }
    }
    Ok(())
}

/// Whether the list of included files in a `.cmd` file (`scripts/basic/fixdep.c`) has one
/// of these last names. The compiled file itself stands apart from it.
fn includes(command: &str, names: &BTreeSet<String>) -> bool {
    command
        .lines()
        .skip_while(|line| !line.starts_with("deps_"))
        .skip(1)
        .take_while(|line| line.ends_with('\\'))
        .filter_map(|line| line.trim_end_matches('\\').trim().rsplit('/').next())
        .any(|name| names.contains(name))
}

fn remove_since(folder: &Path, since: i128, removed: &mut usize) -> io::Result<()> {
    for item in fs::read_dir(folder)? {
        let path = item?.path();
        let data = fs::symlink_metadata(&path)?;
        if data.is_dir() {
            remove_since(&path, since, removed)?;
        } else if changed(&data) >= since {
            fs::remove_file(&path)?;
            *removed += 1;
        }
    }
    Ok(())
}
