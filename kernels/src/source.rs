//! Sources: from where a kernel's text comes, and how it gets into the cache.
//!
//! A source is *identified* (which needs no network if the cache has it) and then
//! *opened*: its tree in the cache is locked and complete. Patches are not known here.

mod apt;
mod archive;
mod debian;
mod directory;
mod download;
mod error;
mod fetcher;
mod git;
mod history;
mod objects;
pub mod repository;
pub(crate) mod tarball;
pub(crate) mod tree;
pub(crate) mod url;

pub use error::SourceError;
pub use fetcher::Identity;
pub(crate) use fetcher::{Fetcher, Opened};
pub(crate) use history::History;

use crate::spec::Source;

impl Fetcher<'_> {
    /// What a source is. A directory has to be copied for that, and comes locked.
    pub(crate) fn identify(
        &self,
        source: &Source,
    ) -> Result<(Identity, Option<Opened>), SourceError> {
        match source {
            Source::Debian(package) => Ok((self.debian(package)?, None)),
            Source::Directory(path) => {
                let opened = self.directory(path)?;
                Ok((opened.identity.clone(), Some(opened)))
            }
            Source::Git {
                repository,
                revision,
            } => Ok((self.commit(repository, revision)?, None)),
            Source::Tarball(path) => Ok((self.tarball(path)?, None)),
            Source::Url { url, sha256 } => Ok((self.url(url, *sha256), None)),
        }
    }

    /// Whether the cache has what would have to be fetched.
    pub(crate) fn has(&self, source: &Source) -> bool {
        match source {
            Source::Debian(package) => self.known(package).is_some(),
            Source::Url { sha256, .. } => self.has_fetched(*sha256),
            Source::Directory(_) | Source::Tarball(_) | Source::Git { .. } => true,
        }
    }

    /// Locks a source's tree and makes it complete.
    pub(crate) fn open(&self, source: &Source) -> Result<Opened, SourceError> {
        match source {
            Source::Debian(package) => self.open_debian(package),
            Source::Directory(path) => self.directory(path),
            Source::Git {
                repository,
                revision,
            } => self.open_git(repository, revision),
            Source::Tarball(path) => self.open_tarball(path),
            Source::Url { url, sha256 } => self.open_url(url, *sha256),
        }
    }
}
