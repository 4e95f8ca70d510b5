//! Debian source packages: fetched by apt into the cache, without installing them,
//! without root, and without touching the system's package lists.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Instant, SystemTime};

use super::apt::{Address, Apt};
use super::error::SourceError;
use super::fetcher::{Fetcher, Identity, Opened, read_identity};
use crate::cache::{CacheError, EntryLock, Part};
use crate::digest::Digest;
use crate::progress::{BuildEvent, BuildStage};
use crate::source::tree::SourceTree;
use crate::spec::{Package, Source};
use crate::tools::process::{self, Job, Told};

/// The file in an entry that says what it is; it is written last.
const IDENTITY: &str = "source.json";

/// Unpacked, a kernel's source takes about ten times its package's size.
const GROWTH: u64 = 11;

/// Bytes that apt's own lists and caches may take; 14 MB were seen for one Debian suite.
const LISTS: u64 = 200 * 1024 * 1024;

/// How often an entry is looked for again when it is pruned under our hands.
const ATTEMPTS: usize = 3;

impl Fetcher<'_> {
    /// What the cache has of a package; fetches it if it has nothing.
    pub(super) fn debian(&self, package: &Package) -> Result<Identity, SourceError> {
        if let Some(identity) = self.known(package) {
            return Ok(identity);
        }
        let _lock = self.lock(Part::Tools, "apt")?;
        // Another process may have fetched it meanwhile.
        match self.known(package) {
            Some(identity) => Ok(identity),
            None => self.fetch(package, &self.cache.entry(Part::Tools, "apt")),
        }
    }

    pub(super) fn open_debian(&self, package: &Package) -> Result<Opened, SourceError> {
        for _ in 0..ATTEMPTS {
            let identity = self.debian(package)?;
            let name = entry_name(package, &identity);
            let lock = self.lock_tree(&name)?;
            let tree = SourceTree::of(lock.entry());
            if read_identity(&lock.entry().join(IDENTITY)).as_ref() == Some(&identity) {
                return Ok(Opened {
                    identity,
                    tree,
                    lock,
                    history: None,
                });
            }
            let archive = self.cache.entry(Part::Sources, &name).join("package.deb");
            if !archive.is_file() {
                // It was identified by its tree, which has been pruned since.
                continue;
            }
            self.unpack(&archive, &tree, &lock, &identity)?;
            return Ok(Opened {
                identity,
                tree,
                lock,
                history: None,
            });
        }
        Err(CacheError::Damaged {
            path: self.cache.part(Part::Sources),
            why: format!("{package} vanishes as often as it is fetched"),
        }
        .into())
    }

    /// The package as the cache has it: the one fetched last.
    pub(super) fn known(&self, package: &Package) -> Option<Identity> {
        let prefix = format!(
            "{}_",
            crate::files::plain(&format!("debian-{}", package.name))
        );
        let mut found: Vec<(SystemTime, Identity)> = Vec::new();
        for part in [Part::Sources, Part::Trees] {
            for item in fs::read_dir(self.cache.part(part)).ok()?.flatten() {
                let path = item.path().join(IDENTITY);
                if item.file_name().to_string_lossy().starts_with(&prefix)
                    && let Some(identity) = read_identity(&path)
                    && identity.source == Source::Debian(package.clone())
                {
                    let time = fs::metadata(&path).and_then(|data| data.modified());
                    found.push((time.unwrap_or(SystemTime::UNIX_EPOCH), identity));
                }
            }
            if !found.is_empty() {
                break;
            }
        }
        found.sort_by_key(|(time, _)| *time);
        found.pop().map(|(_, identity)| identity)
    }

    fn fetch(&self, package: &Package, state: &Path) -> Result<Identity, SourceError> {
        self.progress.event(BuildEvent::BuildStage {
            stage: BuildStage::Fetch,
            detail: &package.to_string(),
        });
        if which::which_in("apt-get", Some(&self.tools.path), "/").is_err() {
            return Err(SourceError::NoApt {
                package: package.to_string(),
            });
        }
        self.tools.check_unpack()?;
        // apt retries for minutes on a disk that has no room even for the package lists.
        self.cache.need(LISTS, "fetching the package lists")?;
        let log = self.cache.entry(
            Part::Logs,
            &format!("fetch-{}.log", crate::files::plain(&package.name)),
        );
        let _ = fs::remove_file(&log);
        let apt = Apt::of(self, package, state, &log)?;
        // Without new lists the old ones may still do.
        let updated = apt.update()?;
        let mut address = None;
        let listed = apt.run(
            &["--print-uris", "download", &package.name],
            None,
            &mut |told| {
                if let Told::Line(line) = told {
                    address = address.take().or_else(|| Address::parse(line));
                }
            },
        )?;
        let (true, Some(address)) = (listed, address) else {
            return Err(
                if updated || (package.suite.is_some() && apt.has_no_suite()) {
                    apt.no_package()
                } else {
                    apt.failed(
                        "not all package lists could be fetched (is there a network, or a proxy to \
                     be set in http_proxy?), and the others do not have it",
                    )
                },
            );
        };
        let entry = self.cache.temporary(Part::Sources)?;
        self.cache.need(
            address.size * (GROWTH + 1),
            "fetching and unpacking the source",
        )?;
        let fetched = apt.run(
            &["download", &package.name],
            Some(entry.path()),
            &mut |told| {
                if let Told::Tick = told {
                    self.progress.event(BuildEvent::Count {
                        stage: BuildStage::Fetch,
                        done: size_of_packages(entry.path()),
                        total: Some(address.size),
                    });
                }
            },
        )?;
        let archive = package_in(entry.path());
        let (true, Some(archive)) = (fetched, archive) else {
            return Err(apt.failed(&format!("{} could not be downloaded", address.uri)));
        };
        let digest =
            Digest::of_file(&archive).map_err(|error| CacheError::io("read", &archive, error))?;
        if let Some(expected) = address.digest
            && expected != digest
        {
            return Err(SourceError::Checksum {
                package: package.to_string(),
                what: "SHA-256 value",
                found: digest.to_string(),
                expected: expected.to_string(),
            });
        }
        let mut ask = self.tools.command("dpkg-deb");
        ask.args(["--field"]).arg(&archive).arg("Version");
        let version = process::answer(ask)
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty())
            .ok_or_else(|| apt.failed("what came is no Debian package"))?;
        let kept = entry.path().join("package.deb");
        fs::rename(&archive, &kept).map_err(|error| CacheError::io("write", kept, error))?;
        let identity = Identity {
            source: Source::Debian(package.clone()),
            version,
            digest,
            headers: None,
        };
        crate::cache::write_json(&entry.path().join(IDENTITY), &identity)?;
        entry.publish(&entry_name(package, &identity))?;
        Ok(identity)
    }

    fn unpack(
        &self,
        archive: &Path,
        tree: &SourceTree,
        lock: &EntryLock,
        identity: &Identity,
    ) -> Result<(), SourceError> {
        let detail = format!("{} {}", lock_name(lock), identity.version);
        self.progress.event(BuildEvent::BuildStage {
            stage: BuildStage::Unpack,
            detail: &detail,
        });
        self.tools.check_unpack()?;
        let size = fs::metadata(archive).map_or(0, |data| data.len());
        self.cache.need(size * GROWTH, "unpacking the source")?;
        // All that is there was left by an unpacking that did not end.
        crate::files::empty(&tree.src())
            .map_err(|error| CacheError::io("empty", tree.src(), error))?;
        let log = self
            .cache
            .entry(Part::Logs, &format!("unpack-{}.log", lock_name(lock)));
        let _ = fs::remove_file(&log);
        let start = Instant::now();
        let (mut done, mut shown) = (0, 0);
        let mut run = |command: Command, archive: &Path| {
            let ended = Job {
                command,
                what: format!("unpacking {archive:?}"),
                log: &log,
                lock: Some(lock),
                deadline: self.fetch_deadline.saturating_sub(start.elapsed()),
                cancel: self.cancel,
            }
            .run(&mut |told| match told {
                Told::Line(_) => done += 1,
                Told::Tick if done != shown => {
                    shown = done;
                    self.progress.event(BuildEvent::Count {
                        stage: BuildStage::Unpack,
                        done,
                        total: None,
                    });
                }
                Told::Tick => {}
            })?;
            if ended.status.success() {
                return Ok(());
            }
            let said = fs::read_to_string(&log).unwrap_or_default();
            if said.contains("No space left on device") {
                return Err(SourceError::Cache(CacheError::Full {
                    action: "unpack into",
                    path: tree.src(),
                }));
            }
            Err(SourceError::Unpack {
                archive: archive.to_owned(),
                why: said.lines().last().unwrap_or("no word").to_owned(),
                log: log.clone(),
            })
        };
        let opened = tree.scratch().join("package");
        let mut command = self.tools.command("dpkg-deb");
        command.arg("--extract").arg(archive).arg(&opened);
        run(command, archive)?;
        let Some(inner) = source_in(&opened) else {
            return Err(SourceError::Unpack {
                archive: archive.to_owned(),
                why: "it has no usr/src/linux-source-*.tar.*".to_owned(),
                log,
            });
        };
        run(self.tar(&inner, &tree.src()), &inner)?;
        if !tree.src().join("Kconfig").is_file() {
            return Err(SourceError::Unpack {
                archive: inner,
                why: "no kernel source came of it".to_owned(),
                log,
            });
        }
        crate::files::empty(&tree.scratch())
            .map_err(|error| CacheError::io("empty", tree.scratch(), error))?;
        crate::cache::write_json(&lock.entry().join(IDENTITY), identity)?;
        // A list of some 90000 names.
        let _ = fs::remove_file(&log);
        Ok(())
    }

    /// The command that unpacks the source's tarball without its top folder.
    fn tar(&self, archive: &Path, into: &Path) -> Command {
        let mut command = self.tools.command("tar");
        command
            .arg("--extract")
            .arg("--verbose")
            .arg("--no-same-owner");
        if archive
            .extension()
            .is_some_and(|extension| extension == "xz")
        {
            command.arg("--use-compress-program=xz -T0");
        }
        command
            .arg("--strip-components=1")
            .arg("--directory")
            .arg(into)
            .arg("--file")
            .arg(archive);
        command
    }
}

fn entry_name(package: &Package, identity: &Identity) -> String {
    let digest = identity.digest.short();
    crate::files::plain(&format!(
        "debian-{}_{}_{}",
        package.name,
        identity.version,
        &digest[..8]
    ))
}

fn lock_name(lock: &EntryLock) -> String {
    crate::files::name(lock.entry())
}

fn package_in(folder: &Path) -> Option<PathBuf> {
    fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|item| item.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
}

fn source_in(folder: &Path) -> Option<PathBuf> {
    fs::read_dir(folder.join("usr/src"))
        .ok()?
        .flatten()
        .map(|item| item.path())
        .find(|path| {
            let name = crate::files::name(path);
            name.starts_with("linux-source-") && name.contains(".tar")
        })
}

fn size_of_packages(folder: &Path) -> u64 {
    let Ok(list) = fs::read_dir(folder) else {
        return 0;
    };
    list.flatten()
        .filter_map(|item| item.metadata().ok())
        .map(|data| data.len())
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_versions_odd_letters_do_not_get_into_folders_names() {
        let package = Package {
            name: "linux-source-6.12".to_owned(),
            suite: None,
        };
        let identity = Identity {
            source: Source::Debian(package.clone()),
            version: "1:6.12.117-1~deb12u1".to_owned(),
            digest: Digest::of(b""),
            headers: None,
        };
        assert_eq!(
            entry_name(&package, &identity),
            "debian-linux-source-6.12_1_6.12.117-1_deb12u1_e3b0c442"
        );
    }
}
