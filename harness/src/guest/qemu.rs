//! The QEMU that is installed: where it is, its version, what it can do.
//!
//! Asks the program itself, and remembers the answer for as long as this process lives and
//! the file stays the same. It starts no guest.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, SystemTime};
use std::{env, fmt, fs, io, thread};

/// The variable that names another QEMU than the one in `PATH`.
pub const VARIABLE: &str = "NUMALAB_QEMU";

/// The program's name.
pub const PROGRAM: &str = "qemu-system-x86_64";

/// The first version that shares the instruction budget of `-icount` fairly between CPUs.
pub const EXACT_SINCE: Version = Version {
    major: 8,
    minor: 1,
    micro: 0,
};

/// How long QEMU may take to tell its version. Wall time, and generous: it loads some
/// hundred libraries on a machine that may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is given to `-sandbox`: no more privileges, no other programs, no system calls that
/// are out of use.
pub const SANDBOX: &str = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";

/// A version of QEMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// 10 of 10.0.2.
    pub major: u32,
    /// 0 of 10.0.2.
    pub minor: u32,
    /// 2 of 10.0.2.
    pub micro: u32,
}

/// A QEMU that answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qemu {
    path: PathBuf,
    version: Version,
    text: String,
    sandbox: bool,
}

/// Why there is no usable QEMU.
#[derive(Debug, thiserror::Error)]
pub enum QemuError {
    /// Nowhere in `PATH`.
    #[error(
        "{PROGRAM} is not in PATH: install QEMU (Debian and Ubuntu: apt install \
         qemu-system-x86; Fedora: qemu-system-x86-core; Arch: qemu-system-x86; openSUSE: \
         qemu-x86), or name one in {VARIABLE}"
    )]
    Missing,
    /// The file named cannot be used.
    #[error("QEMU at {} cannot be used", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file named is not a program.
    #[error("QEMU at {} is not an executable file", path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
    /// It did not answer as QEMU does.
    #[error("{} is not QEMU: asked for its version it {answer}", path.display())]
    Strange {
        /// The file.
        path: PathBuf,
        /// What it did instead.
        answer: String,
    },
    /// Older than [`EXACT_SINCE`].
    #[error(
        "QEMU {version} at {} is too old for exact mode, which needs {EXACT_SINCE} or newer: \
         older ones can starve a guest's second CPU when they count instructions (on Debian 12 \
         install qemu-system-x86 from bookworm-backports, or name a newer one in {VARIABLE})",
        path.display()
    )]
    TooOld {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: Version,
    },
}

impl Qemu {
    /// The QEMU that [`VARIABLE`] names, else the one in `PATH`.
    pub fn find() -> Result<Qemu, QemuError> {
        match env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
            Some(path) => Qemu::at(Path::new(&path)),
            None => Qemu::at(&which::which(PROGRAM).map_err(|_| QemuError::Missing)?),
        }
    }

    /// The QEMU in a file, or, without a slash, of a name in `PATH`.
    pub fn at(path: &Path) -> Result<Qemu, QemuError> {
        let unusable = |source| QemuError::Unusable {
            path: path.into(),
            source,
        };
        let found = which::which(path);
        let absolute = match found {
            Ok(found) => found,
            Err(_) => {
                // Tells a missing file from one that is not executable.
                fs::metadata(path).map_err(unusable)?;
                return Err(QemuError::NotExecutable { path: path.into() });
            }
        };
        let metadata = fs::metadata(&absolute).map_err(unusable)?;
        let key = (
            absolute.clone(),
            metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            metadata.len(),
        );
        if let Some(known) = known().get(&key) {
            return Ok(known.clone());
        }
        let qemu = ask(absolute)?;
        known().insert(key, qemu.clone());
        Ok(qemu)
    }

    /// Refuses a QEMU that is too old for exact mode.
    pub fn require_exact(&self) -> Result<(), QemuError> {
        if self.version < EXACT_SINCE {
            let (path, version) = (self.path.clone(), self.version);
            return Err(QemuError::TooOld { path, version });
        }
        Ok(())
    }

    /// Where it is, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Its version in its own words, with the distributor's part; counters are a function of
    /// it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The folders in which it looks for firmware, in its own words; none if it does not
    /// tell.
    pub fn data_folders(&self) -> Vec<PathBuf> {
        let said = run(&self.path, &["-L", "help"]).ok().flatten();
        let said = said.unwrap_or_default();
        said.lines().map(PathBuf::from).collect()
    }

    /// Whether it was built with seccomp and takes [`SANDBOX`].
    pub fn sandbox(&self) -> bool {
        self.sandbox
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.micro)
    }
}

type Known = HashMap<(PathBuf, SystemTime, u64), Qemu>;

fn known() -> std::sync::MutexGuard<'static, Known> {
    static KNOWN: std::sync::LazyLock<Mutex<Known>> = std::sync::LazyLock::new(Mutex::default);
    // A panic elsewhere leaves the map whole: entries are inserted complete.
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ask(path: PathBuf) -> Result<Qemu, QemuError> {
    let strange = |answer: String| QemuError::Strange {
        path: path.clone(),
        answer,
    };
    let said = run(&path, &["--version"])?;
    let Some((version, text)) = said.as_deref().and_then(parse) else {
        return Err(strange(match &said {
            None => "failed or did not end".into(),
            Some(said) => {
                let said: String = said.chars().take(60).collect();
                format!("said {said:?}")
            }
        }));
    };
    // The sandbox is set up before machine types are listed, so a QEMU without seccomp
    // fails here.
    let sandbox = run(&path, &["-sandbox", SANDBOX, "-machine", "help"])?.is_some();
    let text = text.to_owned();
    Ok(Qemu {
        path,
        version,
        text,
        sandbox,
    })
}

/// Runs QEMU for an answer on stdout. `None` if it fails or takes longer than [`PATIENCE`].
fn run(path: &Path, arguments: &[&str]) -> Result<Option<String>, QemuError> {
    let unusable = |source| QemuError::Unusable {
        path: path.into(),
        source,
    };
    let mut child = Command::new(path)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(unusable)?;
    let (answer, answered) = mpsc::channel();
    let stdout = child.stdout.take();
    thread::spawn(move || {
        let mut text = Vec::new();
        // More than a machine list has; a program that prints without end is cut off.
        let read = stdout.map(|stdout| stdout.take(256 * 1024).read_to_end(&mut text));
        // Fails only if nobody waits any more.
        answer.send(read.map(|_| text)).ok();
    });
    let text = answered.recv_timeout(PATIENCE);
    // It has closed its stdout or is out of time: in both cases it has nothing more to say.
    let deadline = std::time::Instant::now() + Duration::from_secs(5);
    let status = loop {
        match child.try_wait().map_err(unusable)? {
            Some(status) => break Some(status),
            None if text.is_err() || std::time::Instant::now() > deadline => break None,
            None => thread::sleep(Duration::from_millis(2)),
        }
    };
    if status.is_none() {
        child.kill().map_err(unusable)?;
        child.wait().map_err(unusable)?;
    }
    let text = text
        .ok()
        .flatten()
        .filter(|_| status.is_some_and(|s| s.success()));
    Ok(text.map(|text| String::from_utf8_lossy(&text).into_owned()))
}

/// Reads `QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)`.
fn parse(said: &str) -> Option<(Version, &str)> {
    let text = said
        .lines()
        .next()?
        .strip_prefix("QEMU emulator version ")?;
    let number = text.split([' ', '-', '+', '(']).next()?;
    let mut parts = number.split('.').map(str::parse);
    let mut part = || parts.next()?.ok();
    let version = Version {
        major: part()?,
        minor: part()?,
        micro: part()?,
    };
    Some((version, text))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn versions_are_read() {
        let debian = "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2+deb13u1~bpo12+1)\nCopy";
        let (version, text) = parse(debian).unwrap();
        assert_eq!(version.to_string(), "10.0.2");
        assert_eq!(text, "10.0.2 (Debian 1:10.0.2+ds-2+deb13u1~bpo12+1)");
        let (version, _) = parse("QEMU emulator version 9.2.0-rc1\n").unwrap();
        assert_eq!(version.to_string(), "9.2.0");
        assert!(version > EXACT_SINCE);
        for wrong in [
            "",
            "qemu",
            "QEMU emulator version x",
            "QEMU emulator version 9.2",
        ] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }

    fn program(folder: &Path, text: &str) -> PathBuf {
        let path = folder.join("qemu");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn an_old_one_is_refused_for_exact_mode_only() {
        let folder = tempfile::tempdir().unwrap();
        let old = "#!/bin/sh\n[ \"$1\" = --version ] || exit 1\n\
                   echo 'QEMU emulator version 7.2.22 (Debian 1:7.2)'\n";
        let qemu = Qemu::at(&program(folder.path(), old)).unwrap();
        assert_eq!(qemu.version().to_string(), "7.2.22");
        assert!(!qemu.sandbox());
        let error = qemu.require_exact().unwrap_err().to_string();
        assert!(error.contains("7.2.22"), "{error}");
        assert!(error.contains("needs 8.1.0 or newer"), "{error}");
        assert!(error.contains("bookworm-backports"), "{error}");
    }

    #[test]
    fn what_is_not_qemu_is_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let missing = Qemu::at(&folder.path().join("missing")).unwrap_err();
        assert!(matches!(missing, QemuError::Unusable { .. }), "{missing}");

        let plain = folder.path().join("plain");
        fs::write(&plain, "x").unwrap();
        let plain = Qemu::at(&plain).unwrap_err();
        assert!(matches!(plain, QemuError::NotExecutable { .. }), "{plain}");

        let other = Qemu::at(&program(folder.path(), "#!/bin/sh\necho hello\n")).unwrap_err();
        assert!(other.to_string().ends_with("said \"hello\\n\""), "{other}");
        let failing = Qemu::at(&program(folder.path(), "#!/bin/sh\nexit 3\n")).unwrap_err();
        assert!(
            failing.to_string().contains("failed or did not end"),
            "{failing}"
        );
    }

    #[test]
    fn a_changed_file_is_asked_again() {
        let folder = tempfile::tempdir().unwrap();
        let say = |version: &str| format!("#!/bin/sh\necho 'QEMU emulator version {version}'\n");
        let path = program(folder.path(), &say("9.0.0"));
        assert_eq!(Qemu::at(&path).unwrap().version().major, 9);
        let path = program(folder.path(), &say("10.0.0"));
        assert_eq!(Qemu::at(&path).unwrap().version().major, 10);
    }
}
