//! Words that mean a commit: `git:PATH@REVISION`.

use std::path::{Path, PathBuf};

use super::error::SpecError;
use crate::error::KernelError;
use crate::source::SourceError;
use crate::source::repository::{Commit, Repository};
use crate::spec::Source;

/// What such a word begins with.
const GIT: &str = "git:";

/// What follows in a word that means a commit.
pub(super) fn of_word(word: &str) -> Option<&str> {
    word.strip_prefix(GIT)
}

/// Whether there is such a commit.
pub(super) fn exists(word: &str, cwd: &Path) -> bool {
    of_word(word).is_some_and(|rest| find(rest, cwd).is_ok())
}

/// What is wrong with a word of which no beginning means a commit. The shortest one that
/// has a revision at all says it.
pub(super) fn error(word: &str, cwd: &Path) -> KernelError {
    let ends = word
        .match_indices('+')
        .map(|(at, _)| at)
        .chain([word.len()]);
    ends.filter_map(|end| of_word(&word[..end]))
        .filter(|rest| split(rest, cwd).is_some())
        .find_map(|rest| find(rest, cwd).err())
        .unwrap_or_else(|| {
            SpecError::Commit {
                word: word.to_owned(),
                cwd: cwd.to_owned(),
            }
            .into()
        })
}

/// The source that a commit is, and the kernel spec that means it from any folder.
pub(super) fn source(repository: &Repository, commit: &Commit) -> (Source, String) {
    let source = Source::Git {
        repository: repository.path().to_owned(),
        revision: commit.id.clone(),
    };
    let spec = format!("{GIT}{}@{}", repository.path().display(), commit.id);
    (source, spec)
}

/// The repository and the commit that `PATH@REVISION` means, and the name of its kernel.
pub(super) fn named(rest: &str, cwd: &Path) -> Result<(Repository, Commit, String), KernelError> {
    let (repository, commit) = find(rest, cwd)?;
    let revision = split(rest, cwd).map_or(rest, |(_, revision)| revision);
    let name = format!("{}@{revision}", repository.name());
    Ok((repository, commit, name))
}

/// The repository and the revision: at the last `@` before which there is a folder, for
/// both may have others.
fn split<'a>(text: &'a str, cwd: &Path) -> Option<(PathBuf, &'a str)> {
    text.rmatch_indices('@').find_map(|(at, _)| {
        let path = cwd.join(&text[..at]);
        path.is_dir().then_some((path, &text[at + 1..]))
    })
}

fn find(text: &str, cwd: &Path) -> Result<(Repository, Commit), KernelError> {
    let Some((path, revision)) = split(text, cwd) else {
        return Err(SpecError::Commit {
            word: format!("{GIT}{text}"),
            cwd: cwd.to_owned(),
        }
        .into());
    };
    let found = Repository::open(&path).and_then(|found| {
        let commit = found.commit(revision)?;
        Ok((found, commit))
    });
    Ok(found.map_err(SourceError::from)?)
}
