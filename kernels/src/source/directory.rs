//! A directory as a source: copied into the cache, where later changes are followed
//! file by file, so that an edit recompiles what it touches.
//!
//! The directory is only read. Which files are source is asked of git where it is a
//! git work tree of its own; else all files are, and one that was built in is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use super::error::SourceError;
use super::fetcher::{Fetcher, Identity, Opened};
use crate::cache::CacheError;
use crate::digest::{Digest, Digester};
use crate::progress::{BuildEvent, BuildStage};
use crate::source::tree::{self, File, SourceTree};
use crate::spec::Source;
use crate::tools::process;

/// A file changed this shortly before it was looked at may change again without its
/// times showing it.
const SETTLED: Duration = Duration::from_secs(2);

/// What was last seen of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    stamp: String,
    kind: EntryKind,
    digest: Digest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryKind {
    Plain,
    Executable,
    Link,
}

type Index = BTreeMap<String, Seen>;

impl Fetcher<'_> {
    /// Brings the copy of a directory up to date, and locks it.
    pub(super) fn directory(&self, path: &Path) -> Result<Opened, SourceError> {
        let fault = |source| SourceError::Read {
            path: path.to_owned(),
            source,
        };
        let path = path.canonicalize().map_err(fault)?;
        let place = Digest::of(path.as_os_str().as_bytes());
        let name = format!(
            "dir-{}-{}",
            crate::files::plain(&crate::files::name(&path)),
            place.short()
        );
        let lock = self.lock_tree(&name)?;
        let tree = SourceTree::of(lock.entry());
        let kept = lock.entry().join("index");
        let identity = self.follow(&path, &tree, &kept)?;
        Ok(Opened {
            identity,
            tree,
            lock,
            history: None,
        })
    }

    fn follow(&self, path: &Path, tree: &SourceTree, kept: &Path) -> Result<Identity, SourceError> {
        let detail = path.display().to_string();
        self.progress.event(BuildEvent::BuildStage {
            stage: BuildStage::Copy,
            detail: &detail,
        });
        let own = self.is_repository(path);
        let names = self.names(path, own)?;
        let start = SystemTime::now();
        // There while the copy is not what the index says.
        let busy = kept.with_extension("busy");
        let mut before = read_index(kept);
        if busy.exists() || before.is_empty() {
            before.clear();
            remove_strangers(tree, &names)?;
        }
        fs::write(&busy, "").map_err(|error| CacheError::io("write", &busy, error))?;
        let mut index = Index::new();
        let mut absent = Vec::new();
        let total = u64::try_from(names.len()).ok();
        for (count, name) in (0_u64..).zip(names) {
            if count % 256 == 0 {
                if self.cancel.load(Ordering::Relaxed) {
                    return Err(SourceError::Interrupted {
                        path: path.to_owned(),
                    });
                }
                self.progress.event(BuildEvent::Count {
                    stage: BuildStage::Copy,
                    done: count,
                    total,
                });
            }
            let file = path.join(&name);
            let data = match fs::symlink_metadata(&file) {
                Ok(data) if data.is_file() || data.is_symlink() => data,
                // A folder of another repository.
                Ok(_) => continue,
                // git lists what was deleted and not committed.
                Err(_) => {
                    absent.push(name);
                    continue;
                }
            };
            let stamp = stamp(&data, start);
            match before.get(&name) {
                Some(seen) if seen.stamp == stamp => {
                    index.insert(name, seen.clone());
                }
                _ => {
                    let seen = take(&file, &data, stamp, &name, tree)?;
                    index.insert(name, seen);
                }
            }
        }
        if !absent.is_empty() {
            self.progress.event(BuildEvent::Note(&format!(
                "git lists what is deleted in {detail}, and is not built: {}",
                some_of(&absent)
            )));
        }
        for name in before.keys().filter(|name| !index.contains_key(*name)) {
            if !tree.renew(name, &None)? {
                tree::write(&tree.src().join(name), None)?;
            }
        }
        write_index(kept, &index)?;
        fs::remove_file(&busy).map_err(|error| CacheError::io("remove", &busy, error))?;
        let mut whole = Digester::new();
        let mut headers = Digester::new();
        for (name, seen) in &index {
            let kind = match seen.kind {
                EntryKind::Plain => "plain",
                EntryKind::Executable => "executable",
                EntryKind::Link => "link",
            };
            whole.field(name, kind).field("", seen.digest.to_string());
            if name.ends_with(".h") {
                headers.field(name, "");
            }
        }
        Ok(Identity {
            source: Source::Directory(path.to_owned()),
            version: self.version(path, own),
            digest: whole.finish(),
            headers: Some(headers.finish()),
        })
    }

    /// The files of a source, relative to it.
    fn names(&self, path: &Path, own: bool) -> Result<BTreeSet<String>, SourceError> {
        let listed = own
            .then(|| {
                let all = [
                    "ls-files",
                    "-z",
                    "-t",
                    "--cached",
                    "--others",
                    "--exclude-standard",
                ];
                self.git(path, &all)
            })
            .flatten();
        if let Some(listed) = listed {
            let mut names = BTreeSet::new();
            let mut absent = Vec::new();
            for line in listed.split_terminator('\0') {
                let (tag, name) = line.split_once(' ').unwrap_or_default();
                // A sparse checkout leaves these files out (`git ls-files -t`).
                if tag == "S" && fs::symlink_metadata(path.join(name)).is_err() {
                    absent.push(name.to_owned());
                }
                names.insert(name.to_owned());
            }
            if !absent.is_empty() {
                return Err(SourceError::Sparse {
                    path: path.to_owned(),
                    absent: some_of(&absent),
                });
            }
            return Ok(names);
        }
        for found in [".config", "include/config", "include/generated"] {
            if path.join(found).exists() {
                return Err(SourceError::Built {
                    path: path.to_owned(),
                    found,
                });
            }
        }
        let mut names = BTreeSet::new();
        walk(path, path, &mut names)?;
        Ok(names)
    }

    /// Whether a folder is the top of a git work tree: asked of git, as `.git` may be a
    /// file. In one that merely lies inside of another repository's, git would say
    /// nothing of the files.
    fn is_repository(&self, path: &Path) -> bool {
        self.git(path, &["rev-parse", "--show-toplevel"])
            .is_some_and(|top| Path::new(top.trim_end_matches('\n')) == path)
    }

    fn version(&self, path: &Path, own: bool) -> String {
        let version =
            crate::version::of_source(path).unwrap_or_else(|| "unknown version".to_owned());
        let commit = own.then(|| self.git(path, &["rev-parse", "--short=12", "HEAD"]));
        match commit.flatten() {
            Some(commit) => format!("{version}, commit {}", commit.trim()),
            None => version,
        }
    }

    /// Asks git about a user's repository without writing to it and without running
    /// anything that its configuration names.
    fn git(&self, path: &Path, arguments: &[&str]) -> Option<String> {
        let mut command: Command = process::command("git", &self.tools.path);
        command
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .args(["-c", "safe.directory=*", "-c", "core.fsmonitor=false"])
            .arg("-C")
            .arg(path)
            .args(arguments);
        process::answer(command)
    }
}

/// The first of some names, for a message.
fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}, and {more} more"),
    }
}

/// Removes from the tree what neither the source nor a patch has put there.
pub(super) fn remove_strangers(
    tree: &SourceTree,
    names: &BTreeSet<String>,
) -> Result<(), SourceError> {
    let src = tree.src();
    fs::create_dir_all(&src).map_err(|error| CacheError::io("make", &src, error))?;
    let mut there = BTreeSet::new();
    walk(&src, &src, &mut there)?;
    for name in there.difference(names) {
        if !tree.renew(name, &None)? {
            tree.remove(name)?;
        }
    }
    Ok(())
}

/// Copies one file into the tree if its content differs there.
fn take(
    file: &Path,
    data: &Metadata,
    stamp: String,
    name: &str,
    tree: &SourceTree,
) -> Result<Seen, SourceError> {
    let read = |source| SourceError::Read {
        path: file.to_owned(),
        source,
    };
    let copy = tree.src().join(name);
    if data.is_symlink() {
        let target = fs::read_link(file).map_err(read)?;
        if fs::read_link(&copy).ok().as_ref() != Some(&target) {
            let fault = |error| CacheError::io("write", &copy, error);
            tree::write(&copy, None)?;
            if let Some(folder) = copy.parent() {
                fs::create_dir_all(folder).map_err(fault)?;
            }
            symlink(&target, &copy).map_err(fault)?;
        }
        return Ok(Seen {
            stamp,
            kind: EntryKind::Link,
            digest: Digest::of(target.as_os_str().as_bytes()),
        });
    }
    let content = File {
        bytes: fs::read(file).map_err(read)?,
        executable: data.permissions().mode() & 0o100 != 0,
    };
    let seen = Seen {
        stamp,
        kind: if content.executable {
            EntryKind::Executable
        } else {
            EntryKind::Plain
        },
        digest: Digest::of(&content.bytes),
    };
    let content = Some(content);
    if !tree.renew(name, &content)?
        && tree::read(&copy)? != content
        && let Some(content) = &content
    {
        tree::replace(&tree.scratch(), &copy, content, Some(SystemTime::now()))?;
    }
    Ok(seen)
}

/// What shows that a file has not changed; nothing does for one changed just now.
fn stamp(data: &Metadata, now: SystemTime) -> String {
    let settled = data
        .modified()
        .is_ok_and(|time| now.duration_since(time).is_ok_and(|age| age > SETTLED));
    let changed = i128::from(data.ctime()) * 1_000_000_000 + i128::from(data.ctime_nsec());
    let limit = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |time| time.saturating_sub(SETTLED).as_nanos());
    if !settled || changed >= i128::try_from(limit).unwrap_or(i128::MAX) {
        return "unsettled".to_owned();
    }
    format!(
        "{}.{}.{}.{}.{}.{changed}",
        data.ino(),
        data.size(),
        data.mode(),
        data.mtime(),
        data.mtime_nsec(),
    )
}

fn walk(root: &Path, folder: &Path, names: &mut BTreeSet<String>) -> Result<(), SourceError> {
    let fault = |source: io::Error| SourceError::Read {
        path: folder.to_owned(),
        source,
    };
    for item in fs::read_dir(folder).map_err(fault)? {
        let item = item.map_err(fault)?;
        let path = item.path();
        if item.file_name() == OsStr::new(".git") {
            continue;
        }
        if item.file_type().map_err(fault)?.is_dir() {
            walk(root, &path, names)?;
            continue;
        }
        match path.strip_prefix(root).ok().and_then(Path::to_str) {
            Some(name) => {
                names.insert(name.to_owned());
            }
            None => return Err(SourceError::Name { path }),
        }
    }
    Ok(())
}

/// Reads the index; one that is damaged is as good as none, but then nothing would
/// say what to remove, so the caller starts from what it can read.
fn read_index(path: &Path) -> Index {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_terminator('\0')
        .filter_map(|line| {
            let mut fields = line.splitn(4, ' ');
            let digest = fields.next()?.parse().ok()?;
            let kind = match fields.next()? {
                "plain" => EntryKind::Plain,
                "executable" => EntryKind::Executable,
                "link" => EntryKind::Link,
                _ => return None,
            };
            let mut stamp = fields.next()?.to_owned();
            if stamp == "unsettled" {
                // Equal to nothing.
                stamp.push('.');
            }
            let seen = Seen {
                stamp,
                kind,
                digest,
            };
            Some((fields.next()?.to_owned(), seen))
        })
        .collect()
}

fn write_index(path: &Path, index: &Index) -> Result<(), CacheError> {
    let mut text = String::new();
    for (name, seen) in index {
        let kind = match seen.kind {
            EntryKind::Plain => "plain",
            EntryKind::Executable => "executable",
            EntryKind::Link => "link",
        };
        for part in [
            &seen.digest.to_string(),
            " ",
            kind,
            " ",
            &seen.stamp,
            " ",
            name,
            "\0",
        ] {
            text.push_str(part);
        }
    }
    let new = path.with_extension("new");
    fs::write(&new, text)
        .and_then(|()| fs::rename(&new, path))
        .map_err(|error| CacheError::io("write", path, error))
}
