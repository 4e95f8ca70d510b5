//! Tarballs from the network: fetched into the cache once, and used only if they are
//! what was asked for.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use super::download::{Download, DownloadError};
use super::error::SourceError;
use super::fetcher::{Fetcher, Identity, Opened};
use crate::cache::{CacheError, Part};
use crate::digest::Digest;
use crate::progress::{BuildEvent, BuildStage};
use crate::spec::{Source, is_url, name_in_url};

/// The mark between an address and the digest of what is there, on a command line.
const MARK: &str = "#sha256=";

/// The name of what has come so far, in its entry.
const PARTIAL: &str = "partial";

/// The address and the digest that a word of the command line names: the word begins
/// with `http://` or `https://`, and ends with `#sha256=` and 64 digits.
pub(crate) fn of_word(word: &str) -> Option<Source> {
    let (url, digest) = word.rsplit_once(MARK)?;
    let digest = digest.parse().ok()?;
    is_url(url).then(|| Source::Url {
        url: url.to_owned(),
        sha256: digest,
    })
}

impl Fetcher<'_> {
    /// What an address stands for: known without asking anybody.
    pub(super) fn url(&self, url: &str, sha256: Digest) -> Identity {
        Identity {
            source: Source::Url {
                url: url.to_owned(),
                sha256,
            },
            version: name_in_url(url),
            digest: sha256,
            headers: None,
        }
    }

    pub(super) fn open_url(&self, url: &str, sha256: Digest) -> Result<Opened, SourceError> {
        let identity = self.url(url, sha256);
        self.open_archive(identity, &mut |_| self.fetch_url(url, sha256))
    }

    /// The entry that keeps a file with these bytes once it was fetched.
    fn fetched(&self, sha256: Digest) -> PathBuf {
        let entry = format!("url-{}", sha256.short());
        self.cache.entry(Part::Sources, &entry)
    }

    /// Whether a file with these bytes was fetched.
    pub(super) fn has_fetched(&self, sha256: Digest) -> bool {
        self.fetched(sha256).join("archive").is_file()
    }

    /// The file with exactly these bytes, in the cache; fetched if it is not there.
    fn fetch_url(&self, url: &str, sha256: Digest) -> Result<PathBuf, SourceError> {
        let name = name_in_url(url);
        let entry = self.fetched(sha256);
        let kept = entry.join("archive");
        let partial = format!("download-{}", sha256.short());
        let lock = self.lock(Part::Tools, &partial)?;
        if kept.is_file() {
            if digest(&kept)? == sha256 {
                self.cache.remove(lock.entry())?;
                return Ok(kept);
            }
            let warning = format!("{name} in the cache is damaged: it is fetched again");
            self.progress.event(BuildEvent::Warning(&warning));
            self.cache.remove(&entry)?;
        }
        self.progress.event(BuildEvent::BuildStage {
            stage: BuildStage::Fetch,
            detail: url,
        });
        let partial = lock.entry().join(PARTIAL);
        let end = Instant::now() + self.fetch_deadline;
        let download = Download {
            url,
            into: &partial,
            stall: self.stall_deadline,
            end,
            cancel: self.cancel,
        };
        let mut resumed = fs::metadata(&partial).map_or(0, |data| data.len());
        if resumed > 0 {
            let note = format!("{name}: going on after {resumed} bytes that are here already");
            self.progress.event(BuildEvent::Note(&note));
        }
        loop {
            // Asked once, when the server has said how much will come.
            let mut room = None;
            let went = download.run(&mut |done, total| {
                self.progress.event(BuildEvent::Count {
                    stage: BuildStage::Fetch,
                    done,
                    total,
                });
                let Some(total) = total else { return true };
                room.get_or_insert_with(|| {
                    let needed = total.saturating_sub(done);
                    self.cache.need(needed, "fetching the source")
                })
                .is_ok()
            });
            if let Some(Err(error)) = room {
                return Err(error.into());
            }
            went.map_err(|error| download_error(url, error))?;
            let found = digest(&partial)?;
            if found == sha256 {
                break;
            }
            fs::remove_file(&partial).map_err(|error| CacheError::io("remove", &partial, error))?;
            if resumed == 0 {
                return Err(SourceError::Mismatch {
                    url: url.to_owned(),
                    expected: sha256,
                    found,
                });
            }
            // The beginning may have been another file's.
            resumed = 0;
            self.progress.event(BuildEvent::Note(
                "what was here and what came do not fit: it is fetched again, whole",
            ));
        }
        let new = self.cache.temporary(Part::Sources)?;
        let place = new.path().join("archive");
        fs::rename(&partial, &place).map_err(|error| CacheError::io("write", place, error))?;
        new.publish(&crate::files::name(&entry))?;
        self.cache.remove(lock.entry())?;
        Ok(kept)
    }
}

fn download_error(url: &str, error: DownloadError) -> SourceError {
    match error {
        DownloadError::Interrupted => SourceError::Interrupted { path: url.into() },
        DownloadError::Write { path, source } => {
            SourceError::Cache(CacheError::io("write", path, source))
        }
        error => SourceError::Download {
            url: url.to_owned(),
            why: error.to_string(),
        },
    }
}

fn digest(path: &std::path::Path) -> Result<Digest, SourceError> {
    Digest::of_file(path).map_err(|error| CacheError::io("read", path, error).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_has_an_address_and_a_digest() {
        let digest = Digest::of(b"");
        let word = format!("https://x.org/a+b/linux-6.12.tar.xz?x=1#sha256={digest}");
        assert_eq!(
            of_word(&word),
            Some(Source::Url {
                url: "https://x.org/a+b/linux-6.12.tar.xz?x=1".to_owned(),
                sha256: digest,
            })
        );
        for wrong in [
            "https://x.org/a.tar.xz".to_owned(),
            "https://x.org/a.tar.xz#sha256=12".to_owned(),
            format!("file:///a.tar.xz#sha256={digest}"),
            format!("https://#sha256={digest}"),
        ] {
            assert_eq!(of_word(&wrong), None, "{wrong}");
        }
        assert_eq!(
            name_in_url("https://x.org/a/linux-6.12.tar.xz?x=/1"),
            "linux-6.12.tar.xz"
        );
    }
}
