//! apt-get, as far as one package is fetched by it: what it is told, and what it
//! answers.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Getting, SourceError};
use crate::digest::Digest;
use crate::process::{Job, JobError, Told};

/// Where apt would take a package from.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) uri: String,
    pub(super) size: u64,
    /// `None` if the lists have another kind of checksum, which apt verifies alone.
    pub(super) digest: Option<Digest>,
}

impl Address {
    /// Reads a line of `apt-get --print-uris download`: `'URI' FILE SIZE SHA256:HEX`.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (uri, rest) = line.strip_prefix('\'')?.split_once("' ")?;
        let mut fields = rest.split_whitespace();
        let _file = fields.next()?;
        let size = fields.next()?.parse().ok()?;
        let digest = fields
            .next()
            .and_then(|sum| sum.strip_prefix("SHA256:"))
            .and_then(|sum| sum.parse().ok());
        Some(Self {
            uri: uri.to_owned(),
            size,
            digest,
        })
    }
}

/// apt-get for one package, with the system's sources and a state of our own.
pub(super) struct Apt<'a> {
    pub(super) getting: &'a Getting<'a>,
    pub(super) package: &'a str,
    /// The folder of that state.
    pub(super) state: &'a Path,
    pub(super) log: &'a Path,
    /// When it all began, for the deadline.
    pub(super) start: Instant,
}

impl Apt<'_> {
    /// Runs apt-get with the system's sources and our own state. Whether it succeeded.
    pub(super) fn run(
        &self,
        arguments: &[&str],
        folder: Option<&Path>,
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Result<bool, SourceError> {
        let mut command = self.getting.tools.command("apt-get");
        for name in [
            "http_proxy",
            "https_proxy",
            "ftp_proxy",
            "no_proxy",
            "HTTP_PROXY",
            "HTTPS_PROXY",
            "NO_PROXY",
            "APT_CONFIG",
        ] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        let place = |key: &str, path: &str| format!("{key}={}", self.state.join(path).display());
        for option in [
            place("Dir::State", "state"),
            place("Dir::State::status", "status"),
            place("Dir::Cache", "cache"),
            // Ours is the only lock that is needed, and root's helper user could not
            // write into the cache.
            "Debug::NoLocking=true".to_owned(),
            "APT::Sandbox::User=root".to_owned(),
            "Acquire::Languages=none".to_owned(),
            "Acquire::Retries=2".to_owned(),
            "Acquire::http::Timeout=30".to_owned(),
            "Acquire::https::Timeout=30".to_owned(),
            "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false".to_owned(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
        ] {
            command.arg("-o").arg(option);
        }
        command
            .args(["--quiet", "--yes"])
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .current_dir(folder.unwrap_or(self.state));
        let deadline = self
            .getting
            .fetch_deadline
            .saturating_sub(self.start.elapsed())
            .max(Duration::from_secs(1));
        let ended = Job {
            command,
            what: format!("fetching the package {}", self.package),
            log: self.log,
            lock: None,
            deadline,
            cancel: self.getting.cancel,
        }
        .run(tell);
        match ended {
            Ok(ended) => Ok(ended.status.success()),
            Err(JobError::Deadline { seconds: _, .. }) => Err(self.failed(&format!(
                "it took longer than {} s",
                self.getting.fetch_deadline.as_secs()
            ))),
            Err(error) => Err(error.into()),
        }
    }

    /// What was tried, and what apt said.
    pub(super) fn failed(&self, why: &str) -> SourceError {
        let text = fs::read_to_string(self.log).unwrap_or_default();
        let said = text
            .lines()
            .filter(|line| {
                ["E:", "W:", "Err:"]
                    .iter()
                    .any(|mark| line.starts_with(mark))
            })
            .take(10)
            .map(|line| format!("  {line}"))
            .collect();
        SourceError::Fetch {
            package: self.package.to_owned(),
            why: format!("tried apt-get update and download; {why}"),
            said,
            log: self.log.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_from_what_apt_prints() {
        let digest = Digest::of(b"");
        let line =
            format!("'http://x/y.deb' linux-source-6.12_1_all.deb 153476148 SHA256:{digest}");
        assert_eq!(
            Address::parse(&line),
            Some(Address {
                uri: "http://x/y.deb".to_owned(),
                size: 153_476_148,
                digest: Some(digest),
            })
        );
        assert_eq!(Address::parse("Reading package lists..."), None);
    }
}
