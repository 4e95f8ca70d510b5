//! Tar archives, read without trusting them: nothing is written outside of the folder
//! that they are unpacked into, and nothing through a link.
//!
//! What an archive should contain is not known here, and neither is how it is
//! compressed.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use tar::EntryType;

/// The most that an archive may unpack to; Linux' source has less than 2 GiB.
const MOST_BYTES: u64 = 8 << 30;

/// The most entries that an archive may have; Linux' source has less than 100000.
const MOST_ENTRIES: u64 = 1_000_000;

/// What a file of attributes begins with (AppleDouble, RFC 1740).
const APPLE_DOUBLE: [u8; 4] = [0, 5, 0x16, 7];

/// Why an archive was not unpacked.
#[derive(Debug, thiserror::Error)]
pub(super) enum ArchiveError {
    /// It is none, or is cut off.
    #[error("it is no tar archive, or is cut off ({0})")]
    Broken(io::Error),
    /// It has something that no source has.
    #[error("its entry {name:?} {why}")]
    Refused { name: String, why: String },
    /// It is a bomb.
    #[error("it unpacks to more than {0}, which no kernel's source does")]
    Huge(&'static str),
    /// The folder cannot be written to.
    #[error("cannot write {path:?}")]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// The symbolic links of an archive that was unpacked, by their paths in it. They are
/// made last, so that nothing can be written through them.
#[derive(Debug, Default)]
pub(super) struct Links(BTreeMap<PathBuf, PathBuf>);

/// Unpacks all but symbolic links into the folder `into`, and tells how many entries it
/// has read. Owners and times are not kept, and neither is anything of a `.git`.
pub(super) fn unpack(
    archive: impl Read,
    into: &Path,
    tell: &mut dyn FnMut(u64),
) -> Result<Links, ArchiveError> {
    let mut archive = tar::Archive::new(archive);
    let mut links = Links::default();
    let mut left = MOST_BYTES;
    for (count, entry) in (1..).zip(archive.entries().map_err(ArchiveError::Broken)?) {
        let mut entry = entry.map_err(ArchiveError::Broken)?;
        if count > MOST_ENTRIES {
            return Err(ArchiveError::Huge("a million files"));
        }
        tell(count);
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            continue;
        }
        let shown = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let refused = |why: &str| ArchiveError::Refused {
            name: shown.clone(),
            why: why.to_owned(),
        };
        let name = plain(&entry.path_bytes()).map_err(refused)?;
        if name.components().any(|part| part.as_os_str() == ".git") {
            continue;
        }
        let head = match kind {
            EntryType::Regular => head(&name, &mut entry).map_err(ArchiveError::Broken)?,
            _ => Vec::new(),
        };
        if head == APPLE_DOUBLE {
            continue;
        }
        let path = into.join(&name);
        let write = |source| ArchiveError::Write {
            path: path.clone(),
            source,
        };
        if kind == EntryType::Directory {
            fs::create_dir_all(&path).map_err(write)?;
            continue;
        }
        if name.as_os_str().is_empty() {
            return Err(refused("has no name"));
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(write)?;
        }
        links.0.remove(&name);
        match kind {
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                left = left
                    .checked_sub(entry.header().size().map_err(ArchiveError::Broken)?)
                    .ok_or(ArchiveError::Huge("8 GiB"))?;
                let executable = entry.header().mode().is_ok_and(|mode| mode & 0o100 != 0);
                let mut file = fresh(&path).map_err(write)?;
                file.write_all(&head).map_err(write)?;
                copy(&mut entry, &mut file, write)?;
                let mode = if executable { 0o755 } else { 0o644 };
                file.set_permissions(Permissions::from_mode(mode))
                    .map_err(write)?;
            }
            EntryType::Symlink => {
                let target = entry
                    .link_name_bytes()
                    .ok_or_else(|| refused("is a link to nowhere"))?;
                let target = std::str::from_utf8(&target)
                    .map_err(|_| refused("is a link to what is no UTF-8 text"))?;
                links.0.insert(name, PathBuf::from(target));
            }
            EntryType::Link => {
                let target = entry
                    .link_name_bytes()
                    .ok_or_else(|| refused("is a link to nowhere"))?;
                let target =
                    into.join(plain(&target).map_err(|why| {
                        refused(&format!("is a hard link to something that {why}"))
                    })?);
                let bytes = fs::read(&target)
                    .map_err(|_| refused("is a hard link to what is not before it"))?;
                let mut file = fresh(&path).map_err(write)?;
                let mode = fs::metadata(&target).map_err(write)?.permissions();
                left = left
                    .checked_sub(bytes.len() as u64)
                    .ok_or(ArchiveError::Huge("8 GiB"))?;
                file.write_all(&bytes)
                    .and_then(|()| file.set_permissions(mode))
                    .map_err(write)?;
            }
            _ => return Err(refused("is a device, a pipe, or of an unknown kind")),
        }
    }
    Ok(links)
}

/// The first bytes of a file that may be the attributes of another one, which tar on macOS
/// writes as `._NAME` beside it; empty for other files.
fn head(name: &Path, entry: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let name = name.file_name();
    if name.is_some_and(|name| name.as_bytes().starts_with(b"._")) {
        let length = APPLE_DOUBLE.len() as u64;
        entry.by_ref().take(length).read_to_end(&mut head)?;
    }
    Ok(head)
}

/// Copies the rest of an entry. A failure to read means that the archive is damaged.
fn copy(
    entry: &mut impl Read,
    file: &mut File,
    write: impl Fn(io::Error) -> ArchiveError,
) -> Result<(), ArchiveError> {
    let mut piece = [0; 64 * 1024];
    loop {
        let length = entry.read(&mut piece).map_err(ArchiveError::Broken)?;
        if length == 0 {
            return Ok(());
        }
        file.write_all(&piece[..length]).map_err(&write)?;
    }
}

impl Links {
    /// Makes the links in a folder that was unpacked, `root` of which is to be used: no
    /// link may lead out of it.
    pub(super) fn make(self, into: &Path, root: &Path) -> Result<(), ArchiveError> {
        let mut made = Vec::new();
        for (name, target) in self.0 {
            let refused = |why: String| ArchiveError::Refused {
                name: name.display().to_string(),
                why,
            };
            let Ok(inner) = name.strip_prefix(root) else {
                continue;
            };
            let mut depth = inner.components().count().saturating_sub(1);
            for part in target.components() {
                let next = match part {
                    Component::Normal(_) => Some(depth + 1),
                    Component::CurDir => Some(depth),
                    Component::ParentDir => depth.checked_sub(1),
                    Component::RootDir | Component::Prefix(_) => None,
                };
                depth = next.ok_or_else(|| {
                    refused(format!("is a link to {target:?}, which leaves the tree"))
                })?;
            }
            let path = into.join(&name);
            symlink(&target, &path).map_err(|source| match source.kind() {
                io::ErrorKind::AlreadyExists => {
                    refused("is a link and something else as well".to_owned())
                }
                _ => ArchiveError::Write {
                    path: path.clone(),
                    source,
                },
            })?;
            made.push((name, path));
        }
        let root = into.join(root);
        let whole = root
            .canonicalize()
            .map_err(|source| ArchiveError::Write { path: root, source })?;
        // Links that lead over links can leave it though their texts do not.
        for (name, path) in made {
            if path
                .canonicalize()
                .is_ok_and(|end| !end.starts_with(&whole))
            {
                return Err(ArchiveError::Refused {
                    name: name.display().to_string(),
                    why: "is a link that leaves the tree over other links".to_owned(),
                });
            }
        }
        Ok(())
    }
}

/// A file that was not there before, whatever was.
fn fresh(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::create_new(path)
}

/// An entry's path without `.`, if it stays in the archive.
fn plain(bytes: &[u8]) -> Result<PathBuf, &'static str> {
    let text = std::str::from_utf8(bytes).map_err(|_| "has a name that is no UTF-8 text")?;
    let mut path = PathBuf::new();
    for part in Path::new(text).components() {
        match part {
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            Component::ParentDir => return Err("has `..` in its path"),
            Component::RootDir | Component::Prefix(_) => return Err("has an absolute path"),
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use EntryType::{Directory, Fifo, Link, Regular, Symlink};

    use super::*;

    /// Kind, name, content or target.
    type Entry<'a> = (EntryType, &'a str, &'a str);

    /// An archive of entries, whose names are written
    /// as they are: the crate would not write some of them.
    fn archive(entries: &[Entry<'_>]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (kind, name, text) in entries {
            let mut header = tar::Header::new_gnu();
            let content = matches!(kind, Regular);
            header.set_entry_type(*kind);
            header.set_mode(0o755);
            header.set_size(if content { text.len() as u64 } else { 0 });
            let gnu = header.as_gnu_mut().unwrap();
            gnu.name[..name.len()].copy_from_slice(name.as_bytes());
            if !content {
                gnu.linkname[..text.len()].copy_from_slice(text.as_bytes());
            }
            header.set_cksum();
            let data = if content { text.as_bytes() } else { b"" };
            builder.append(&header, data).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn try_unpack(entries: &[Entry<'_>]) -> Result<tempfile::TempDir, ArchiveError> {
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("in");
        fs::create_dir(&into).unwrap();
        let links = unpack(archive(entries).as_slice(), &into, &mut |_| {})?;
        links.make(&into, Path::new("k"))?;
        Ok(folder)
    }

    #[test]
    fn files_links_and_modes_come_out() {
        let folder = try_unpack(&[
            (Directory, "./k/", ""),
            (Regular, "./k/a/b", "text"),
            (Link, "k/c", "./k/a/b"),
            (Symlink, "k/a/d", "../c"),
            (Regular, "k/.git", "gitdir: /elsewhere"),
            (Regular, "k/a/b", "later"),
        ])
        .unwrap();
        let root = folder.path().join("in/k");
        let read = |name: &str| fs::read_to_string(root.join(name)).unwrap();
        assert_eq!(
            (read("a/b"), read("c"), read("a/d")),
            ("later".into(), "text".into(), "text".into())
        );
        assert!(!root.join(".git").exists());
        let mode = fs::metadata(root.join("a/b")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
    }

    #[test]
    fn what_would_leave_the_folder_is_refused_and_writes_nothing_there() {
        let cases: &[(&[Entry<'_>], &str)] = &[
            (&[(Regular, "/tmp/numalab-absolute", "x")], "absolute path"),
            (&[(Regular, "k/../../out", "x")], "`..` in its path"),
            (&[(Symlink, "k/l", "/etc/passwd")], "leaves the tree"),
            (&[(Symlink, "k/a/l", "../../x")], "leaves the tree"),
            (&[(Link, "k/l", "../out")], "`..` in its path"),
            (&[(Link, "k/l", "k/none")], "not before it"),
            (&[(Fifo, "k/f", "")], "a device, a pipe"),
            (
                &[(Symlink, "k/l", "d"), (Regular, "k/l/out", "x")],
                "something else as well",
            ),
            (
                &[
                    (Regular, "k/a/b/x", "x"),
                    (Symlink, "k/a/b/up", "../.."),
                    (Symlink, "k/over", "a/b/up/../../x"),
                    (Symlink, "k/out", "a/b/up/.."),
                ],
                "over other links",
            ),
        ];
        for (entries, why) in cases {
            let folder = tempfile::tempdir().unwrap();
            let into = folder.path().join("in");
            fs::create_dir(&into).unwrap();
            let error = unpack(archive(entries).as_slice(), &into, &mut |_| {})
                .and_then(|links| links.make(&into, Path::new("k")))
                .unwrap_err();
            assert!(error.to_string().contains(why), "{error}: {why}");
            assert!(!folder.path().join("out").exists());
            assert!(!Path::new("/tmp/numalab-absolute").exists());
        }
    }

    #[test]
    fn an_archive_that_claims_too_much_is_refused_before_it_is_written() {
        let mut header = tar::Header::new_gnu();
        header.set_path("k/big").unwrap();
        header.set_size(MOST_BYTES + 1);
        header.set_cksum();
        let folder = tempfile::tempdir().unwrap();
        let error = unpack(header.as_bytes().as_slice(), folder.path(), &mut |_| {}).unwrap_err();
        assert!(matches!(error, ArchiveError::Huge(_)), "{error}");
        assert!(!folder.path().join("k/big").exists());
    }

    #[test]
    fn what_is_cut_off_or_no_archive_is_told() {
        let whole = archive(&[(Regular, "k/a", "text")]);
        for bytes in [&whole[..514], b"\x7fELF and so on".as_slice()] {
            let folder = tempfile::tempdir().unwrap();
            let error = unpack(bytes, folder.path(), &mut |_| {}).unwrap_err();
            assert!(error.to_string().contains("no tar archive"), "{error}");
        }
    }
}
