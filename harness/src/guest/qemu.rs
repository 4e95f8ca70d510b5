//! The QEMU that is installed: where it is, its version, what it can do.
//!
//! Asks the program itself, and keeps the answer for as long as this process lives and the
//! file stays the same. It starts no guest.

use std::collections::HashMap;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, SystemTime};
use std::{fmt, fs, io, thread};

use crate::environment::Environment;

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
    /// It starts no machine.
    #[error(
        "QEMU at {} cannot start a guest: {said} (its firmware comes in packages of its own: on \
         Debian and Ubuntu, apt install seabios qemu-system-data)",
        path.display()
    )]
    Firmware {
        /// The file.
        path: PathBuf,
        /// What it said.
        said: String,
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
    pub fn find(environment: &Environment) -> Result<Qemu, QemuError> {
        match &environment.qemu {
            Some(path) => Qemu::at(Path::new(path)),
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

    /// Starts a machine without a guest, to see whether its firmware can be loaded.
    ///
    /// # Errors
    /// It cannot; in QEMU's own words.
    pub fn check_firmware(&self) -> Result<(), QemuError> {
        let unusable = |source| QemuError::Unusable {
            path: self.path.clone(),
            source,
        };
        let (mut input, mut said) = (
            tempfile::tempfile().map_err(unusable)?,
            tempfile::tempfile().map_err(unusable)?,
        );
        let quit = br#"{"execute":"qmp_capabilities"} {"execute":"quit"}"#;
        input.write_all(quit).map_err(unusable)?;
        input.rewind().map_err(unusable)?;
        let mut command = Command::new(&self.path);
        command
            .args(["-nodefaults", "-no-user-config", "-display", "none"])
            .args(["-machine", "q35", "-S", "-qmp", "stdio"])
            // What a kernel's image is loaded with.
            .args(["-option-rom", "pvh.bin", "-option-rom", "linuxboot_dma.bin"])
            .stdin(input)
            .stderr(said.try_clone().map_err(unusable)?);
        let ended_well = answer(command).map_err(unusable)?.is_some();
        let mut text = String::new();
        said.rewind().map_err(unusable)?;
        said.read_to_string(&mut text).map_err(unusable)?;
        let missing = missing_rom(&text);
        if ended_well && missing.is_none() {
            return Ok(());
        }
        let first = || text.lines().next().map(str::to_owned);
        let said = missing.or_else(first);
        Err(QemuError::Firmware {
            path: self.path.clone(),
            said: said.unwrap_or_else(|| "it did not end".to_owned()),
        })
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

/// The line in which QEMU reports that it lacks a ROM that loads kernels. QEMU goes on all the
/// same, and the guest never starts. A missing `kvmvapic.bin`, which it reports as well, is
/// harmless.
pub(super) fn missing_rom(said: &str) -> Option<String> {
    let names = ["pvh.bin", "linuxboot"];
    let line = said.lines().find(|line| {
        let reports = line.contains("option rom") || line.contains("rom: file");
        reports && names.iter().any(|name| line.contains(name))
    })?;
    Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Runs QEMU for an answer on stdout. `None` if it fails or takes longer than [`PATIENCE`].
fn run(path: &Path, arguments: &[&str]) -> Result<Option<String>, QemuError> {
    let mut command = Command::new(path);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    answer(command).map_err(|source| QemuError::Unusable {
        path: path.into(),
        source,
    })
}

fn answer(mut command: Command) -> io::Result<Option<String>> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
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
    // It has closed its stdout or is out of time: no more will come.
    let deadline = std::time::Instant::now() + Duration::from_secs(5);
    let status = loop {
        match child.try_wait()? {
            Some(status) => break Some(status),
            None if text.is_err() || std::time::Instant::now() > deadline => break None,
            None => thread::sleep(Duration::from_millis(2)),
        }
    };
    if status.is_none() {
        child.kill()?;
        child.wait()?;
    }
    let text = text
        .ok()
        .flatten()
        .filter(|_| status.is_some_and(|s| s.success()));
    Ok(text.map(|text| String::from_utf8_lossy(&text).into_owned()))
}

/// Reads `QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)`.
fn parse(said: &str) -> Option<(Version, &str)> {
    // Warnings, for instance of a wrapper, may come first.
    let mut lines = said.lines();
    let text = lines.find_map(|line| line.strip_prefix("QEMU emulator version "))?;
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
mod tests;
