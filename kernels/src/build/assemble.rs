//! A kernel is compiled and put into the store, from a source that is there.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::compile::{Build, BuildError, Built, Profiling, VARIABLES};
use super::context::Builder;
use super::jobs;
use super::log::{self, Cause};
use super::objects::{self, ObjectTree};
use super::patched::{hiding_headers, pristine_too};
use crate::cache::{self, CacheError, Part, TempEntry};
use crate::config::kconfig;
use crate::config::{Config, Requested};
use crate::digest::{Digest, Digester};
use crate::error::KernelError;
use crate::files;
use crate::image::{self, ImageKind};
use crate::profile::{self, ProfilePlan, Side};
use crate::progress::{BuildEvent, BuildStage};
use crate::source::Opened;
use crate::source::tree::{Content, SourceTree};
use crate::spec::Recipe;
use crate::store::{self, Kernel, Manifest, PatchRecord, Provenance, SCHEMA};
use crate::tools::process::Job;
use crate::tools::toolchain::Toolchain;
use crate::version;

/// The oldest kernels that can be built for a guest are of this major version: those
/// before have no PVH entry of their own (`CONFIG_PVH`, since v5.0).
const OLDEST: u32 = 5;

impl Builder<'_> {
    /// Compiles a kernel from an opened source, and puts it into the store.
    pub(super) fn compile(
        &self,
        name: &str,
        recipe: &Recipe,
        requested: &Requested,
        toolchain: Toolchain,
        opened: &Opened,
        key: Digest,
    ) -> Result<Kernel, KernelError> {
        let start = Instant::now();
        let Opened { tree, lock, .. } = opened;
        refuse_ancient(name, &tree.src())?;
        if objects::distrust_future(lock.entry())? {
            self.progress.event(BuildEvent::Note(
                "the clock was set back since the last build: everything is compiled again",
            ));
        }
        let other = self.other_side(tree)?;
        let (files, moved) = self.patch(recipe, tree)?;
        let ccache = self.uses_ccache();
        let hiding = hiding_headers(tree, &files)?;
        let objects_of =
            |requested: &Requested| self.objects(opened, requested, &toolchain, ccache, &hiding);
        // Where the same kernel is built without gcov.
        let without = match self.profiling {
            Some(_) => Some(objects_of(&Requested::of(recipe)?)),
            None => None,
        };
        let objects = objects_of(requested);
        if self.options.fresh {
            objects.clear()?;
        }
        if let Some(history) = &opened.history {
            self.follow(history, &objects)?;
        }
        let profiling = without.as_ref().map(|plain| Profiling {
            plain,
            touched: files.keys().chain(other.keys()).collect(),
        });
        let log = format!("build-{}-{}.log", short_name(name), key.short());
        let log = self.cache.entry(Part::Logs, &log);
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
        let entry = self.entry(&build, &built)?;
        if let Some(plan) = &built.profile {
            self.keep_profile(entry.path(), &objects.path(), plan, tree, files, other)?;
        }
        let image = entry.path().join(store::image_name(ImageKind::Vmlinux));
        let config = fs::read_to_string(&built.config)
            .map_err(|error| CacheError::io("read", &built.config, error))?;
        let manifest = Manifest {
            schema: SCHEMA,
            name: name.to_owned(),
            key,
            kind: image::inspect(&image)?.kind,
            image_digest: digest(&image)?,
            reads_fw_cfg: Config::parse(&config).value("CONFIG_FW_CFG_SYSFS") == Some("y"),
            release: built.release,
            built: Some(Provenance {
                source: opened.identity.clone(),
                patches: recipe.patches.iter().map(PatchRecord::of).collect(),
                requested: Digest::of(requested.identity().as_bytes()),
                config: digest(&built.config)?,
                warnings: built.warnings,
                notes: built.notes,
                moved,
                toolchain,
                variables: variables(),
                ccache,
                seconds: start.elapsed().as_secs_f64(),
            }),
            modules: Vec::new(),
            at: Timestamp::now(),
        };
        let kernel = store::publish(entry, &manifest, name)?;
        // The entry has a copy.
        let _ = fs::remove_file(&log);
        Ok(kernel)
    }

    /// Keeps what a profiled run needs to count the lines that the patches change; `own` are
    /// the files of this kernel that they touch, `other` those of the kernel it is compared
    /// with.
    fn keep_profile(
        &self,
        entry: &Path,
        objects: &Path,
        plan: &ProfilePlan,
        tree: &SourceTree,
        own: BTreeMap<String, Content>,
        other: BTreeMap<String, Content>,
    ) -> Result<(), CacheError> {
        let Some(delta) = self.profiling else {
            return Ok(());
        };
        let own = pristine_too(tree, own, &other)?;
        let other = pristine_too(tree, other, &own)?;
        let sides = match delta.side {
            Side::Base => [&own, &other],
            Side::Patched => [&other, &own],
        };
        let compiler = self.tools.called_compiler();
        profile::keep(entry, objects, plan, compiler, sides)
    }

    fn uses_ccache(&self) -> bool {
        self.options.ccache
            && !self.options.fresh
            && self.tools.has_ccache()
            // It would look at the script, not at the compiler that the script runs.
            && self.tools.has_plain_compiler()
    }

    /// The object tree for a configuration and compiler.
    fn objects(
        &self,
        opened: &Opened,
        requested: &Requested,
        toolchain: &Toolchain,
        ccache: bool,
        hiding: &[String],
    ) -> ObjectTree {
        let mut shape = Digester::new();
        shape
            .field("options", requested.identity())
            .field("compiler", &toolchain.compiler)
            .field("cc", &toolchain.cc)
            .field("linker", &toolchain.linker)
            .field("ccache", [u8::from(ccache)]);
        if let Some(headers) = opened.identity.headers {
            shape.field("headers", headers.to_string());
        }
        if self.options.fresh {
            shape.field("fresh", "");
        }
        for name in hiding {
            shape.field("header", name);
        }
        ObjectTree::of(opened.lock.entry(), &shape.finish().short())
    }

    /// A new entry of the store, with the files that a build left.
    fn entry(&self, build: &Build<'_>, built: &Built) -> Result<TempEntry, KernelError> {
        let entry = self.cache.temporary(Part::Kernels)?;
        let place = |name: &str| entry.path().join(name);
        self.strip(build, built, &place(store::image_name(ImageKind::Vmlinux)))?;
        store::copy(&built.system_map, &place(store::SYSTEM_MAP))?;
        store::copy(&built.config, &place(store::CONFIG))?;
        store::copy(build.log, &place(store::LOG))?;
        if let Some(warnings) = &built.compiler_warnings {
            cache::write_json(&place(store::WARNINGS), warnings)?;
        }
        Ok(entry)
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
        let failure = log::failure(build.log, ended.log_from);
        if failure.cause == Cause::Full {
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
}

/// Refuses, before anything long begins, a kernel that no guest can boot.
fn refuse_ancient(name: &str, source: &Path) -> Result<(), BuildError> {
    let version = version::of_source(source);
    let major = version.as_deref().and_then(|text| text.split('.').next());
    let major: Option<u32> = major.and_then(|major| major.parse().ok());
    match (major, version) {
        (Some(major), Some(version)) if major < OLDEST => Err(BuildError::Ancient {
            name: name.to_owned(),
            version,
        }),
        _ => Ok(()),
    }
}

fn digest(path: &Path) -> Result<Digest, CacheError> {
    Digest::of_file(path).map_err(|error| CacheError::io("read", path, error))
}

/// A kernel's name as a part of its log's name.
fn short_name(name: &str) -> String {
    let name = files::plain(&files::name(Path::new(name)));
    name.chars().take(60).collect()
}

/// The environment of the build, as `NAME=value`.
fn variables() -> Vec<String> {
    let variables = VARIABLES.iter();
    variables
        .map(|(name, value)| format!("{name}={value}"))
        .collect()
}
