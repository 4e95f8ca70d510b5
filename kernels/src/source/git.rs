//! A commit of a git repository as a source: its files in the cache, the same tree for
//! all commits of a repository, so that going from one to another writes only what
//! differs between them.
//!
//! The bytes are those of git's objects. No index, work tree, attribute, filter or
//! configuration of the user's takes part, and nothing of the repository is written to.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::directory::remove_strangers;
use super::repository::{Repository, RepositoryError, abbreviated, filled, quiet};
use super::{Getting, Identity, Opened, SourceError, plain, version_in};
use crate::cache::CacheError;
use crate::digest::Digest;
use crate::process;
use crate::progress::{Event, Stage};
use crate::tree::{self, File, SourceTree};
use crate::wanted::Source;

/// For one question to git, of which each takes seconds at most.
const DEADLINE: Duration = Duration::from_secs(600);

/// How many files are asked for at once.
const PORTION: usize = 2000;

/// Which commit's files are in a tree.
#[derive(Debug, Default, Serialize, Deserialize)]
struct State {
    /// The tree that it was brought to last.
    at: Option<String>,
    /// The trees that it was being brought to since, none of which it reached.
    #[serde(default)]
    towards: Vec<String>,
}

/// What a path is in a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Item {
    kind: Kind,
    object: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Executable,
    Link,
}

impl Kind {
    /// `None` for a submodule: its files are no part of the commit.
    fn of(mode: &str) -> Option<Kind> {
        match mode {
            "100755" => Some(Kind::Executable),
            "120000" => Some(Kind::Link),
            "160000" => None,
            _ => Some(Kind::Plain),
        }
    }
}

/// What changes: a path's new content, or `None` if it goes.
type Changes = BTreeMap<String, Option<Item>>;

impl Getting<'_> {
    /// What a commit is, without its files.
    pub(super) fn commit(&self, path: &Path, revision: &str) -> Result<Identity, SourceError> {
        let repository = Repository::with_tools(path, &self.tools.path)?;
        let commit = repository.commit(revision)?;
        for missing in ["Kconfig", "Makefile"] {
            let listed = repository.ask("list files", &["ls-tree", "-z", &commit.id, missing])?;
            if listed.is_empty() {
                return Err(SourceError::NoKernel {
                    path: path.to_owned(),
                    commit: commit.shown(),
                    missing,
                });
            }
        }
        let makefile = repository.file(&commit.id, "Makefile")?.unwrap_or_default();
        let version = version_in(&makefile).unwrap_or_else(|| "unknown version".to_owned());
        Ok(Identity {
            source: Source::Git {
                repository: repository.path().to_owned(),
                revision: commit.id.clone(),
            },
            version: format!("{version}, commit {}", commit.shown()),
            digest: Digest::of(format!("git tree {}", commit.tree).as_bytes()),
            headers: None,
        })
    }

    /// Brings the repository's tree in the cache to a commit, and locks it.
    pub(super) fn open_git(&self, path: &Path, revision: &str) -> Result<Opened, SourceError> {
        let identity = self.commit(path, revision)?;
        let repository = Repository::with_tools(path, &self.tools.path)?;
        let commit = repository.commit(revision)?;
        if repository.is_edited(&commit.id) {
            self.progress.event(Event::Note(&format!(
                "{} has edits that are not committed: they are not part of {}",
                path.display(),
                abbreviated(&commit.id)
            )));
        }
        let place = Digest::of(repository.common().as_os_str().as_bytes());
        let name = format!("git-{}-{}", plain(&repository.name()), place.short());
        let lock = self.lock_tree(&name)?;
        let tree = SourceTree::of(lock.entry());
        let objects = Objects::new(&repository, lock.entry())?;
        let checkout = Checkout {
            getting: self,
            objects: &objects,
            tree: &tree,
            shown: commit.shown(),
            state: lock.entry().join("git.json"),
        };
        checkout.bring_to(&commit.tree)?;
        Ok(Opened {
            identity,
            tree,
            lock,
            history: Some(History {
                objects,
                tree: commit.tree,
            }),
        })
    }
}

/// A repository's objects, read through an empty repository of our own: the user's
/// settings, references and replacements have no say.
#[derive(Debug)]
struct Objects {
    repository: Repository,
    folder: PathBuf,
}

impl Objects {
    fn new(repository: &Repository, entry: &Path) -> Result<Self, CacheError> {
        let folder = entry.join("git");
        let config = match repository.store().1 {
            "sha1" => "[core]\nrepositoryformatversion = 0\nbare = true\n".to_owned(),
            other => format!(
                "[core]\nrepositoryformatversion = 1\nbare = true\n\
                 [extensions]\nobjectFormat = {other}\n"
            ),
        };
        let make = || {
            fs::create_dir_all(folder.join("refs"))?;
            fs::write(folder.join("HEAD"), "ref: refs/heads/none\n")?;
            fs::write(folder.join("config"), config)
        };
        make().map_err(|error| CacheError::io("make", &folder, error))?;
        Ok(Self {
            repository: repository.clone(),
            folder,
        })
    }

    fn command(&self) -> Command {
        let mut command = quiet(self.repository.tools());
        command
            .env("GIT_DIR", &self.folder)
            .env("GIT_OBJECT_DIRECTORY", self.repository.store().0);
        command
    }

    fn ask(
        &self,
        words: &[&str],
        input: Option<&str>,
        about: &str,
        cancel: &AtomicBool,
    ) -> Result<Vec<u8>, SourceError> {
        let mut command = self.command();
        command.args(words);
        let what = format!("reading {about} from {:?}", self.repository.path());
        let input = input
            .map(|text| filled(text.as_bytes(), &what))
            .transpose()?;
        let said = process::output(command, input, &what, DEADLINE, cancel)?;
        if said.status.success() {
            return Ok(said.stdout);
        }
        Err(self.absent(about, said.stderr.trim()).into())
    }

    fn absent(&self, about: &str, said: &str) -> RepositoryError {
        RepositoryError::Absent {
            revision: about.to_owned(),
            path: self.repository.path().to_owned(),
            said: said.lines().take(4).collect::<Vec<_>>().join("; "),
        }
    }

    /// All files of a tree.
    fn all(&self, tree: &str, about: &str, cancel: &AtomicBool) -> Result<Changes, SourceError> {
        let text = self.ask(&["ls-tree", "-r", "-z", tree], None, about, cancel)?;
        let mut changes = Changes::new();
        for line in text
            .split(|byte| *byte == 0)
            .filter(|line| !line.is_empty())
        {
            let (head, name) = split(line, b'\t');
            let head = String::from_utf8_lossy(head);
            let mut words = head.split(' ');
            let (mode, object) = (words.next().unwrap_or_default(), words.nth(1));
            if let (Some(kind), Some(object)) = (Kind::of(mode), object) {
                let object = object.to_owned();
                changes.insert(self.name(name)?, Some(Item { kind, object }));
            }
        }
        Ok(changes)
    }

    /// What differs between two trees; `None` if one of them is not there any more.
    fn between(&self, old: &str, new: &str, cancel: &AtomicBool) -> Option<Changes> {
        let words = ["diff-tree", "-r", "-z", "--raw", "--no-renames", old, new];
        let text = self.ask(&words, None, new, cancel).ok()?;
        let mut changes = Changes::new();
        let mut fields = text.split(|byte| *byte == 0);
        while let (Some(head), Some(name)) = (fields.next(), fields.next()) {
            let head = String::from_utf8_lossy(head);
            let words: Vec<&str> = head.trim_start_matches(':').split(' ').collect();
            let [_, mode, _, object, status] = words[..] else {
                return None;
            };
            let item = match (status, Kind::of(mode)) {
                ("D", _) | (_, None) => None,
                (_, Some(kind)) => Some(Item {
                    kind,
                    object: object.to_owned(),
                }),
            };
            changes.insert(self.name(name).ok()?, item);
        }
        Some(changes)
    }

    /// A path of a commit, which must stay inside of the tree.
    fn name(&self, bytes: &[u8]) -> Result<String, SourceError> {
        let path = || {
            self.repository
                .path()
                .join(String::from_utf8_lossy(bytes).as_ref())
        };
        let name = std::str::from_utf8(bytes).map_err(|_| SourceError::Name { path: path() })?;
        let bad = |part: &str| {
            part.is_empty() || part == "." || part == ".." || part.eq_ignore_ascii_case(".git")
        };
        if name.split('/').any(bad) {
            return Err(SourceError::Outside { path: path() });
        }
        Ok(name.to_owned())
    }

    /// The content of objects, in the order in which they are asked for.
    fn contents(
        &self,
        wanted: &[&Item],
        about: &str,
        cancel: &AtomicBool,
    ) -> Result<Vec<Vec<u8>>, SourceError> {
        let text: String = wanted
            .iter()
            .map(|item| format!("{}\n", item.object))
            .collect();
        let words = ["cat-file", "--batch", "--buffer"];
        let said = self.ask(&words, Some(&text), about, cancel)?;
        let mut rest = said.as_slice();
        let mut contents = Vec::with_capacity(wanted.len());
        for item in wanted {
            let (head, after) = split(rest, b'\n');
            let head = String::from_utf8_lossy(head);
            let size = match head.split(' ').collect::<Vec<_>>()[..] {
                [object, "blob", size] if object == item.object => size.parse::<usize>().ok(),
                _ => None,
            };
            // After the content comes one line's end.
            let Some((content, after)) = size
                .filter(|size| after.len() > *size)
                .map(|size| after.split_at(size))
            else {
                return Err(self.absent(about, &head).into());
            };
            contents.push(content.to_vec());
            rest = &after[1..];
        }
        Ok(contents)
    }
}

/// Which commit an opened tree has, and what it has that others have not.
#[derive(Debug)]
pub(crate) struct History {
    objects: Objects,
    tree: String,
}

impl History {
    /// The id of the tree.
    pub(crate) fn tree(&self) -> &str {
        &self.tree
    }

    /// The last names of files that this tree has and `old` has not; `None` if that
    /// cannot be told.
    pub(crate) fn added_since(&self, old: &str, cancel: &AtomicBool) -> Option<BTreeSet<String>> {
        let words = [
            "diff-tree",
            "-r",
            "-z",
            "--name-only",
            "--no-renames",
            "--diff-filter=A",
            old,
            &self.tree,
        ];
        let text = self.objects.ask(&words, None, old, cancel).ok()?;
        let names = String::from_utf8_lossy(&text).into_owned();
        Some(
            names
                .split('\0')
                .filter_map(|name| name.rsplit('/').next())
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
        )
    }
}

/// Bringing a tree to a commit.
struct Checkout<'a> {
    getting: &'a Getting<'a>,
    objects: &'a Objects,
    tree: &'a SourceTree,
    /// The commit, for messages.
    shown: String,
    state: PathBuf,
}

impl Checkout<'_> {
    fn bring_to(&self, wanted: &str) -> Result<(), SourceError> {
        let cancel = self.getting.cancel;
        let state: State = fs::read(&self.state)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        if state.at.as_deref() == Some(wanted) && state.towards.is_empty() {
            return Ok(());
        }
        self.getting.progress.event(Event::Stage {
            stage: Stage::Copy,
            detail: &self.shown,
        });
        let known = self.tree.src().is_dir();
        let changes = state
            .at
            .as_deref()
            .filter(|_| known)
            .and_then(|at| self.since(at, &state.towards, wanted));
        let (changes, whole) = match changes {
            Some(changes) => (changes, false),
            // Nothing is known of what is there: each file is compared.
            None => (self.objects.all(wanted, &self.shown, cancel)?, true),
        };
        let mut towards = state.towards;
        towards.push(wanted.to_owned());
        self.remember(&State {
            at: state.at.filter(|_| !whole),
            towards,
        })?;
        if whole {
            let names: BTreeSet<String> = changes.keys().cloned().collect();
            remove_strangers(self.tree, &names)?;
        }
        self.write(&changes)?;
        self.remember(&State {
            at: Some(wanted.to_owned()),
            towards: Vec::new(),
        })
    }

    /// What has to be written where the tree was at `at`, and on the way to others when
    /// that was broken off.
    fn since(&self, at: &str, towards: &[String], wanted: &str) -> Option<Changes> {
        let cancel = self.getting.cancel;
        let mut changes = Changes::new();
        for towards in towards {
            // From what the broken-off one wrote back to where it was ...
            changes.extend(self.objects.between(towards, at, cancel)?);
        }
        // ... as far as the wanted one is not different there.
        changes.extend(self.objects.between(at, wanted, cancel)?);
        Some(changes)
    }

    fn remember(&self, state: &State) -> Result<(), SourceError> {
        let fault = |error| CacheError::io("write", &self.state, error);
        let text = serde_json::to_vec(state).map_err(|error| fault(error.into()))?;
        let new = self.state.with_extension("new");
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, &self.state))
            .map_err(fault)?;
        Ok(())
    }

    fn write(&self, changes: &Changes) -> Result<(), SourceError> {
        let src = self.tree.src();
        fs::create_dir_all(&src).map_err(|error| CacheError::io("make", &src, error))?;
        // First what goes: a folder can become a file, and a file a folder.
        for (name, item) in changes {
            if item.is_none() && !self.tree.renew(name, &None)? {
                self.tree.remove(name)?;
            }
        }
        let files: Vec<(&String, &Item)> = changes
            .iter()
            .filter_map(|(name, item)| Some((name, item.as_ref()?)))
            .collect();
        let (mut done, total) = (0, u64::try_from(files.len()).ok());
        for portion in files.chunks(PORTION) {
            if self.getting.cancel.load(Ordering::Relaxed) {
                return Err(SourceError::Interrupted {
                    path: self.objects.repository.path().to_owned(),
                });
            }
            let items: Vec<&Item> = portion.iter().map(|(_, item)| *item).collect();
            let contents = self
                .objects
                .contents(&items, &self.shown, self.getting.cancel)?;
            for ((name, item), bytes) in portion.iter().zip(contents) {
                self.put(name, item.kind, bytes)?;
            }
            done += u64::try_from(portion.len()).unwrap_or(0);
            self.getting.progress.event(Event::Count {
                stage: Stage::Copy,
                done,
                total,
            });
        }
        Ok(())
    }

    fn put(&self, name: &str, kind: Kind, bytes: Vec<u8>) -> Result<(), SourceError> {
        let place = self.tree.src().join(name);
        let fault = |error| CacheError::io("write", &place, error);
        if kind == Kind::Link {
            let target = Path::new(std::ffi::OsStr::from_bytes(&bytes));
            if fs::read_link(&place).ok().as_deref() != Some(target) {
                self.tree.remove(name)?;
                if let Some(folder) = place.parent() {
                    fs::create_dir_all(folder).map_err(fault)?;
                }
                symlink(target, &place).map_err(fault)?;
            }
            return Ok(());
        }
        let content = Some(File {
            bytes,
            executable: kind == Kind::Executable,
        });
        if !self.tree.renew(name, &content)?
            && tree::read(&place)? != content
            && let Some(file) = &content
        {
            tree::replace(&self.tree.scratch(), &place, file, Some(SystemTime::now()))?;
        }
        Ok(())
    }
}

/// What is before and after the first `mark`.
fn split(bytes: &[u8], mark: u8) -> (&[u8], &[u8]) {
    match bytes.iter().position(|byte| *byte == mark) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[]),
    }
}
