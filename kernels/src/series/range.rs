//! Revision ranges: the commits `A..B` of a user's repository as patches.
//!
//! The repository is only read (the module `source::repository`): nothing is fetched
//! that a partial clone lacks, and no program runs that its settings name.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::SeriesError;
use super::mail::{Content, Mail};
use super::subject_prefix::SubjectPrefix;
use crate::cache::{Cache, CacheError, Part};
use crate::source::repository::{Commit, Repository, RepositoryError, abbreviated};
use crate::spec::PatchNumber;

/// How many commits a range may have.
const MOST: usize = 500;

/// A range as a word spells it: `A..B`, or `git:PATH@A..B`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Range {
    /// The repository, or a folder in it.
    pub(crate) repository: PathBuf,
    pub(crate) from: String,
    pub(crate) to: String,
}

impl Range {
    /// Reads a word; `None` if it cannot be a range. Whether the revisions exist is
    /// not looked at.
    pub(crate) fn parse(word: &str, cwd: &Path) -> Option<Self> {
        let (repository, range) = match word.strip_prefix("git:") {
            // Revisions may have an `@`, too (`HEAD@{1}`), and so may folders.
            Some(rest) => rest
                .match_indices('@')
                .map(|(at, _)| (cwd.join(&rest[..at]), &rest[at + 1..]))
                .find(|(path, _)| path.is_dir())?,
            None => (cwd.to_owned(), word),
        };
        let (from, to) = range.split_once("..")?;
        let plain = |text: &str| {
            !text.starts_with(['-', '/', '.'])
                && !text.ends_with('/')
                && !text.contains("..")
                && !text.contains(char::is_whitespace)
        };
        let to = if to.is_empty() { "HEAD" } else { to };
        (!from.is_empty() && plain(from) && plain(to)).then(|| Self {
            repository,
            from: from.to_owned(),
            to: to.to_owned(),
        })
    }

    /// The word that means it from any folder.
    pub(crate) fn word(&self) -> String {
        let path =
            std::path::absolute(&self.repository).unwrap_or_else(|_| self.repository.clone());
        format!("git:{}@{}", path.display(), self.name())
    }

    /// `A..B`.
    pub(crate) fn name(&self) -> String {
        format!("{}..{}", self.from, self.to)
    }
}

/// The commits of a range as mails, the oldest first.
pub(crate) fn mails(
    range: &Range,
    cache: &Cache,
    tools: &OsStr,
    notes: &mut Vec<String>,
) -> Result<Vec<Mail>, SeriesError> {
    let name = range.name();
    let repository = Repository::with_tools(&range.repository, tools)?;
    let (base, commits) = commits(range, &repository, notes)?;
    let scratch = cache.temporary(Part::Tools)?;
    let mut mails = Vec::new();
    for (parent, commit) in commits {
        let bytes = diff(&repository, &parent, &commit.id, scratch.path())?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            notes.push(format!(
                "commit {} changes nothing: ignored",
                commit.shown()
            ));
            continue;
        }
        mails.push(Mail {
            path: PathBuf::from(&name),
            mail: None,
            prefix: SubjectPrefix {
                title: commit.subject.clone(),
                version: "1".to_owned(),
                patch: true,
                ..SubjectPrefix::default()
            },
            subject: Some(commit.subject),
            content: Content::Patch(bytes),
            base_commit: Some(base.clone()),
            message_id: None,
        });
    }
    if mails.is_empty() {
        return Err(SeriesError::NoPatch {
            place: format!("the range {name}"),
            why: "none of its commits changes anything".to_owned(),
        });
    }
    let of = u32::try_from(mails.len()).unwrap_or(u32::MAX);
    for (mail, part) in mails.iter_mut().zip(1..) {
        mail.prefix.number = Some(PatchNumber { part, of });
    }
    Ok(mails)
}

/// The commit that a range forks from, and its commits with their parents, the oldest first.
fn commits(
    range: &Range,
    repository: &Repository,
    notes: &mut Vec<String>,
) -> Result<(String, Vec<(String, Commit)>), SeriesError> {
    let name = range.name();
    let fault = |why: String| SeriesError::Range {
        range: name.clone(),
        repository: range.repository.clone(),
        why,
    };
    let unshallow = match repository.is_shallow() {
        true => {
            "; the repository is shallow, `git fetch --unshallow` fetches the rest of its history"
        }
        false => "",
    };
    let commit = |revision| match repository.commit(revision) {
        Err(error) if !unshallow.is_empty() => Err(fault(format!("{error}{unshallow}"))),
        commit => Ok(commit?),
    };
    let (from, to) = (commit(&range.from)?, commit(&range.to)?);
    let words = ["merge-base", &from.id, &to.id];
    let base = match repository.ask("find where history forks", &words) {
        Ok(said) => said.trim().to_owned(),
        Err(RepositoryError::Git { .. }) => {
            return Err(fault(format!(
                "{} and {} have no history in common{unshallow}",
                range.from, range.to
            )));
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(boundary) = repository.shallow_boundary_between(&from.id, &to.id)? {
        return Err(fault(format!(
            "its history is cut at {}{unshallow}",
            abbreviated(&boundary)
        )));
    }
    if base != from.id {
        notes.push(format!(
            "{} is no ancestor of {}: the patches are the commits since {}",
            range.from,
            range.to,
            abbreviated(&base)
        ));
    }
    let ids = format!("{}..{}", from.id, to.id);
    let words = ["rev-list", "--topo-order", "--reverse", "--parents", &ids];
    let listed = repository.ask("list commits", &words)?;
    let ids: Vec<String> = listed
        .lines()
        .filter_map(|line| Some(line.split_whitespace().next()?.to_owned()))
        .collect();
    if ids.is_empty() {
        return Err(SeriesError::NoPatch {
            place: format!("the range {name}"),
            why: format!(
                "there are no commits in it: {} contains {}",
                range.from, range.to
            ),
        });
    }
    if ids.len() > MOST {
        return Err(fault(format!(
            "it has {} commits, and a series may have {MOST}",
            ids.len()
        )));
    }
    let mut known = repository.commits(&ids)?;
    let mut commits = Vec::new();
    for (line, id) in listed.lines().zip(&ids) {
        let Some(commit) = known.remove(id) else {
            return Err(fault(format!("git lists {id} and does not show it")));
        };
        let parent = parent(line, &commit, unshallow).map_err(&fault)?;
        commits.push((parent, commit));
    }
    Ok((base, commits))
}

/// The parent in a line of `rev-list --parents`; refuses merges, and commits without one.
fn parent(line: &str, commit: &Commit, cut: &str) -> Result<String, String> {
    let parents: Vec<&str> = line.split_whitespace().skip(1).collect();
    match &parents[..] {
        [parent] => Ok((*parent).to_owned()),
        [] => Err(format!(
            "it goes back to {}, which has no commit before it{cut}",
            commit.shown()
        )),
        _ => Err(format!(
            "it has the merge {}, which is no patch; give the commits of one side, or rebase them",
            commit.shown()
        )),
    }
}

/// The diff of a commit, its bytes as they are.
fn diff(
    repository: &Repository,
    parent: &str,
    commit: &str,
    scratch: &Path,
) -> Result<Vec<u8>, SeriesError> {
    let file = scratch.join("commit");
    fs::write(&file, "").map_err(|error| CacheError::io("write", &file, error))?;
    // The cache's path is text that no shell or git takes for something else.
    let output = format!("--output={}", file.display());
    let words = [
        "diff-tree",
        "-p",
        "--binary",
        "--full-index",
        "--no-renames",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--ignore-submodules=none",
        "-U3",
        "--src-prefix=a/",
        "--dst-prefix=b/",
        &output,
        parent,
        commit,
    ];
    repository.ask("show a commit's changes", &words)?;
    Ok(fs::read(&file).map_err(|error| CacheError::io("read", &file, error))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_ranges_and_words_that_are_not() {
        let here = Path::new("/");
        let parsed = |word: &str| {
            Range::parse(word, here).map(|range| {
                let path = range.repository.display().to_string();
                format!("{path} {} {}", range.from, range.to)
            })
        };
        for (word, expected) in [
            ("v6.11..HEAD", "/ v6.11 HEAD"),
            ("origin/master..", "/ origin/master HEAD"),
            ("HEAD~2..topic/numa", "/ HEAD~2 topic/numa"),
            ("git:tmp@v6.11..HEAD@{1}", "/tmp v6.11 HEAD@{1}"),
            ("git:/tmp@a..b", "/tmp a b"),
        ] {
            assert_eq!(parsed(word).as_deref(), Some(expected), "{word}");
        }
        for word in [
            "",
            "..",
            "x",
            "..x",
            "../x.patch",
            "a/../x.patch",
            "a...b",
            "-x..y",
            "x..--output=y",
            "a b..c",
            "git:/no/such/folder@a..b",
            "git:a..b",
        ] {
            assert_eq!(parsed(word), None, "{word}");
        }
    }
}
