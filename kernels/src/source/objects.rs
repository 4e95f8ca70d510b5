//! A repository's objects: what a tree has, what differs between two, and what is in files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::error::SourceError;
use super::repository::{Repository, RepositoryError, filled};
use crate::cache::CacheError;
use crate::tools::process;

/// For one question to git, of which each takes seconds at most.
const DEADLINE: Duration = Duration::from_secs(600);

/// What a path is in a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) kind: ObjectKind,
    object: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectKind {
    Plain,
    Executable,
    Link,
}

impl ObjectKind {
    /// `None` for a submodule: its files are no part of the commit.
    fn of(mode: &str) -> Option<ObjectKind> {
        match mode {
            "100755" => Some(ObjectKind::Executable),
            "120000" => Some(ObjectKind::Link),
            "160000" => None,
            _ => Some(ObjectKind::Plain),
        }
    }
}

/// What changes: a path's new content, or `None` if it goes.
pub(super) type Changes = BTreeMap<String, Option<Item>>;

/// A repository's objects, read through an empty repository of our own: the user's
/// settings, references and replacements have no say.
#[derive(Debug)]
pub(super) struct Objects {
    pub(super) repository: Repository,
    folder: PathBuf,
}

impl Objects {
    pub(super) fn new(repository: &Repository, entry: &Path) -> Result<Self, CacheError> {
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
        let mut command = crate::tools::git::quiet(self.repository.tools());
        command
            .env("GIT_DIR", &self.folder)
            .env("GIT_OBJECT_DIRECTORY", self.repository.store().0);
        command
    }

    /// What git prints.
    pub(super) fn ask(
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
    pub(super) fn all(
        &self,
        tree: &str,
        about: &str,
        cancel: &AtomicBool,
    ) -> Result<Changes, SourceError> {
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
            if let (Some(kind), Some(object)) = (ObjectKind::of(mode), object) {
                let object = object.to_owned();
                changes.insert(self.name(name)?, Some(Item { kind, object }));
            }
        }
        Ok(changes)
    }

    /// What differs between two trees; `None` if one of them is not there any more.
    pub(super) fn between(&self, old: &str, new: &str, cancel: &AtomicBool) -> Option<Changes> {
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
            let item = match (status, ObjectKind::of(mode)) {
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
    pub(super) fn contents(
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

/// What is before and after the first `mark`.
fn split(bytes: &[u8], mark: u8) -> (&[u8], &[u8]) {
    match bytes.iter().position(|byte| *byte == mark) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[]),
    }
}
