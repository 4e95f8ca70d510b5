//! Sources as definitions and records spell them: a few keys, of which some belong
//! together.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::yaml::At;

/// Where a kernel's source comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SourceKeys", into = "SourceKeys")]
#[non_exhaustive]
pub enum Source {
    /// A Debian source package.
    Debian(Package),
    /// A folder with a kernel's source. It is copied, never written to.
    Directory(PathBuf),
    /// A commit of a git repository, which is never written to.
    Git {
        /// The repository, or a work tree of it.
        repository: PathBuf,
        /// What names the commit; its whole id, once it was looked up.
        revision: String,
    },
    /// A tarball of a kernel's source on this machine: `.tar`, or compressed by gzip, xz
    /// or zstd.
    Tarball(PathBuf),
    /// A tarball that is fetched, and used only if it is the one that is meant.
    Url {
        /// From where: `http://` or `https://`.
        url: String,
        /// The digest of its bytes.
        sha256: Digest,
    },
}

/// A Debian package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Its name, for instance `linux-source-6.12`.
    pub name: String,
    /// The suite that it is taken from, for instance `trixie-backports`, on the mirror
    /// that the system takes Debian from. `None`: the system's own package sources.
    pub suite: Option<String>,
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.suite {
            Some(suite) => write!(f, "{} of {suite}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Debian(package) => write!(f, "the Debian package {package}"),
            Self::Directory(path) => write!(f, "the folder {}", path.display()),
            Self::Git {
                repository,
                revision,
            } => write!(f, "commit {revision} of {}", repository.display()),
            Self::Tarball(path) => write!(f, "the tarball {}", path.display()),
            Self::Url { url, .. } => f.write_str(url),
        }
    }
}

impl Source {
    /// The release of its kernel, as far as it is known before it is fetched.
    pub(super) fn release(&self) -> Option<String> {
        // kernel.org's names: linux-6.12.109.tar.xz
        let of_tarball = |name: &str| {
            let release = name.strip_prefix("linux-")?.split(".tar").next()?;
            release
                .starts_with(|first: char| first.is_ascii_digit())
                .then(|| release.to_owned())
        };
        match self {
            Self::Debian(package) => {
                let release = package.name.strip_prefix("linux-source-")?;
                Some(release.to_owned())
            }
            Self::Directory(path) => crate::version::of_source(path),
            Self::Tarball(path) => of_tarball(&crate::files::name(path)),
            Self::Url { url, .. } => of_tarball(&name_in_url(url)),
            Self::Git { .. } => None,
        }
    }
}

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
    /// Where, within the source.
    pub(crate) at: At,
    /// What is wrong, and what is allowed.
    pub(crate) message: String,
}

impl KeysError {
    /// About a key; an empty one is the source itself.
    fn key(key: &str, message: &str) -> Self {
        Self {
            at: At::Key(key.to_owned()),
            message: message.to_owned(),
        }
    }

    fn value(key: &str, message: String) -> Self {
        Self {
            at: At::Value(key.to_owned()),
            message,
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
            return Err(KeysError::key(
                "",
                "`suite` belongs to a Debian package: name it under `debian`",
            ));
        }
        if keys.sha256.is_some() && keys.url.is_none() {
            return Err(KeysError::key(
                "sha256",
                "`sha256` belongs to an address: name it under `url`",
            ));
        }
        match (keys.git.is_some(), keys.revision.is_some()) {
            (true, false) => {
                return Err(KeysError::key(
                    "git",
                    "`git` needs a `revision`, such as v6.12 or HEAD",
                ));
            }
            (false, true) => {
                return Err(KeysError::key(
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
            return Err(KeysError::key("", KINDS));
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
            .ok_or_else(|| KeysError::key("", KINDS))
    }
}

fn package(name: String, suite: Option<String>) -> Result<Source, KeysError> {
    if !is_package(&name) {
        let message = format!("{name:?} is no name of a Debian package, such as linux-source-6.12");
        return Err(KeysError::value("debian", message));
    }
    if let Some(suite) = suite.as_ref().filter(|suite| !is_package(suite)) {
        let message = format!("{suite:?} is no name of a Debian suite, such as trixie-backports");
        return Err(KeysError::value("suite", message));
    }
    Ok(Source::Debian(Package { name, suite }))
}

fn address(url: String, sha256: Option<String>) -> Result<Source, KeysError> {
    if !is_url(&url) {
        let message = format!("{url:?} is no address that begins with http:// or https://");
        return Err(KeysError::value("url", message));
    }
    let Some(text) = sha256 else {
        return Err(KeysError::key(
            "url",
            "`url` needs `sha256`, by which what comes is known: sha256sum prints it",
        ));
    };
    match text.parse::<Digest>() {
        Ok(sha256) => Ok(Source::Url { url, sha256 }),
        Err(error) => Err(KeysError::value("sha256", error.to_string())),
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

/// Whether a text is meant to be an address.
pub(crate) fn is_url(text: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| {
        text.strip_prefix(scheme)
            .is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
    })
}

/// The last part of an address' path, without what a server is asked.
pub(crate) fn name_in_url(url: &str) -> String {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    let name = path.trim_end_matches('/').rsplit('/').next();
    name.unwrap_or(path).to_owned()
}
