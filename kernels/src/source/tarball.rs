//! Tarballs as sources: known by the digest of their bytes, wherever they lie, and
//! unpacked into the cache once.
//!
//! Where a tarball comes from is not known here; what its entries may be is the
//! archive's to say.

use std::fs::{self, File};
use std::io::{self, Read, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::archive::{self, ArchiveError, Links};
use super::error::SourceError;
use super::fetcher::{Fetcher, Identity, Opened, read_identity};
use crate::cache::{CacheError, EntryLock, Part};
use crate::digest::Digest;
use crate::files;
use crate::progress::{BuildEvent, BuildStage};
use crate::source::tree::SourceTree;
use crate::spec::Source;
use crate::tools::process::{Filter, JobError};
use crate::tools::toolchain;

/// The file in an entry that says what it is; it is written last.
const IDENTITY: &str = "source.json";

/// Unpacked, a kernel's source takes about ten times its tarball's size.
const GROWTH: u64 = 11;

/// The folder that it is unpacked into, before it is known which part of it is the source.
const UNPACKED: &str = "unpacked";

/// How a tarball is compressed, and the tool that undoes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compression {
    None,
    By(&'static str, &'static [&'static str]),
}

/// Whether a file's name is a tarball's.
pub(crate) fn is_name(path: &Path) -> bool {
    let name = files::name(path).to_ascii_lowercase();
    [".tar", ".tgz", ".txz", ".tzst"]
        .iter()
        .any(|end| name.ends_with(end))
        || name.rsplit_once('.').is_some_and(|(stem, end)| {
            stem.ends_with(".tar") && ["gz", "xz", "zst", "bz2", "lz", "lzma"].contains(&end)
        })
}

impl Fetcher<'_> {
    /// What a tarball on this machine is.
    pub(super) fn tarball(&self, path: &Path) -> Result<Identity, SourceError> {
        let mut file = open(path)?;
        let digest = digest(&mut file, path)?;
        Ok(Identity {
            source: Source::Tarball(path.to_owned()),
            version: files::name(path),
            digest,
            headers: None,
        })
    }

    pub(super) fn open_tarball(&self, path: &Path) -> Result<Opened, SourceError> {
        let identity = self.tarball(path)?;
        self.open_archive(identity, &mut |_| Ok(path.to_owned()))
    }

    /// Locks the tree of a tarball, and makes it complete; the file is asked for only if
    /// it is not.
    pub(super) fn open_archive(
        &self,
        identity: Identity,
        file: &mut dyn FnMut(&Identity) -> Result<PathBuf, SourceError>,
    ) -> Result<Opened, SourceError> {
        let name = format!("tarball-{}", identity.digest.short());
        let lock = self.lock_tree(&name)?;
        let tree = SourceTree::of(lock.entry());
        if let Some(known) = read_identity(&lock.entry().join(IDENTITY))
            && known.digest == identity.digest
        {
            let identity = Identity {
                version: known.version,
                ..identity
            };
            return Ok(Opened {
                identity,
                tree,
                lock,
                history: None,
            });
        }
        let path = file(&identity)?;
        let version = self.unpack_tarball(&path, &tree, &lock, &identity.digest)?;
        let identity = Identity {
            version,
            ..identity
        };
        crate::cache::write_json(&lock.entry().join(IDENTITY), &identity)?;
        Ok(Opened {
            identity,
            tree,
            lock,
            history: None,
        })
    }

    /// Unpacks a tarball into its tree. Returns the kernel's version.
    fn unpack_tarball(
        &self,
        path: &Path,
        tree: &SourceTree,
        lock: &EntryLock,
        expected: &Digest,
    ) -> Result<String, SourceError> {
        self.progress.event(BuildEvent::BuildStage {
            stage: BuildStage::Unpack,
            detail: &files::name(path),
        });
        let mut file = open(path)?;
        let compression = compression(&mut file, path)?;
        let size = file.metadata().map_or(0, |data| data.len());
        let growth = match compression {
            Compression::None => 2,
            Compression::By(..) => GROWTH,
        };
        self.cache
            .need(size.saturating_mul(growth), "unpacking the source")?;
        let into = tree.scratch().join(UNPACKED);
        for folder in [&tree.src(), &into] {
            files::empty(folder).map_err(|error| CacheError::io("empty", folder, error))?;
        }
        let log = self.cache.entry(
            Part::Logs,
            &format!("unpack-{}.log", files::name(lock.entry())),
        );
        let _ = fs::remove_file(&log);
        let links = self.unpack_into(&mut file, path, compression, &into, lock, &log)?;
        // The bytes that were unpacked are those that were meant, even if the file was
        // being written.
        let found = digest(&mut file, path)?;
        if found != *expected {
            return Err(SourceError::Changed {
                path: path.to_owned(),
            });
        }
        let refused = |why: String| SourceError::Archive {
            archive: path.to_owned(),
            why,
        };
        let root = root(&into).map_err(refused)?;
        links
            .make(&into, &root)
            .map_err(|error| self.archive_error(error, path))?;
        let root = into.join(root);
        for found in [".config", "include/config", "include/generated"] {
            if root.join(found).exists() {
                return Err(SourceError::Built {
                    path: path.to_owned(),
                    found,
                });
            }
        }
        let version = crate::version::of_source(&root)
            .ok_or_else(|| refused("its Makefile names no kernel version".to_owned()))?;
        let src = tree.src();
        fs::remove_dir(&src)
            .and_then(|()| fs::rename(&root, &src))
            .map_err(|error| CacheError::io("write", src, error))?;
        files::empty(&tree.scratch())
            .map_err(|error| CacheError::io("empty", tree.scratch(), error))?;
        let _ = fs::remove_file(&log);
        Ok(version)
    }

    fn unpack_into(
        &self,
        file: &mut File,
        path: &Path,
        compression: Compression,
        into: &Path,
        lock: &EntryLock,
        log: &Path,
    ) -> Result<Links, SourceError> {
        let read = |source| SourceError::Read {
            path: path.to_owned(),
            source,
        };
        file.rewind().map_err(read)?;
        let start = Instant::now();
        let mut shown = start;
        let mut told = |done| {
            if shown.elapsed().as_millis() >= 100 {
                shown = Instant::now();
                self.progress.event(BuildEvent::Count {
                    stage: BuildStage::Unpack,
                    done,
                    total: None,
                });
            }
        };
        let end = start + self.fetch_deadline;
        let mut bounded = |input: &mut dyn Read| {
            let input = Bounded {
                input,
                end,
                cancel: self.cancel,
            };
            archive::unpack(input, into, &mut told)
        };
        let unpacked = match compression {
            Compression::None => bounded(file),
            Compression::By(tool, arguments) => {
                self.tools.check_decompressor(tool)?;
                let mut command = self.tools.command(tool);
                command.args(arguments);
                let input = file.try_clone().map_err(read)?;
                let mut filter = Filter::start(
                    command,
                    input,
                    log,
                    Some(lock),
                    self.fetch_deadline,
                    self.cancel,
                )?;
                let unpacked = bounded(&mut filter);
                // After the archive's end there may be padding, and a checksum.
                let rest = unpacked
                    .is_ok()
                    .then(|| io::copy(&mut filter, &mut io::sink()));
                match (unpacked, rest) {
                    (Ok(links), Some(Ok(_))) => {
                        let status = filter.finish().map_err(read)?;
                        if status.success() {
                            Ok(links)
                        } else {
                            let said = fs::read_to_string(log).unwrap_or_default();
                            let said = said.lines().last().unwrap_or("no word").to_owned();
                            Err(ArchiveError::Broken(io::Error::other(said)))
                        }
                    }
                    (Ok(_), Some(Err(error))) => Err(ArchiveError::Broken(error)),
                    (unpacked, _) => unpacked,
                }
            }
        };
        unpacked.map_err(|error| {
            if self.cancel.load(Ordering::Relaxed) {
                return SourceError::Interrupted {
                    path: path.to_owned(),
                };
            }
            if Instant::now() >= end {
                return SourceError::Job(JobError::Deadline {
                    what: format!("unpacking {path:?}"),
                    seconds: self.fetch_deadline.as_secs(),
                    log: log.to_owned(),
                });
            }
            self.archive_error(error, path)
        })
    }

    fn archive_error(&self, error: ArchiveError, archive: &Path) -> SourceError {
        match error {
            ArchiveError::Write { path, source } => {
                SourceError::Cache(CacheError::io("write", path, source))
            }
            error => SourceError::Archive {
                archive: archive.to_owned(),
                why: error.to_string(),
            },
        }
    }
}

/// Reads no longer than it may.
struct Bounded<'a> {
    input: &'a mut dyn Read,
    end: Instant,
    cancel: &'a std::sync::atomic::AtomicBool,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.load(Ordering::Relaxed) || Instant::now() >= self.end {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.input.read(buffer)
    }
}

fn open(path: &Path) -> Result<File, SourceError> {
    files::open(path).map_err(|source| SourceError::Read {
        path: path.to_owned(),
        source,
    })
}

fn digest(file: &mut File, path: &Path) -> Result<Digest, SourceError> {
    file.rewind()
        .and_then(|()| Digest::of_reader(file))
        .map_err(|source| SourceError::Read {
            path: path.to_owned(),
            source,
        })
}

/// Tells by its first bytes how a file is compressed.
fn compression(file: &mut File, path: &Path) -> Result<Compression, SourceError> {
    let read = |source| SourceError::Read {
        path: path.to_owned(),
        source,
    };
    let mut head = Vec::new();
    file.rewind().map_err(read)?;
    file.take(512).read_to_end(&mut head).map_err(read)?;
    let refused = |why: &str| {
        Err(SourceError::Archive {
            archive: path.to_owned(),
            why: format!("{why}; a .tar, .tar.gz, .tar.xz or .tar.zst is expected"),
        })
    };
    if head.is_empty() {
        return refused("it is empty");
    }
    if let Some((tool, arguments)) = toolchain::decompressor(&head) {
        return Ok(Compression::By(tool, arguments));
    }
    if head.get(257..262) == Some(b"ustar") {
        return Ok(Compression::None);
    }
    let looks = [
        (&b"BZh"[..], "it is compressed by bzip2"),
        (b"\x5d\0\0", "it is compressed by lzma"),
        (b"LZIP", "it is compressed by lzip"),
        (b"PK\x03\x04", "it is a zip archive"),
        (b"<", "it is a page of the web"),
    ];
    let what = looks.iter().find(|(magic, _)| head.starts_with(magic));
    refused(what.map_or("it is no tar archive", |(_, what)| what))
}

/// Where in an unpacked archive the kernel's source is: at its top, or in one of the folders
/// there. Other files and folders may lie beside it.
fn root(into: &Path) -> Result<PathBuf, String> {
    const NEEDED: [&str; 2] = ["Makefile", "Kconfig"];
    let lacks = |folder: &Path| NEEDED.iter().any(|file| !folder.join(file).is_file());
    if !lacks(into) {
        return Ok(PathBuf::new());
    }
    let mut folders = Vec::new();
    for item in fs::read_dir(into).map_err(|error| error.to_string())? {
        let item = item.map_err(|error| error.to_string())?;
        if item.path().is_dir() {
            folders.push(PathBuf::from(item.file_name()));
        }
    }
    folders.sort();
    let (sources, others): (Vec<PathBuf>, Vec<PathBuf>) = folders
        .into_iter()
        .partition(|folder| !lacks(&into.join(folder)));
    match (sources.as_slice(), others.as_slice()) {
        ([source], _) => Ok(source.clone()),
        ([one, two, ..], _) => Err(format!(
            "it holds several kernel sources, {one:?} and {two:?}: unpack it, and give the folder \
             of one"
        )),
        ([], others) => {
            let inside = match others {
                [only] => {
                    let lacking = NEEDED
                        .iter()
                        .filter(|file| !into.join(only).join(file).is_file());
                    let lacking: Vec<&str> = lacking.copied().collect();
                    format!(
                        ", and its folder {only:?} has no {}",
                        lacking.join(" and no ")
                    )
                }
                _ => String::new(),
            };
            Err(format!(
                "it holds no kernel source: a Makefile and a Kconfig are expected at its top or in \
                 a folder there{inside}; where they lie deeper, unpack it, and give their folder"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tarballs_are_told_by_name() {
        for name in [
            "linux-6.12.tar.xz",
            "a.tar",
            "a.tgz",
            "x.TAR.ZST",
            "a.tar.bz2",
        ] {
            assert!(is_name(Path::new(name)), "{name}");
        }
        for name in ["vmlinux", "bzImage.xz", "tar", "a.target", "initrd.gz"] {
            assert!(!is_name(Path::new(name)), "{name}");
        }
    }
}
