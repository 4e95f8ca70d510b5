//! Fetcher a kernel: from the store if it is there, else by building it.
//!
//! This is the order of the stages and nothing else; each of them is a module.

mod alternative;
mod foreign;
mod key;
mod options;
mod touched;
mod tree;

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use alternative::Chosen;
use jiff::Timestamp;
pub use options::BuildOptions;
pub use touched::touched;
use tree::{hiding_headers, pristine_too};

use crate::build::compile::{Build, BuildError, Built, Profiling, VARIABLES};
use crate::build::jobs;
use crate::build::objects::{self, Objects};
use crate::cache::{self, Cache, CacheError, Lookup, Part, Wait};
use crate::config::kconfig;
use crate::config::{Config, Requested};
use crate::digest::{Digest, Digester};
use crate::error::KernelError;
use crate::image;
use crate::profile::{self, ProfileRequest, Profiled};
use crate::progress::{BuildEvent, BuildStage, Progress};
use crate::source::{Fetcher, Opened};
use crate::spec::{KernelSpec, Origin, Recipe};
use crate::store::{self, Kernel, Manifest, PatchRecord, Provenance, SCHEMA};
use crate::tools::process::Job;
use crate::tools::toolchain::{Toolbox, Toolchain};

/// The oldest kernels that can be built for a guest are of this major version: those
/// before have no PVH entry of their own (`CONFIG_PVH`, since v5.0).
const OLDEST: u32 = 5;

/// Gets a kernel: from the store, or by building it. Blocks, also for minutes;
/// `cancel` ends it within seconds, with everything that it started.
pub fn get_or_build(
    cache: &Cache,
    wanted: &KernelSpec,
    options: &BuildOptions,
    progress: &dyn Progress,
    cancel: &AtomicBool,
) -> Result<Kernel, KernelError> {
    cache.sweep()?;
    let work = Work::new(cache, options, progress, cancel, None);
    for note in &wanted.notes {
        progress.event(BuildEvent::Note(note));
    }
    match &wanted.origin {
        Origin::Image(path) => work.adopt(&wanted.name, path),
        Origin::Package(path) => work.adopt_package(&wanted.name, path),
        Origin::Recipe(recipe) => work.make(&wanted.name, recipe),
    }
}

/// Gets a kernel that counts, with gcov, what runs of the files that `patched` changes in
/// `base`, like [`ensure`]. `None` if that is not known: the two are not built from one
/// source, the second with more patches than the first.
pub fn get_or_build_profiled(
    cache: &Cache,
    base: &KernelSpec,
    patched: &KernelSpec,
    options: &BuildOptions,
    progress: &dyn Progress,
    cancel: &AtomicBool,
) -> Result<Option<Profiled>, KernelError> {
    let (Origin::Recipe(before), Origin::Recipe(recipe)) = (&base.origin, &patched.origin) else {
        return Ok(None);
    };
    let Some(subject) = ProfileRequest::of(before, recipe) else {
        return Ok(None);
    };
    cache.sweep()?;
    let work = Work::new(cache, options, progress, cancel, Some(subject));
    let kernel = work.make(&format!("{} with gcov", patched.name), recipe)?;
    Ok(Some(Profiled::open(kernel)?))
}

struct Work<'a> {
    cache: &'a Cache,
    options: &'a BuildOptions,
    progress: &'a dyn Progress,
    cancel: &'a AtomicBool,
    tools: Toolbox,
    /// What is to be counted, if anything.
    profiling: Option<ProfileRequest<'a>>,
}

impl<'a> Work<'a> {
    fn new(
        cache: &'a Cache,
        options: &'a BuildOptions,
        progress: &'a dyn Progress,
        cancel: &'a AtomicBool,
        profiling: Option<ProfileRequest<'a>>,
    ) -> Self {
        let path = options.path.clone();
        let path = path.unwrap_or_else(|| std::env::var_os("PATH").unwrap_or_default());
        let tools = Toolbox::new(path, &options.compiler);
        Work {
            cache,
            options,
            progress,
            cancel,
            tools,
            profiling,
        }
    }

    fn fetcher(&self) -> Fetcher<'_> {
        Fetcher {
            cache: self.cache,
            tools: &self.tools,
            progress: self.progress,
            cancel: self.cancel,
            fetch_deadline: self.options.fetch_deadline,
            stall_deadline: self.options.stall_deadline,
            wait_deadline: self.options.wait_deadline,
            fresh: self.options.fresh,
        }
    }

    fn make(&self, name: &str, recipe: &Recipe) -> Result<Kernel, KernelError> {
        let requested = self.requested(recipe)?;
        self.tools.check_build(Path::new("/nonexistent"))?;
        if !recipe.patches.is_empty() {
            self.tools.check_patch()?;
        }
        let toolchain = self.tools.identify()?;
        let getting = self.fetcher();
        let fresh = self.options.fresh;
        let Chosen {
            source,
            identity,
            opened,
            name,
        } = self.choose(name, recipe, &getting)?;
        let name = name.as_str();
        let key = self.key(&identity, recipe, &requested, &toolchain);
        if let Some(kernel) = self.find(&key, name)?.filter(|_| !fresh) {
            return Ok(kernel);
        }
        let opened = match opened {
            Some(opened) => opened,
            None => getting.open(source)?,
        };
        // The lock may have been another process's until now, which built the same;
        // and the source may be another than before, if it was pruned meanwhile.
        let key = self.key(&opened.identity, recipe, &requested, &toolchain);
        let key = match fresh {
            // Beside the other one: nothing that was built with care is taken for it.
            true => Digester::new()
                .field("key", key.to_string())
                .field("fresh", Timestamp::now().to_string())
                .finish(),
            false => match self.find(&key, name)? {
                Some(kernel) => return Ok(kernel),
                None => key,
            },
        };
        self.tools.check_build(&opened.tree.src())?;
        self.build(name, recipe, &requested, toolchain, &opened, key)
    }

    fn build(
        &self,
        name: &str,
        recipe: &Recipe,
        requested: &Requested,
        toolchain: Toolchain,
        opened: &Opened,
        key: Digest,
    ) -> Result<Kernel, KernelError> {
        let start = Instant::now();
        let Opened {
            identity,
            tree,
            lock,
            history,
        } = opened;
        // Before anything long begins.
        if let Some(version) = crate::version::of_source(&tree.src())
            && let Some(major) = version
                .split('.')
                .next()
                .and_then(|text| text.parse::<u32>().ok())
            && major < OLDEST
        {
            let name = name.to_owned();
            return Err(BuildError::Ancient { name, version }.into());
        }
        if objects::distrust_future(lock.entry())? {
            self.progress.event(BuildEvent::Note(
                "the clock was set back since the last build: everything is compiled again",
            ));
        }
        let before = self.before(tree)?;
        let (files, moved) = self.patch(recipe, tree)?;
        let fresh = self.options.fresh;
        let ccache = self.options.ccache
            && !fresh
            && self.tools.has_ccache()
            // It would look at the script, not at the compiler that the script runs.
            && self.tools.has_plain_compiler();
        let hiding = hiding_headers(tree, &files)?;
        let objects = |requested: &Requested| {
            let mut shape = Digester::new();
            shape
                .field("options", requested.identity())
                .field("compiler", &toolchain.compiler)
                .field("cc", &toolchain.cc)
                .field("linker", &toolchain.linker)
                .field("ccache", [u8::from(ccache)]);
            if let Some(headers) = identity.headers {
                shape.field("headers", headers.to_string());
            }
            if fresh {
                shape.field("fresh", "");
            }
            for name in &hiding {
                shape.field("header", name);
            }
            Objects::of(lock.entry(), &shape.finish().short())
        };
        // Where the same kernel is built without gcov.
        let without = match self.profiling {
            Some(_) => Some(objects(&Requested::of(recipe)?)),
            None => None,
        };
        let objects = objects(requested);
        if fresh {
            objects.clear()?;
        }
        if let Some(history) = history {
            self.follow(history, &objects)?;
        }
        let profiling = without.as_ref().map(|plain| Profiling {
            plain,
            touched: files.keys().map(String::as_str).collect(),
        });
        let logs = self.cache.part(Part::Logs);
        let log = logs.join(format!("build-{}-{}.log", plain(name), key.short()));
        let build = Build {
            cache: self.cache,
            name,
            tree,
            lock,
            objects: &objects,
            requested,
            kconfig: kconfig::digest(&tree.src())?,
            tools: &self.tools,
            toolchain: &toolchain,
            ccache,
            profiling: profiling.as_ref(),
            jobs: self.options.jobs.unwrap_or_else(jobs::by_default).max(1),
            deadline: self.options.build_deadline,
            log: &log,
            progress: self.progress,
            cancel: self.cancel,
        };
        let built = build.run()?;
        self.progress.event(BuildEvent::BuildStage {
            stage: BuildStage::Store,
            detail: name,
        });
        let entry = self.cache.temporary(Part::Kernels)?;
        let image = entry
            .path()
            .join(store::image_name(image::ImageKind::Vmlinux));
        self.strip(&build, &built, &image)?;
        store::copy(&built.system_map, &entry.path().join(store::SYSTEM_MAP))?;
        store::copy(&built.config, &entry.path().join(store::CONFIG))?;
        store::copy(&log, &entry.path().join(store::LOG))?;
        if let Some(warnings) = &built.compiler_warnings {
            cache::write_json(&entry.path().join(store::WARNINGS), warnings)?;
        }
        if let Some(plan) = &built.profile {
            let before = pristine_too(tree, before, &files)?;
            let compiler = self.tools.called_compiler();
            profile::keep(
                entry.path(),
                &objects.path(),
                plan,
                compiler,
                &before,
                &files,
            )?;
        }
        let read = |path: &Path| {
            Digest::of_file(path).map_err(|error| CacheError::io("read", path, error))
        };
        let config = fs::read_to_string(&built.config)
            .map_err(|error| CacheError::io("read", &built.config, error))?;
        let config_reads_fw_cfg = Config::parse(&config).value("CONFIG_FW_CFG_SYSFS") == Some("y");
        let manifest = Manifest {
            schema: SCHEMA,
            name: name.to_owned(),
            key,
            kind: image::inspect(&image)?.kind,
            image_digest: read(&image)?,
            release: built.release,
            built: Some(Provenance {
                source: identity.clone(),
                patches: recipe
                    .patches
                    .iter()
                    .map(|patch| PatchRecord {
                        name: patch.name(),
                        digest: patch.digest(),
                        direction: patch.direction,
                    })
                    .collect(),
                requested: Digest::of(requested.identity().as_bytes()),
                config: read(&built.config)?,
                warnings: built.warnings,
                notes: built.notes,
                moved,
                toolchain,
                variables: VARIABLES
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect(),
                ccache,
                seconds: start.elapsed().as_secs_f64(),
            }),
            reads_fw_cfg: config_reads_fw_cfg,
            modules: Vec::new(),
            at: Timestamp::now(),
        };
        let kernel = store::publish(entry, &manifest, name)?;
        // It is in the entry now.
        let _ = fs::remove_file(&log);
        Ok(kernel)
    }

    /// Removes what does not decide how the image runs: symbols, of which `System.map`
    /// has the ones that are looked at.
    fn strip(&self, build: &Build<'_>, built: &Built, image: &Path) -> Result<(), KernelError> {
        let mut command = self.tools.command("strip");
        command
            .arg("--strip-all")
            .arg("-o")
            .arg(image)
            .arg(&built.vmlinux);
        let what = format!("stripping {}", build.name);
        let ended = Job {
            command,
            what: what.clone(),
            log: build.log,
            lock: Some(build.lock),
            deadline: Duration::from_secs(300),
            cancel: self.cancel,
        }
        .run(&mut |_| {})
        .map_err(BuildError::from)?;
        if ended.status.success() && image.is_file() {
            return Ok(());
        }
        let failure = crate::build::log::failure(build.log, ended.log_from);
        if failure.cause == crate::build::log::Cause::Full {
            return Err(CacheError::Full {
                action: "write",
                path: image.to_owned(),
            }
            .into());
        }
        Err(BuildError::Compile {
            what,
            lines: failure.lines,
            log: build.log.to_owned(),
        }
        .into())
    }

    /// Looks a kernel up; a damaged one is told and taken out of the way.
    fn find(&self, key: &Digest, name: &str) -> Result<Option<Kernel>, CacheError> {
        let wait = Wait {
            deadline: self.options.wait_deadline,
            cancel: self.cancel,
            on_wait: &|holder| {
                let note = format!("waiting for the kernel {name}, which {holder} uses");
                self.progress.event(BuildEvent::Note(&note));
            },
        };
        match store::find(self.cache, *key, name, &wait)? {
            Lookup::Found(kernel) => {
                if let Some(built) = &kernel.manifest.built {
                    for note in &built.notes {
                        self.progress.event(BuildEvent::Note(note));
                    }
                    for warning in &built.moved {
                        self.progress.event(BuildEvent::Warning(warning));
                    }
                }
                Ok(Some(kernel))
            }
            Lookup::Missing => Ok(None),
            Lookup::Damaged(why) => {
                let warning =
                    format!("the kernel {name} in the cache is damaged ({why}): it is made again");
                self.progress.event(BuildEvent::Warning(&warning));
                self.cache
                    .remove(&self.cache.entry(Part::Kernels, &key.to_string()))?;
                Ok(None)
            }
        }
    }
}

fn plain(name: &str) -> String {
    crate::files::name(Path::new(name))
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() || "._-".contains(letter) {
                letter
            } else {
                '_'
            }
        })
        .take(60)
        .collect()
}
