//! A commit of a git repository as a source: its files in the cache, the same tree for
//! all commits of a repository, so that going from one to another writes only what
//! differs between them.
//!
//! The bytes are those of git's objects. No index, work tree, attribute, filter or
//! configuration of the user's takes part, and nothing of the repository is written to.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::directory::remove_strangers;
use super::error::SourceError;
use super::fetcher::{Fetcher, Identity, Opened};
use super::history::History;
use super::objects::{Changes, Item, ObjectKind, Objects};
use super::repository::{Repository, abbreviated};
use crate::cache::CacheError;
use crate::digest::Digest;
use crate::progress::{BuildEvent, BuildStage};
use crate::source::tree::{self, File, SourceTree};
use crate::spec::Source;

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

impl Fetcher<'_> {
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
        let version =
            crate::version::of_makefile(&makefile).unwrap_or_else(|| "unknown version".to_owned());
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
            self.progress.event(BuildEvent::Note(&format!(
                "{} has edits that are not committed: they are not part of {}",
                path.display(),
                abbreviated(&commit.id)
            )));
        }
        let place = Digest::of(repository.common().as_os_str().as_bytes());
        let name = format!(
            "git-{}-{}",
            crate::files::plain(&repository.name()),
            place.short()
        );
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
            history: Some(History::new(objects, commit.tree)),
        })
    }
}

/// Bringing a tree to a commit.
struct Checkout<'a> {
    getting: &'a Fetcher<'a>,
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
            .filter(|_| !self.getting.fresh)
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        if state.at.as_deref() == Some(wanted) && state.towards.is_empty() {
            return Ok(());
        }
        self.getting.progress.event(BuildEvent::BuildStage {
            stage: BuildStage::Copy,
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
            self.getting.progress.event(BuildEvent::Count {
                stage: BuildStage::Copy,
                done,
                total,
            });
        }
        Ok(())
    }

    fn put(&self, name: &str, kind: ObjectKind, bytes: Vec<u8>) -> Result<(), SourceError> {
        let place = self.tree.src().join(name);
        let fault = |error| CacheError::io("write", &place, error);
        if kind == ObjectKind::Link {
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
            executable: kind == ObjectKind::Executable,
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
