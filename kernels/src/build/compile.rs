//! Building: an object tree, its configuration, and what a compilation leaves.

mod error;
mod make;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::build::log::Steps;
use crate::build::objects::ObjectTree;
use crate::cache::{Cache, CacheError, EntryLock, Part};
use crate::config::{self, Config, Requested};
use crate::digest::{Digest, Digester};
use crate::error::KernelError;
use crate::profile::{self, ProfilePlan};
use crate::progress::{BuildEvent, BuildStage, Progress};
use crate::source::tree::SourceTree;
use crate::tools::process::{Job, Told};
use crate::tools::toolchain::{Toolbox, Toolchain};
use crate::warnings::{Collector, CompilerWarning};
pub use error::BuildError;
pub(crate) use make::VARIABLES;

/// Bumped when the same inputs would give another image.
pub(crate) const RECIPE: &str = "1";

/// How long the configuration may take; it takes seconds.
const CONFIG_DEADLINE: Duration = Duration::from_secs(600);

/// One build.
pub(crate) struct Build<'a> {
    pub(crate) cache: &'a Cache,
    /// The kernel's name, for messages.
    pub(crate) name: &'a str,
    pub(crate) tree: &'a SourceTree,
    pub(crate) lock: &'a EntryLock,
    pub(crate) objects: &'a ObjectTree,
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
    pub(crate) plain: &'a ObjectTree,
    /// The files that patches touch.
    pub(crate) touched: BTreeSet<&'a String>,
}

/// What a build leaves in its object tree.
pub(crate) struct Built {
    /// Which objects count.
    pub(crate) profile: Option<ProfilePlan>,
    pub(crate) warnings: Vec<String>,
    pub(crate) notes: Vec<String>,
    /// `None` if those of earlier builds in the object tree are not known.
    pub(crate) compiler_warnings: Option<Vec<CompilerWarning>>,
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
            self.progress.event(BuildEvent::Note(&note));
        }
        let seeded = self.seed()?;
        let (warnings, notes) = self.configure()?;
        if seeded {
            // Writes the options as files, which are then changed.
            let what = format!("preparing {}", self.name);
            let hidden = profile::variables(&ProfilePlan::default());
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
            self.progress.event(BuildEvent::Note(note));
        }
        for warning in &warnings {
            self.progress.event(BuildEvent::Warning(warning));
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
            compiler_warnings: self.objects.memory().compiler_warnings,
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
        // ObjectTree of another commit may have included other headers.
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
        let mut memory = self.objects.memory();
        memory.compiler_warnings = plain.memory().compiler_warnings;
        self.objects.remember(&memory)?;
        self.objects.end()?;
        Ok(true)
    }

    /// Compiles with counting code in the objects that touched files are part of.
    fn compile_counting(&self, profiling: &Profiling<'_>) -> Result<ProfilePlan, KernelError> {
        let objects = self.objects.path();
        if !objects.join("vmlinux").is_file() {
            // Which objects they are is known only after a build.
            self.compile(&profile::variables(&ProfilePlan::default()))?;
        }
        let plan = ProfilePlan::choose(&self.tree.src(), &objects, &profiling.touched)?;
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
        let path = self.objects.path().join(".config");
        if memory.configured == Some(inputs) && path.is_file() {
            return Ok((memory.warnings, memory.notes));
        }
        self.progress.event(BuildEvent::BuildStage {
            stage: BuildStage::Configure,
            detail: self.name,
        });
        let what = format!("configuring {}", self.name);
        match self.requested.whole() {
            // Of two lines with one option Kconfig takes the last.
            Some(whole) => fs::write(&path, format!("{whole}\n{}", self.requested.given()))
                .map_err(|error| CacheError::io("write", &path, error))?,
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
        let mut added = BTreeSet::new();
        let config = loop {
            self.make(
                &["olddefconfig"],
                &what,
                CONFIG_DEADLINE,
                None,
                &[],
                &mut |_| {},
            )?;
            let mut text =
                fs::read_to_string(&path).map_err(|error| CacheError::io("read", &path, error))?;
            let config = Config::parse(&text);
            let source = self.tree.src();
            let missing = config::dependencies(&config, self.requested, &source)?;
            if missing.is_subset(&added) {
                break config;
            }
            for option in missing {
                text.push_str(&format!("{option}=y\n"));
                added.insert(option);
            }
            fs::write(&path, text).map_err(|error| CacheError::io("write", &path, error))?;
        };
        let warnings = config::check(&config, self.requested, &self.tree.src())?;
        let mut notes = config::changes(&config, self.requested);
        if !added.is_empty() {
            notes.push(format!(
                "added because options that guests need depend on it: {}",
                added.into_iter().collect::<Vec<_>>().join(", ")
            ));
        }
        if config.value("CONFIG_SYSTEM_TRUSTED_KEYRING") == Some("y") {
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
        self.progress.event(BuildEvent::BuildStage {
            stage: BuildStage::Compile,
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
        let source = self.tree.src();
        let mut steps = Steps::default();
        let mut collector = Collector::of(&source);
        let mut told = 0;
        let wants_lines = self.progress.wants_lines();
        let made = self.make(
            &["vmlinux"],
            &format!("compiling {}", self.name),
            self.deadline,
            None,
            more,
            &mut |event| match event {
                Told::Line(line) => {
                    steps.take(line);
                    collector.take(line);
                    if wants_lines {
                        self.progress.event(BuildEvent::Line(line));
                    }
                }
                Told::Tick if steps.done != told => {
                    told = steps.done;
                    self.progress.event(BuildEvent::Count {
                        stage: BuildStage::Compile,
                        done: steps.done,
                        total,
                    });
                }
                Told::Tick => {}
            },
        );
        // Also after a failure: what was compiled by then is not compiled again.
        memory.compiler_warnings = collector.with(memory.compiler_warnings);
        self.objects.remember(&memory)?;
        made?;
        if cold {
            memory.cold_steps = Some(steps.done);
            // An estimate for the next source's first build; nothing depends on it.
            let _ = fs::write(&shared, steps.done.to_string());
        } else {
            memory.warm_steps = Some(steps.done);
        }
        Ok(self.objects.remember(&memory)?)
    }
}
