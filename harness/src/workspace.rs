//! What every command starts from: the project, the cache and the kernels that are known.

pub mod project;

use std::sync::atomic::AtomicBool;

use camino::Utf8PathBuf;
use numalab_kernels::cache::Part;
use numalab_kernels::spec::Origin;
use numalab_kernels::{BuildOptions, Cache, Catalog, ErrorKind, Kernel, KernelError, KernelSpec};
use tokio_util::sync::CancellationToken;

use crate::blocking;
use crate::environment::Environment;
use crate::error::Error;
use crate::kernel_id::{GuestImage, KernelId, PlanIn};
use crate::timing::{Activity, Stopwatch};
use crate::ui::Ui;
use crate::workspace::project::Project;

/// The project, the cache and the kernels that are known.
#[derive(Debug)]
pub struct Workspace {
    /// Scenarios and run folders.
    pub project: Project,
    /// Kernels, images and what they are made from.
    pub cache: Cache,
    /// The kernel definitions.
    pub catalog: Catalog,
    /// Takes the command's time.
    pub stopwatch: Stopwatch,
    /// The variables that this process was started with.
    pub environment: Environment,
}

/// What may be used at a time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// Compiler processes; by default what processors and memory allow.
    pub jobs: Option<usize>,
}

/// Two kernels of the user's own, in the words of the command line, that tests compare
/// instead of running the shipped ones.
#[derive(Debug, Clone)]
pub struct OwnKernels {
    /// The kernel without the change: `NUMALAB_BASE`, or `linux-6.12`.
    pub base: String,
    /// The kernel with it: `NUMALAB_KERNEL`.
    pub kernel: String,
}

impl OwnKernels {
    /// The kernels that the environment names.
    ///
    /// # Errors
    /// `NUMALAB_BASE` is set and `NUMALAB_KERNEL` is not: there is nothing to compare.
    pub fn of(environment: &Environment) -> Result<Option<OwnKernels>, Error> {
        match (environment.base.clone(), environment.kernel.clone()) {
            (base, Some(kernel)) => {
                let base = base.unwrap_or_else(|| "linux-6.12".into());
                Ok(Some(OwnKernels { base, kernel }))
            }
            (Some(_), None) => Err(Error::BaseAlone),
            (None, None) => Ok(None),
        }
    }
}

impl Workspace {
    /// Opens the project, the cache and the kernel definitions.
    ///
    /// # Errors
    /// One of them is not there or not usable.
    pub fn open() -> Result<Workspace, Error> {
        let stopwatch = Stopwatch::default();
        let environment = Environment::read();
        let project = Project::find(&environment)?;
        let cache = Cache::of_user().map_err(KernelError::from)?;
        let catalog = Catalog::load(project.kernels().as_std_path())?;
        Ok(Workspace {
            project,
            cache,
            catalog,
            stopwatch,
            environment,
        })
    }

    /// The folder that relative paths of the user start from.
    ///
    /// # Errors
    /// There is none any more, or its name is not UTF-8.
    pub fn here(&self) -> Result<Utf8PathBuf, Error> {
        // A test runner starts tests in their crate's folder, not where it was started.
        match &self.environment.test_workspace {
            Some(workspace) => Ok(workspace.clone()),
            None => utf8(&std::env::current_dir().map_err(Error::file("find", ".".into()))?),
        }
    }

    /// The kernel that a kernel spec of the command line names.
    ///
    /// # Errors
    /// It means none.
    pub fn wanted(&self, word: &str) -> Result<KernelSpec, Error> {
        Ok(self
            .catalog
            .resolve(word, self.here()?.as_std_path(), &self.cache)?)
    }

    /// The kernels that the tests use: the user's own where the environment names them, else
    /// all that are shipped.
    ///
    /// # Errors
    /// A word or a definition is wrong.
    pub fn kernels_of_tests(&self) -> Result<Vec<KernelSpec>, Error> {
        if let Some(own) = OwnKernels::of(&self.environment)? {
            return Ok(vec![self.wanted(&own.base)?, self.wanted(&own.kernel)?]);
        }
        let names = self
            .catalog
            .definitions()
            .map(|definition| definition.name.clone());
        names
            .collect::<Vec<_>>()
            .iter()
            .map(|name| self.wanted(name))
            .collect()
    }

    /// The kernel, built if it is not in the store, which blocks the calling thread.
    ///
    /// # Errors
    /// It cannot be built, or a signal came.
    pub fn kernel(
        &self,
        wanted: &KernelSpec,
        limits: Limits,
        ui: &Ui,
        cancel: &CancellationToken,
    ) -> Result<BootKernel, Error> {
        self.kernel_built(wanted, false, limits, ui, cancel)
    }

    /// The same; `fresh` builds it from nothing, without the compiler's cache, though the
    /// store has it.
    ///
    /// # Errors
    /// As [`Workspace::kernel`].
    pub fn kernel_built(
        &self,
        wanted: &KernelSpec,
        fresh: bool,
        limits: Limits,
        ui: &Ui,
        cancel: &CancellationToken,
    ) -> Result<BootKernel, Error> {
        let kernel = self.build(limits, cancel, |options, flag| {
            let options = BuildOptions {
                fresh,
                ..options.clone()
            };
            numalab_kernels::get_or_build(&self.cache, wanted, &options, ui, flag)
        })?;
        self.bootable(kernel, wanted)
    }

    /// Builds something, which may take long.
    pub(crate) fn build<T>(
        &self,
        limits: Limits,
        cancel: &CancellationToken,
        work: impl FnOnce(&BuildOptions, &AtomicBool) -> Result<T, KernelError>,
    ) -> Result<T, Error> {
        let _going = self.stopwatch.begin(Activity::Build);
        let mut options = BuildOptions {
            jobs: limits.jobs,
            ..BuildOptions::default()
        };
        if let Some(compiler) = &self.environment.compiler {
            options.compiler.clone_from(compiler);
        }
        let built = blocking::run(cancel, |flag| work(&options, flag));
        built.map_err(|error| match error.kind() {
            ErrorKind::Interrupted => Error::Interrupted,
            _ => Error::Kernel(error),
        })
    }

    /// A kernel of the store, to be booted; `wanted` is what it was asked for by.
    ///
    /// # Errors
    /// Its guest image cannot be made, or its path is not UTF-8.
    pub(crate) fn bootable(
        &self,
        kernel: Kernel,
        wanted: &KernelSpec,
    ) -> Result<BootKernel, Error> {
        let image = self.initramfs(&kernel)?;
        let provenance = kernel.manifest.built.as_ref();
        let id = KernelId {
            name: kernel.name.clone(),
            word: wanted.word.clone(),
            release: kernel.release.clone(),
            source: provenance.map(|built| built.source.version.clone()),
            digest: kernel.image_digest.to_string(),
            path: utf8(&kernel.image)?,
            stored: kernel.manifest.at,
            moved: provenance.map_or_else(Vec::new, |built| built.moved.clone()),
            initramfs: image.as_ref().map(|image| GuestImage {
                path: image.path.clone(),
                digest: image.digest.clone(),
            }),
            plan_in: if kernel.manifest.reads_fw_cfg {
                PlanIn::FwCfg
            } else {
                PlanIn::Initramfs
            },
            // Debian's cloud kernels were seen to differ by microseconds once restored.
            always_cold: match &wanted.origin {
                Origin::Recipe(recipe) => recipe.config.is_some(),
                _ => true,
            },
        };
        Ok(BootKernel {
            id,
            built: kernel,
            _image: image,
        })
    }
}

impl Workspace {
    /// The guest image with a kernel's own modules, if it needs any.
    fn initramfs(&self, kernel: &Kernel) -> Result<Option<numalab_images::Image>, Error> {
        let modules: Vec<numalab_images::Module> = kernel
            .modules()
            .map(|(name, path)| {
                let path = utf8(&path)?;
                let bytes = std::fs::read(&path).map_err(Error::file("read", &path))?;
                Ok(numalab_images::Module {
                    name: name.to_owned(),
                    bytes,
                })
            })
            .collect::<Result<_, Error>>()?;
        if modules.is_empty() {
            return Ok(None);
        }
        let images = utf8(&self.cache.part(Part::Images))?;
        Ok(Some(numalab_images::get_or_build(&images, &modules)?))
    }
}

/// A kernel that can be booted. While it lives, neither it nor its guest image is pruned.
#[derive(Debug)]
pub struct BootKernel {
    /// Which.
    pub id: KernelId,
    built: Kernel,
    _image: Option<numalab_images::Image>,
}

impl BootKernel {
    /// What the store has of it.
    pub fn built(&self) -> &Kernel {
        &self.built
    }
}

/// A path as text.
///
/// # Errors
/// It is not UTF-8.
pub fn utf8(path: &std::path::Path) -> Result<Utf8PathBuf, Error> {
    Utf8PathBuf::try_from(path.to_owned()).map_err(|_| Error::Path {
        path: path.to_owned(),
    })
}
