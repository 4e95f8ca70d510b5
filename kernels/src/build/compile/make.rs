//! `make`, and what to make of its end.
//!
//! Everything that it sees is said here: its environment holds nothing of the caller's
//! but PATH, HOME and LD_LIBRARY_PATH.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Build, BuildError, CONFIG_DEADLINE};
use crate::build::log::{self, Cause};
use crate::cache::{CacheError, EntryLock, Part, Wait};
use crate::error::KernelError;
use crate::tools::process::{self, Ended, Job, Told};
use crate::tools::toolchain;

/// What `make` is told, besides folders, jobs and the compiler. The same inputs give
/// the same bytes because these are fixed.
pub(crate) const VARIABLES: [(&str, &str); 6] = [
    ("ARCH", "x86_64"),
    ("LOCALVERSION", ""),
    ("KBUILD_BUILD_TIMESTAMP", "Thu Jan  1 00:00:00 UTC 2026"),
    ("KBUILD_BUILD_USER", "numalab"),
    ("KBUILD_BUILD_HOST", "numalab"),
    ("KBUILD_BUILD_VERSION", "1"),
];

impl Build<'_> {
    /// Runs `make` in the object tree.
    pub(super) fn make(
        &self,
        targets: &[&str],
        what: &str,
        deadline: Duration,
        preset: Option<&Path>,
        more: &[String],
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Result<(), KernelError> {
        let mut command = self.tools.command("make");
        let scratch = self.tree.scratch();
        let fault = |error| CacheError::io("make", &scratch, error);
        fs::create_dir_all(&scratch).map_err(fault)?;
        let compiler = self.tools.compiler_for_make(&scratch).map_err(fault)?;
        let cc = if self.ccache {
            format!("ccache {compiler}")
        } else {
            compiler
        };
        command
            // Compilers' temporary files, which a kill leaves behind, are swept there.
            .env("TMPDIR", &scratch)
            .envs(VARIABLES)
            .arg("-C")
            .arg(self.tree.src())
            .arg(format!("O={}", self.objects.path().display()))
            .arg(format!("-j{}", self.jobs))
            .arg(format!("CC={cc}"))
            .arg(format!("HOSTCC={cc}"))
            .args(VARIABLES.map(|(name, value)| format!("{name}={value}")))
            .args(more)
            .args(targets);
        let mut _ccache = None;
        if self.ccache {
            _ccache = Some(self.use_ccache(&mut command)?);
        }
        if let Some(preset) = preset {
            command.env("KCONFIG_ALLCONFIG", preset);
        }
        self.objects.begin()?;
        let start = Instant::now();
        let ended = Job {
            command,
            what: what.to_owned(),
            log: self.log,
            lock: Some(self.lock),
            deadline,
            cancel: self.cancel,
        }
        .run(tell)
        .map_err(BuildError::from)?;
        if ended.status.success() {
            self.objects.end()?;
            return Ok(());
        }
        Err(self
            .failure(what, &ended, start.elapsed().as_secs())?
            .into())
    }

    /// Why `make` failed.
    fn failure(&self, what: &str, ended: &Ended, seconds: u64) -> Result<BuildError, CacheError> {
        let failure = log::failure(self.log, ended.log_from);
        let (what, lines, log) = (what.to_owned(), failure.lines, self.log.to_owned());
        let jobs = self.jobs;
        if process::was_killed(ended.status) {
            // The marker stays: what it wrote is not trusted.
            return Ok(BuildError::Killed {
                what: format!("{what} (a signal ended make after {seconds} s)"),
                jobs,
                lines,
                log,
            });
        }
        // With any other cause the tools ended by themselves, and what they wrote is whole.
        if !matches!(failure.cause, Cause::Full | Cause::Memory) {
            self.objects.end()?;
        }
        let pair = |how: &str| {
            let version = crate::version::of_source(&self.tree.src());
            let version = version.as_deref().unwrap_or("of this source");
            format!("{} is {how} for Linux {version}", self.toolchain.compiler)
        };
        Ok(match failure.cause {
            Cause::Full => {
                return Err(CacheError::Full {
                    action: "compile in",
                    path: self.objects.path(),
                });
            }
            Cause::Memory => BuildError::Killed {
                what,
                jobs,
                lines,
                log,
            },
            Cause::TooNew(why) => BuildError::TooNew {
                what,
                pair: pair("too new"),
                why,
                lines,
                log,
            },
            Cause::TooOld => BuildError::TooOld {
                what,
                pair: pair("too old"),
                lines,
                log,
            },
            Cause::Missing(missing) => BuildError::Missing {
                what,
                missing: format!("{missing}{}", toolchain::install(&missing)),
                lines,
                log,
            },
            Cause::File(file) => BuildError::File { what, file, log },
            Cause::Source => BuildError::Compile { what, lines, log },
        })
    }

    /// Lets the compiler's cache live in ours, untouched by the user's settings.
    fn use_ccache(&self, command: &mut std::process::Command) -> Result<EntryLock, CacheError> {
        let folder = self.cache.entry(Part::Tools, "ccache");
        fs::create_dir_all(&folder).map_err(|error| CacheError::io("make", &folder, error))?;
        let lock = folder.join("lock");
        if !lock.exists() {
            fs::write(&lock, "").map_err(|error| CacheError::io("write", &lock, error))?;
        }
        command
            .env("CCACHE_DIR", &folder)
            .env("CCACHE_CONFIGPATH", "/dev/null")
            .env("CCACHE_COMPILERCHECK", "content");
        let wait = Wait {
            deadline: CONFIG_DEADLINE,
            cancel: self.cancel,
            on_wait: &|_| {},
        };
        self.cache
            .read(Part::Tools, "ccache", &wait)?
            .ok_or(CacheError::Damaged {
                path: folder,
                why: "its lock file vanishes".to_owned(),
            })
    }
}
