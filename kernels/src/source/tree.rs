//! The store's own copy of a source, which patches are applied to in place.
//!
//! Only files whose bytes change are written, so that a build recompiles what a
//! patch touches and nothing else. Before a file is changed for the first time its
//! pristine content is put aside, for ever; so from any state, also that of a
//! process killed in between, every other one can be reached.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::cache::CacheError;

/// Where files as `make` compares their times to each other: a coarse clock can lag
/// behind the fine one by some milliseconds.
const CLOCK: Duration = Duration::from_millis(10);

/// A file's content; `None` if there is none.
pub(crate) type Content = Option<File>;

/// A file, as far as a build can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) bytes: Vec<u8>,
    pub(crate) executable: bool,
}

/// A source tree in the cache, with the pristine copies of what patches touched.
#[derive(Debug)]
pub(crate) struct SourceTree {
    folder: PathBuf,
}

impl SourceTree {
    /// The tree of an entry of the cache; the caller holds its lock.
    pub(crate) fn of(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// The source itself.
    pub(crate) fn src(&self) -> PathBuf {
        self.folder.join("src")
    }

    /// A folder for files in the making, and for the tools' temporary ones. The
    /// holder of the lock empties it before it starts.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.folder.join("scratch")
    }

    fn kept(&self, name: &str) -> PathBuf {
        self.folder.join("pristine/files").join(name)
    }

    fn kept_absent(&self, name: &str) -> PathBuf {
        // A suffix, so that a file and a folder of one name do not meet.
        self.folder.join("pristine/absent").join(format!("{name}~"))
    }

    /// Whether a path's folders include a symbolic link, or it is one itself.
    pub(crate) fn passes_link(&self, name: &str) -> bool {
        let mut path = self.src();
        Path::new(name).components().any(|part| {
            path.push(part);
            fs::symlink_metadata(&path).is_ok_and(|data| data.is_symlink())
        })
    }

    /// What a file contains without any patch.
    pub(crate) fn pristine(&self, name: &str) -> Result<Content, CacheError> {
        if self.kept_absent(name).exists() {
            return Ok(None);
        }
        match read(&self.kept(name))? {
            Some(file) => Ok(Some(file)),
            None => read(&self.src().join(name)),
        }
    }

    /// Says what a file's pristine content is from now on: the source changed. Returns
    /// whether the file is one that patches have touched; if not, the caller has to
    /// write it into the tree.
    pub(crate) fn renew(&self, name: &str, content: &Content) -> Result<bool, CacheError> {
        let known = self.kept(name).exists() || self.kept_absent(name).exists();
        if known {
            self.keep(name, content)?;
        }
        Ok(known)
    }

    fn keep(&self, name: &str, content: &Content) -> Result<(), CacheError> {
        // The one that says "there is something" first: whatever a kill leaves, one
        // of them is there, and `pristine` looks at `absent` first.
        let (kept, absent) = (self.kept(name), self.kept_absent(name));
        match content {
            Some(file) => {
                replace(&self.scratch(), &kept, file, None)?;
                write(&absent, None)
            }
            None => {
                let marker = File {
                    bytes: Vec::new(),
                    executable: false,
                };
                replace(&self.scratch(), &absent, &marker, None)?;
                write(&kept, None)
            }
        }
    }

    /// The files that patches have ever touched.
    fn touched(&self) -> Result<Vec<String>, CacheError> {
        let mut names = Vec::new();
        let files = self.folder.join("pristine/files");
        list(&files, &files, &mut names)?;
        let absent = self.folder.join("pristine/absent");
        let mut gone = Vec::new();
        list(&absent, &absent, &mut gone)?;
        names.extend(
            gone.iter()
                .filter_map(|name| name.strip_suffix('~').map(str::to_owned)),
        );
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Brings the tree to the pristine source with `files` changed. Returns the paths
    /// that were written or removed.
    pub(crate) fn bring_to(
        &self,
        files: &BTreeMap<String, Content>,
    ) -> Result<Vec<String>, CacheError> {
        for name in files.keys() {
            if !self.kept(name).exists() && !self.kept_absent(name).exists() {
                self.keep(name, &read(&self.src().join(name))?)?;
            }
        }
        let mut changed = Vec::new();
        for name in self.touched()? {
            let wanted = match files.get(&name) {
                Some(content) => content.clone(),
                None => self.pristine(&name)?,
            };
            let path = self.src().join(&name);
            if read(&path)? == wanted {
                continue;
            }
            match wanted {
                Some(file) => replace(&self.scratch(), &path, &file, Some(SystemTime::now()))?,
                None => {
                    write(&path, None)?;
                    self.drop_empty_folders(&path);
                }
            }
            changed.push(name);
        }
        if !changed.is_empty() {
            // What is compiled from now on must be newer than what was written here.
            std::thread::sleep(CLOCK);
        }
        Ok(changed)
    }

    /// Whether the source has another file of the same last name.
    pub(crate) fn has_other_named(&self, name: &str) -> Result<bool, CacheError> {
        let mut all = Vec::new();
        let src = self.src();
        list(&src, &src, &mut all)?;
        let last = |path: &str| path.rsplit('/').next().map(str::to_owned);
        Ok(all
            .iter()
            .any(|other| other != name && last(other) == last(name)))
    }

    /// Removes a file, and the folders that it leaves empty.
    pub(crate) fn remove(&self, name: &str) -> Result<(), CacheError> {
        let path = self.src().join(name);
        write(&path, None)?;
        self.drop_empty_folders(&path);
        Ok(())
    }

    fn drop_empty_folders(&self, file: &Path) {
        let src = self.src();
        let mut folder = file.parent();
        while let Some(path) = folder
            && path != src
            && fs::remove_dir(path).is_ok()
        {
            folder = path.parent();
        }
    }
}

/// Writes a file by one rename, with a modification time that is finer than the
/// file system's clock, so that two states never have the same.
///
/// The new file is made in `scratch`, on the same file system: a kill leaves nothing
/// beside `path`.
pub(crate) fn replace(
    scratch: &Path,
    path: &Path,
    file: &File,
    time: Option<SystemTime>,
) -> Result<(), CacheError> {
    let fault = |error: io::Error| CacheError::io("write", path, error);
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).map_err(fault)?;
    fs::create_dir_all(scratch).map_err(fault)?;
    let mut new = tempfile::NamedTempFile::new_in(scratch).map_err(fault)?;
    io::Write::write_all(&mut new, &file.bytes).map_err(fault)?;
    let mode = if file.executable { 0o755 } else { 0o644 };
    let handle = new.as_file();
    handle
        .set_permissions(Permissions::from_mode(mode))
        .and_then(|()| time.map_or(Ok(()), |time| handle.set_modified(time)))
        .map_err(fault)?;
    new.persist(path).map_err(|error| fault(error.error))?;
    Ok(())
}

fn list(root: &Path, folder: &Path, names: &mut Vec<String>) -> Result<(), CacheError> {
    let fault = |error| CacheError::io("list", folder, error);
    let items = match fs::read_dir(folder) {
        Ok(items) => items,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(fault(error)),
    };
    for item in items {
        let item = item.map_err(fault)?;
        let path = item.path();
        // Links to folders are not followed.
        if item.file_type().map_err(fault)?.is_dir() {
            list(root, &path, names)?;
        } else if let Some(name) = path.strip_prefix(root).ok().and_then(Path::to_str) {
            names.push(name.to_owned());
        }
    }
    Ok(())
}

/// Reads a file's content; `None` if there is no such file.
pub(crate) fn read(path: &Path) -> Result<Content, CacheError> {
    let fault = |error| CacheError::io("read", path, error);
    let data = match fs::symlink_metadata(path) {
        Ok(data) => data,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(fault(error)),
    };
    if !data.is_file() {
        return Ok(None);
    }
    Ok(Some(File {
        bytes: fs::read(path).map_err(fault)?,
        executable: data.permissions().mode() & 0o100 != 0,
    }))
}

/// Writes a file's content, with the folders above it; removes it for `None`.
pub(crate) fn write(path: &Path, content: Option<&File>) -> Result<(), CacheError> {
    let Some(file) = content else {
        return match fs::remove_file(path) {
            Err(error) if !is_absent(&error) => Err(CacheError::io("remove", path, error)),
            _ => Ok(()),
        };
    };
    let fault = |error| CacheError::io("write", path, error);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(fault)?;
    }
    fs::write(path, &file.bytes).map_err(fault)?;
    let mode = if file.executable { 0o755 } else { 0o644 };
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(fault)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}
