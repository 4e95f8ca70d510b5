//! Sources as definitions and records spell them: a few keys, of which some belong
//! together.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Package, Source};
use crate::digest::Digest;
use crate::source::url;

/// The keys of a source.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct SourceKeys {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    debian: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    suite: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    directory: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    git: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revision: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tarball: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
}

/// What is wrong with the keys of a source.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct KeysError {
    /// The offending text.
    pub(crate) needle: String,
    /// What is wrong, and what is allowed.
    pub(crate) message: String,
}

impl KeysError {
    fn new(needle: &str, message: impl Into<String>) -> Self {
        Self {
            needle: needle.to_owned(),
            message: message.into(),
        }
    }
}

impl TryFrom<SourceKeys> for Source {
    type Error = KeysError;

    fn try_from(keys: SourceKeys) -> Result<Self, Self::Error> {
        const KINDS: &str = "a source is one of `debian` (a package, and maybe its `suite`), \
                             `directory`, `git` with its `revision`, `tarball`, and \
                             `url` with its `sha256`";
        if keys.suite.is_some() && keys.debian.is_none() {
            return Err(KeysError::new(
                "source",
                "`suite` belongs to a Debian package: name it under `debian`",
            ));
        }
        if keys.sha256.is_some() && keys.url.is_none() {
            return Err(KeysError::new(
                "sha256",
                "`sha256` belongs to an address: name it under `url`",
            ));
        }
        match (keys.git.is_some(), keys.revision.is_some()) {
            (true, false) => {
                return Err(KeysError::new(
                    "git",
                    "`git` needs a `revision`, such as v6.12 or HEAD",
                ));
            }
            (false, true) => {
                return Err(KeysError::new(
                    "revision",
                    "`revision` belongs to a repository: name it under `git`",
                ));
            }
            _ => {}
        }
        let kinds = [
            keys.debian.is_some(),
            keys.directory.is_some(),
            keys.git.is_some(),
            keys.tarball.is_some(),
            keys.url.is_some(),
        ];
        if kinds.iter().filter(|there| **there).count() != 1 {
            return Err(KeysError::new("source", KINDS));
        }
        if let Some(name) = keys.debian {
            return package(name, keys.suite);
        }
        if let Some(url) = keys.url {
            return address(url, keys.sha256);
        }
        if let (Some(repository), Some(revision)) = (keys.git, keys.revision) {
            return Ok(Source::Git {
                repository,
                revision,
            });
        }
        let path = keys.directory.map(Source::Directory);
        path.or(keys.tarball.map(Source::Tarball))
            .ok_or_else(|| KeysError::new("source", KINDS))
    }
}

fn package(name: String, suite: Option<String>) -> Result<Source, KeysError> {
    if !is_package(&name) {
        let message = format!("{name:?} is no name of a Debian package, such as linux-source-6.12");
        return Err(KeysError::new(&name, message));
    }
    if let Some(suite) = suite.as_ref().filter(|suite| !is_package(suite)) {
        let message = format!("{suite:?} is no name of a Debian suite, such as trixie-backports");
        return Err(KeysError::new(suite, message));
    }
    Ok(Source::Debian(Package { name, suite }))
}

fn address(url: String, sha256: Option<String>) -> Result<Source, KeysError> {
    if !url::is_url(&url) {
        let message = format!("{url:?} is no address that begins with http:// or https://");
        return Err(KeysError::new(&url, message));
    }
    let Some(text) = sha256 else {
        return Err(KeysError::new(
            "url",
            "`url` needs `sha256`, by which what comes is known: sha256sum prints it",
        ));
    };
    match text.parse::<Digest>() {
        Ok(sha256) => Ok(Source::Url { url, sha256 }),
        Err(error) => Err(KeysError::new(&text, error.to_string())),
    }
}

impl From<Source> for SourceKeys {
    fn from(source: Source) -> Self {
        match source {
            Source::Debian(Package { name, suite }) => Self {
                debian: Some(name),
                suite,
                ..Self::default()
            },
            Source::Directory(path) => Self {
                directory: Some(path),
                ..Self::default()
            },
            Source::Git {
                repository,
                revision,
            } => Self {
                git: Some(repository),
                revision: Some(revision),
                ..Self::default()
            },
            Source::Tarball(path) => Self {
                tarball: Some(path),
                ..Self::default()
            },
            Source::Url { url, sha256 } => Self {
                url: Some(url),
                sha256: Some(sha256.to_string()),
                ..Self::default()
            },
        }
    }
}

/// Debian policy 5.6.1: lower-case letters, digits, `+`, `-`, `.`, and it begins with
/// a letter or digit, so that it can be no option of apt. Suites' names are of the same
/// letters.
fn is_package(name: &str) -> bool {
    name.len() >= 2
        && name.starts_with(|letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit())
        && name.chars().all(|letter| {
            letter.is_ascii_lowercase() || letter.is_ascii_digit() || "+-.".contains(letter)
        })
}
