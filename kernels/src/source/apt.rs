//! apt-get, as far as one package is fetched by it: what it is told, and what it
//! answers. The system's package sources and lists are read, never written.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::error::SourceError;
use super::fetcher::Fetcher;
use crate::cache::CacheError;
use crate::digest::Digest;
use crate::spec::Package;
use crate::tools::process::{Job, JobError, Told};

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

/// The keys of Debian's archive where Debian and Ubuntu install them. apt before 2.7
/// does not tell by which key a source is signed.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// What begins each line of [`Mirror::FORMAT`].
const MIRROR: &str = "mirror|";

/// From where the system takes Debian.
#[derive(Debug, PartialEq, Eq)]
struct Mirror {
    uri: String,
    keyring: Option<String>,
}

impl Mirror {
    /// What `apt-get indextargets` is asked for.
    const FORMAT: &'static str = "mirror|$(ORIGIN)|$(LABEL)|$(REPO_URI)|$(SIGNED_BY)";

    /// Reads a line of that; `None` if it is another archive's than Debian's own.
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.strip_prefix(MIRROR)?.split('|').collect();
        match fields[..] {
            ["Debian", "Debian", uri, keyring] => Some(Self {
                uri: uri.to_owned(),
                keyring: keyring.starts_with('/').then(|| keyring.to_owned()),
            }),
            _ => None,
        }
    }

    /// A line of sources.list(5) that takes one of its suites.
    fn source(&self, suite: &str) -> String {
        let Self { uri, keyring } = self;
        let keyring = keyring
            .as_deref()
            .or_else(|| Path::new(KEYRING).is_file().then_some(KEYRING));
        match keyring {
            Some(keyring) => format!("deb [signed-by={keyring}] {uri} {suite} main\n"),
            None => format!("deb {uri} {suite} main\n"),
        }
    }
}

/// apt-get for one package, with a state of our own, and with the system's sources or
/// one of our own.
pub(super) struct Apt<'a> {
    pub(super) getting: &'a Fetcher<'a>,
    pub(super) package: &'a Package,
    /// A file of sources; `None` is the system's.
    pub(super) sources: Option<PathBuf>,
    /// The folder of that state.
    pub(super) state: PathBuf,
    pub(super) log: &'a Path,
    /// When it all began, for the deadline.
    pub(super) start: Instant,
}

impl<'a> Apt<'a> {
    /// apt-get with the system's sources; for a package of a suite with that suite as
    /// the only source, on the mirror that the system takes Debian from.
    pub(super) fn of(
        getting: &'a Fetcher<'a>,
        package: &'a Package,
        state: &Path,
        log: &'a Path,
    ) -> Result<Self, SourceError> {
        let system = Self {
            getting,
            package,
            sources: None,
            state: state.to_owned(),
            log,
            start: Instant::now(),
        };
        system.prepare()?;
        let Some(suite) = &package.suite else {
            return Ok(system);
        };
        let mut mirror = system.mirror()?;
        if mirror.is_none() {
            // Whose archive a source is stands in its lists.
            system.update()?;
            mirror = system.mirror()?;
        }
        let Some(mirror) = mirror else {
            return Err(SourceError::NoPackage {
                package: package.to_string(),
                why: "none of the configured package sources is Debian's".to_owned(),
                log: log.to_owned(),
            });
        };
        let state = state.join("suites").join(suite);
        let sources = state.join("sources.list");
        let own = Self {
            sources: Some(sources.clone()),
            state,
            ..system
        };
        own.prepare()?;
        fs::write(&sources, mirror.source(suite))
            .map_err(|error| CacheError::io("write", sources, error))?;
        Ok(own)
    }

    /// Makes the folders of the state, and an empty list of what is installed.
    fn prepare(&self) -> Result<(), CacheError> {
        for folder in ["state/lists/partial", "cache/archives/partial"] {
            let path = self.state.join(folder);
            fs::create_dir_all(&path).map_err(|error| CacheError::io("make", path, error))?;
        }
        let status = self.state.join("status");
        fs::write(&status, "").map_err(|error| CacheError::io("write", status, error))
    }

    /// Fetches the lists. Whether all of them came.
    pub(super) fn update(&self) -> Result<bool, SourceError> {
        // By itself it succeeds without a network as well.
        let arguments = ["-o", "APT::Update::Error-Mode=any", "update"];
        self.run(&arguments, None, &mut |_| {})
    }

    fn mirror(&self) -> Result<Option<Mirror>, SourceError> {
        let mut found = None;
        let arguments = [
            "indextargets",
            "--format",
            Mirror::FORMAT,
            "Created-By: Packages",
            "Component: main",
        ];
        self.run(&arguments, None, &mut |told| {
            if let Told::Line(line) = told {
                found = found.take().or_else(|| Mirror::parse(line));
            }
        })?;
        Ok(found)
    }

    /// Runs apt-get with our own state. Whether it succeeded.
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
        if let Some(sources) = &self.sources {
            let list = format!("Dir::Etc::SourceList={}", sources.display());
            for option in [list.as_str(), "Dir::Etc::SourceParts=/dev/null"] {
                command.arg("-o").arg(option);
            }
        }
        command
            .args(["--quiet", "--yes"])
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .current_dir(folder.unwrap_or(&self.state));
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

    /// Whether a source's answer was that there is no such suite.
    pub(super) fn has_no_suite(&self) -> bool {
        fs::read_to_string(self.log).is_ok_and(|said| said.contains("does not have a Release file"))
    }

    /// That none of the sources has it.
    pub(super) fn no_package(&self) -> SourceError {
        SourceError::NoPackage {
            package: self.package.to_string(),
            why: match &self.package.suite {
                Some(_) => "the mirror that this system takes Debian from does not have it there",
                None => {
                    "none of the configured package sources has it; on Debian 12 it comes from \
                     bookworm-backports or bookworm-security (see sources.list(5))"
                }
            }
            .to_owned(),
            log: self.log.to_owned(),
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
            package: self.package.to_string(),
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

    #[test]
    fn a_suite_is_taken_from_where_the_system_takes_debian_from() {
        // Older versions of apt give a field that they do not know as it was written.
        let lines = [
            "Reading package lists...",
            "mirror|Debian|Debian-Security|http://m/security/|$(SIGNED_BY)",
            "mirror|Ubuntu|Ubuntu|http://m/ubuntu/|/k.gpg",
            "mirror|$(ORIGIN)|$(LABEL)|http://m/none/|$(SIGNED_BY)",
        ];
        assert!(lines.iter().all(|line| Mirror::parse(line).is_none()));
        let mirror = Mirror::parse("mirror|Debian|Debian|http://m/debian/|/k.gpg").unwrap();
        assert_eq!(
            mirror.source("trixie-backports"),
            "deb [signed-by=/k.gpg] http://m/debian/ trixie-backports main\n"
        );
        let mirror = Mirror::parse("mirror|Debian|Debian|http://m/debian/|$(SIGNED_BY)").unwrap();
        assert_eq!(mirror.keyring, None);
    }
}
