//! Building: the configuration, `make`, and what to make of its end.
//!
//! Everything that `make` sees is said here: its environment holds nothing of the
//! caller's but PATH, HOME and LD_LIBRARY_PATH.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::cache::{Cache, CacheError, EntryLock, Part, Wait};
use crate::config::{Config, ConfigError, Requested};
use crate::digest::{Digest, Digester};
use crate::error::{Class, KernelError};
use crate::log::{self, Cause, Steps};
use crate::objects::Objects;
use crate::process::{self, Job, JobError, Told};
use crate::profile::{self, Plan};
use crate::progress::{Event, Progress, Stage};
use crate::toolchain::{self, Toolbox, Toolchain};
use crate::tree::SourceTree;

/// Bumped when the same inputs would give another image.
pub(crate) const RECIPE: &str = "1";

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

/// How long the configuration may take; it takes seconds.
const CONFIG_DEADLINE: Duration = Duration::from_secs(600);

/// Why a kernel did not get built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// It does not compile.
    #[error("{what} failed:\n{}\nwhole log: {log:?}", indent(lines))]
    Compile {
        /// What was being done.
        what: String,
        /// The compiler's own error lines, the first ten.
        lines: Vec<String>,
        /// Where all of its output is.
        log: PathBuf,
    },
    /// The compiler is too new for the kernel.
    #[error(
        "{what} failed: {pair}: {why}; choose an older compiler, \
         for instance NUMALAB_CC=gcc-12 (or, where it is C23, a patch that adds -std=gnu11):\n{}\n\
         whole log: {log:?}",
        indent(lines)
    )]
    TooNew {
        /// What was being done.
        what: String,
        /// Which compiler is too new for which version.
        pair: String,
        /// In which way.
        why: &'static str,
        /// The compiler's own error lines.
        lines: Vec<String>,
        /// Where all of its output is.
        log: PathBuf,
    },
    /// The compiler is too old for the kernel.
    #[error(
        "{what} failed: {pair}; choose a newer one, for \
         instance NUMALAB_CC=gcc-14:\n{}\nwhole log: {log:?}",
        indent(lines)
    )]
    TooOld {
        /// What was being done.
        what: String,
        /// Which compiler is too old for which version.
        pair: String,
        /// The build's own words.
        lines: Vec<String>,
        /// Where all of its output is.
        log: PathBuf,
    },
    /// The kernel is older than any that can be built for a guest.
    #[error(
        "{name} is Linux {version}: numalab builds Linux 5.0 and later, for older ones have no PVH \
         entry (CONFIG_PVH) by which QEMU starts a vmlinux; give a bzImage of it instead"
    )]
    Ancient {
        /// The kernel's name.
        name: String,
        /// Its version.
        version: String,
    },
    /// A program, header or library is missing that this kernel's build needs.
    #[error(
        "{what} needs what this machine does not have: {missing}\n{}\nwhole log: {log:?}",
        indent(lines)
    )]
    Missing {
        /// What was being done.
        what: String,
        /// What is missing, and how to get it, as far as that is known.
        missing: String,
        /// The build's own words.
        lines: Vec<String>,
        /// Where all of its output is.
        log: PathBuf,
    },
    /// The configuration names a file that is not there.
    #[error(
        "{what} failed: its configuration names {file:?}, which the source does not have; \
         distributions' configurations do so for keys: add CONFIG_SYSTEM_TRUSTED_KEYS=\"\" and \
         CONFIG_SYSTEM_REVOCATION_KEYS=\"\" (log: {log:?})"
    )]
    File {
        /// What was being done.
        what: String,
        /// The file.
        file: String,
        /// Where all of the output is.
        log: PathBuf,
    },
    /// The system ended the compiler.
    #[error(
        "{what} failed: the system ended a compiler, mostly for want of memory; try fewer jobs \
         than {jobs}:\n{}\nwhole log: {log:?}",
        indent(lines)
    )]
    Killed {
        /// What was being done.
        what: String,
        /// How many ran at once.
        jobs: usize,
        /// The tools' words.
        lines: Vec<String>,
        /// Where all of the output is.
        log: PathBuf,
    },
    /// Its output is not what a kernel's build leaves.
    #[error("{what} left no {path:?} (log: {log:?})")]
    Nothing {
        /// What was being done.
        what: String,
        /// What is missing.
        path: PathBuf,
        /// Where all of the output is.
        log: PathBuf,
    },
    /// A tool gave no answer.
    #[error(transparent)]
    Job(#[from] JobError),
}

impl BuildError {
    /// Whose fault it is.
    pub fn class(&self) -> Class {
        match self {
            Self::Compile { .. } | Self::Nothing { .. } => Class::Build,
            Self::File { .. } => Class::Input,
            Self::TooNew { .. }
            | Self::TooOld { .. }
            | Self::Ancient { .. }
            | Self::Missing { .. }
            | Self::Killed { .. } => Class::Environment,
            Self::Job(error) => error.class(),
        }
    }
}

fn indent(lines: &[String]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| format!("  {line}")).collect();
    lines.join("\n")
}

/// One build.
pub(crate) struct Build<'a> {
    pub(crate) cache: &'a Cache,
    /// The kernel's name, for messages.
    pub(crate) name: &'a str,
    pub(crate) tree: &'a SourceTree,
    pub(crate) lock: &'a EntryLock,
    pub(crate) objects: &'a Objects,
    pub(crate) requested: &'a Requested,
    /// The digest of the source's Kconfig files and of what decides their meaning.
    pub(crate) kconfig: Digest,
    pub(crate) tools: &'a Toolbox,
    pub(crate) toolchain: &'a Toolchain,
    pub(crate) ccache: bool,
    /// What is to be counted by gcov, if anything.
    pub(crate) profiling: Option<&'a Profiling<'a>>,
    pub(crate) jobs: usize,
    pub(crate) deadline: Duration,
    pub(crate) log: &'a Path,
    pub(crate) progress: &'a dyn Progress,
    pub(crate) cancel: &'a AtomicBool,
}

/// What a build with gcov starts from.
pub(crate) struct Profiling<'a> {
    /// The object tree of the same kernel without gcov.
    pub(crate) plain: &'a Objects,
    /// The files that patches touch.
    pub(crate) touched: Vec<&'a str>,
}

/// What a build leaves in its object tree.
pub(crate) struct Built {
    /// Which objects count.
    pub(crate) profile: Option<Plan>,
    pub(crate) warnings: Vec<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) vmlinux: PathBuf,
    pub(crate) system_map: PathBuf,
    pub(crate) config: PathBuf,
    pub(crate) release: String,
}

impl Build<'_> {
    /// Configures and compiles.
    pub(crate) fn run(&self) -> Result<Built, KernelError> {
        let _ = fs::remove_file(self.log);
        let removed = self.objects.prepare()?;
        if removed > 0 {
            let note = format!(
                "an earlier build was interrupted: {removed} files that it wrote are made again"
            );
            self.progress.event(Event::Note(&note));
        }
        let seeded = self.seed()?;
        let (warnings, notes) = self.configure()?;
        if seeded {
            // Writes the options as files, which are then changed.
            let what = format!("preparing {}", self.name);
            let hidden = profile::variables(&Plan::default());
            self.make(
                &["prepare"],
                &what,
                self.deadline,
                None,
                &hidden,
                &mut |_| {},
            )?;
            profile::settle(&self.tree.src(), &self.objects.path())?;
        }
        for note in &notes {
            self.progress.event(Event::Note(note));
        }
        for warning in &warnings {
            self.progress.event(Event::Warning(warning));
        }
        let profile = match self.profiling {
            Some(profiling) => Some(self.compile_counting(profiling)?),
            None => {
                self.compile(&[])?;
                None
            }
        };
        let objects = self.objects.path();
        let release = fs::read_to_string(objects.join("include/config/kernel.release"))
            .unwrap_or_default()
            .trim()
            .to_owned();
        let built = Built {
            profile,
            warnings,
            notes,
            vmlinux: objects.join("vmlinux"),
            system_map: objects.join("System.map"),
            config: objects.join(".config"),
            release,
        };
        for path in [&built.vmlinux, &built.system_map, &built.config] {
            if !path.is_file() {
                return Err(BuildError::Nothing {
                    what: format!("compiling {}", self.name),
                    path: path.clone(),
                    log: self.log.to_owned(),
                }
                .into());
            }
        }
        Ok(built)
    }

    /// Copies the object tree of the same kernel without gcov, if there is one and none of
    /// our own yet. Whether it did.
    fn seed(&self) -> Result<bool, KernelError> {
        let Some(Profiling { plain, .. }) = self.profiling else {
            return Ok(false);
        };
        // Objects of another commit may have included other headers.
        let same = plain.memory().tree == self.objects.memory().tree;
        if !same || !self.objects.is_empty() || !plain.is_whole() {
            return Ok(false);
        }
        let (from, to) = (plain.path(), self.objects.path());
        let mut command = self.tools.command("cp");
        command.args(["-a", "--reflink=auto"]).arg(from.join("."));
        command.arg(&to);
        self.objects.begin()?;
        let ended = Job {
            command,
            what: format!("copying the objects of {}", self.name),
            log: self.log,
            lock: Some(self.lock),
            deadline: CONFIG_DEADLINE,
            cancel: self.cancel,
        }
        .run(&mut |_| {})
        .map_err(BuildError::from)?;
        if !ended.status.success() {
            // The marker stays: the next build removes what was copied.
            return Err(CacheError::Full {
                action: "copy objects to",
                path: to,
            }
            .into());
        }
        profile::seed(&to, &from)?;
        self.objects.end()?;
        Ok(true)
    }

    /// Compiles with counting code in the objects that touched files are part of.
    fn compile_counting(&self, profiling: &Profiling<'_>) -> Result<Plan, KernelError> {
        let objects = self.objects.path();
        if !objects.join("vmlinux").is_file() {
            // Which objects they are is known only after a build.
            self.compile(&profile::variables(&Plan::default()))?;
        }
        let plan = Plan::choose(&self.tree.src(), &objects, &profiling.touched)?;
        self.compile(&profile::variables(&plan))?;
        Ok(plan)
    }

    /// Makes `.config` and checks it, unless it is there and made from the same.
    fn configure(&self) -> Result<(Vec<String>, Vec<String>), KernelError> {
        let inputs = Digester::new()
            .field("options", self.requested.identity())
            .field("musts", self.requested.musts())
            .field("kconfig", self.kconfig.to_string())
            .finish();
        let mut memory = self.objects.memory();
        let config = self.objects.path().join(".config");
        if memory.configured == Some(inputs) && config.is_file() {
            return Ok((memory.warnings, memory.notes));
        }
        self.progress.event(Event::Stage {
            stage: Stage::Configure,
            detail: self.name,
        });
        let what = format!("configuring {}", self.name);
        match self.requested.whole() {
            // Of two lines with one option Kconfig takes the last.
            Some(whole) => fs::write(&config, format!("{whole}\n{}", self.requested.given()))
                .map_err(|error| CacheError::io("write", &config, error))?,
            None => {
                let wanted = self.objects.path().join("numalab.config");
                fs::write(&wanted, self.requested.given())
                    .map_err(|error| CacheError::io("write", &wanted, error))?;
                self.make(
                    &["allnoconfig"],
                    &what,
                    CONFIG_DEADLINE,
                    Some(&wanted),
                    &[],
                    &mut |_| {},
                )?;
            }
        }
        self.make(
            &["olddefconfig"],
            &what,
            CONFIG_DEADLINE,
            None,
            &[],
            &mut |_| {},
        )?;
        let text =
            fs::read_to_string(&config).map_err(|error| CacheError::io("read", &config, error))?;
        let text = Config::parse(&text);
        let warnings = text
            .check(self.requested, &self.tree.src())
            .map_err(|error: ConfigError| KernelError::from(error))?;
        let notes = text.completed(self.requested);
        if text.value("CONFIG_SYSTEM_TRUSTED_KEYRING") == Some("y") {
            self.tools.check_keyring()?;
        }
        memory.configured = Some(inputs);
        memory.warnings.clone_from(&warnings);
        memory.notes.clone_from(&notes);
        self.objects.remember(&memory)?;
        Ok((warnings, notes))
    }

    /// Compiles; `more` is what `make` is told besides.
    fn compile(&self, more: &[String]) -> Result<(), KernelError> {
        self.progress.event(Event::Stage {
            stage: Stage::Compile,
            detail: self.name,
        });
        let mut memory = self.objects.memory();
        let cold = !self.objects.path().join("vmlinux").is_file();
        let shared = self.cache.part(Part::Trees).join(".cold-steps");
        let total = if cold {
            let last = || fs::read_to_string(&shared).ok()?.trim().parse().ok();
            memory.cold_steps.or_else(last)
        } else {
            memory.warm_steps
        };
        let mut steps = Steps::default();
        let mut told = 0;
        let wants_lines = self.progress.wants_lines();
        self.make(
            &["vmlinux"],
            &format!("compiling {}", self.name),
            self.deadline,
            None,
            more,
            &mut |event| match event {
                Told::Line(line) => {
                    steps.take(line);
                    if wants_lines {
                        self.progress.event(Event::Line(line));
                    }
                }
                Told::Tick if steps.done != told => {
                    told = steps.done;
                    self.progress.event(Event::Count {
                        stage: Stage::Compile,
                        done: steps.done,
                        total,
                    });
                }
                Told::Tick => {}
            },
        )?;
        if cold {
            memory.cold_steps = Some(steps.done);
            // An estimate for the next source's first build; nothing depends on it.
            let _ = fs::write(&shared, steps.done.to_string());
        } else {
            memory.warm_steps = Some(steps.done);
        }
        Ok(self.objects.remember(&memory)?)
    }

    /// Runs `make` in the object tree.
    fn make(
        &self,
        targets: &[&str],
        what: &str,
        deadline: Duration,
        preset: Option<&Path>,
        more: &[String],
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Result<(), KernelError> {
        let mut command = self.tools.command("make");
        let compiler = &self.toolchain.cc;
        let cc = if self.ccache {
            format!("ccache {compiler}")
        } else {
            compiler.clone()
        };
        let scratch = self.tree.scratch();
        fs::create_dir_all(&scratch).map_err(|error| CacheError::io("make", &scratch, error))?;
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
        let failure = log::failure(self.log, ended.log_from);
        let (what, lines, log) = (what.to_owned(), failure.lines, self.log.to_owned());
        if process::was_killed(ended.status) {
            // The marker stays: what it wrote is not trusted.
            let seconds = start.elapsed().as_secs();
            return Err(BuildError::Killed {
                what: format!("{what} (make was ended by a signal after {seconds} s)"),
                jobs: self.jobs,
                lines,
                log,
            }
            .into());
        }
        // With any other cause the tools ended by themselves, and what they wrote is whole.
        if !matches!(failure.cause, Cause::Full | Cause::Memory) {
            self.objects.end()?;
        }
        let compiler = &self.toolchain.compiler;
        let version = crate::source::kernel_version(&self.tree.src())
            .unwrap_or_else(|| "of this source".to_owned());
        Err(match failure.cause {
            Cause::Full => {
                return Err(CacheError::Full {
                    action: "compile in",
                    path: self.objects.path(),
                }
                .into());
            }
            Cause::Memory => BuildError::Killed {
                what,
                jobs: self.jobs,
                lines,
                log,
            },
            Cause::TooNew(why) => BuildError::TooNew {
                what,
                pair: format!("{compiler} is too new for Linux {version}"),
                why,
                lines,
                log,
            },
            Cause::TooOld => BuildError::TooOld {
                what,
                pair: format!("{compiler} is too old for Linux {version}"),
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
        }
        .into())
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
            told: &|_| {},
        };
        self.cache
            .read(Part::Tools, "ccache", &wait)?
            .ok_or(CacheError::Damaged {
                path: folder,
                why: "its lock file vanishes".to_owned(),
            })
    }
}
