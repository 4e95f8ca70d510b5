//! Kernels that somebody else built: an image, or a distribution's package with one.
//!
//! What such a kernel lacks is told before it is booted, and what it has as modules is
//! brought along, as far as the guest's agent needs it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use super::context::Builder;
use crate::build::compile::BuildError;
use crate::cache::{CacheError, Part, TempEntry};
use crate::config::{self, Config};
use crate::digest::{Digest, Digester};
use crate::error::KernelError;
use crate::image::module::{self, Module};
use crate::image::{self, ImageError, payload};
use crate::progress::{BuildEvent, BuildStage};
use crate::store::{self, Kernel, Manifest, ModuleRecord, SCHEMA};
use crate::tools::process::{self, Filter};
use crate::tools::toolchain;

/// Modules that are loaded where the kernel has them not built in, and the option that
/// says so.
const LOADABLE: [(&str, &str); 2] = [
    ("CONFIG_SERIAL_8250", "8250"),
    ("CONFIG_FW_CFG_SYSFS", FW_CFG),
];

/// The module by which the plan is read.
const FW_CFG: &str = "qemu_fw_cfg";

/// Bumped when the same files would give another entry.
const FORM: &str = "1";

/// The most that a file of a package, or what is compressed in one, may have.
const MOST: u64 = 512 << 20;

/// For reading a package once, and for decompressing something.
const DEADLINE: Duration = Duration::from_secs(300);

/// Files by name.
type Files = BTreeMap<String, Vec<u8>>;

/// Gives modules' files by the modules' names, as far as there are any.
type Fetch<'a> = dyn FnMut(&BTreeSet<String>) -> Result<Files, KernelError> + 'a;

/// A kernel of somebody else's, read.
struct Foreign {
    image: Vec<u8>,
    config: Option<Vec<u8>>,
    /// In the order in which they are loaded, by name.
    modules: Vec<(String, Vec<u8>)>,
}

impl Builder<'_> {
    /// Takes somebody else's image into the store, so that what is booted is what was
    /// digested even if it is built anew meanwhile.
    pub(super) fn adopt(&self, name: &str, path: &Path) -> Result<Kernel, KernelError> {
        let release = image::inspect(path)?.release;
        let image = fs::read(path).map_err(|error| CacheError::io("read", path, error))?;
        let config = match config::beside_image(path, release.as_deref()) {
            Some(path) => {
                Some(fs::read(&path).map_err(|error| CacheError::io("read", path, error))?)
            }
            None => self.embedded(&image),
        };
        let folder = release
            .as_deref()
            .and_then(|release| modules_folder(path, release));
        let modules = self.modules(path, release.as_deref(), config.as_deref(), &mut |names| {
            folder
                .as_ref()
                .map_or_else(|| Ok(Files::new()), |folder| in_folder(folder, names))
        })?;
        let foreign = Foreign {
            image,
            config,
            modules,
        };
        let mut digester = Digester::new();
        digester
            .field("form", FORM)
            .field("image", &foreign.image)
            .field("config", foreign.config.as_deref().unwrap_or_default());
        for (name, bytes) in &foreign.modules {
            digester.field(name, bytes);
        }
        let key = digester.finish();
        let kernel = match self.find(&key, name)? {
            Some(kernel) => kernel,
            None => self.keep(name, key, &foreign)?,
        };
        self.tell(name, &kernel)
    }

    /// Takes the kernel of a distribution's package into the store.
    pub(super) fn adopt_package(&self, name: &str, path: &Path) -> Result<Kernel, KernelError> {
        let digest = Digest::of_file(path).map_err(|error| CacheError::io("read", path, error))?;
        let key = Digester::new()
            .field("form", FORM)
            .field("package", digest.to_string())
            .finish();
        if let Some(kernel) = self.find(&key, name)? {
            return self.tell(name, &kernel);
        }
        self.progress.event(BuildEvent::BuildStage {
            stage: BuildStage::Unpack,
            detail: name,
        });
        self.tools.check_unpack()?;
        let likely: BTreeSet<String> = LOADABLE.map(|(_, module)| module.to_owned()).into();
        let files = self.pick(path, &|file| {
            ["boot/vmlinuz-", "boot/config-"]
                .iter()
                .any(|start| file.starts_with(start))
                || module_in(file, &likely)
        })?;
        let named = |start: &str| {
            let mut found = files.iter().filter(|(file, _)| file.starts_with(start));
            found.next().map(|(_, bytes)| bytes.clone())
        };
        let image = named("boot/vmlinuz-").ok_or_else(|| self.empty_package(path))?;
        let config = named("boot/config-");
        let release = files
            .keys()
            .find_map(|file| file.strip_prefix("boot/vmlinuz-"));
        let modules = self.modules(path, release, config.as_deref(), &mut |names| {
            if names.is_subset(&likely) {
                let known = files.iter().filter(|(file, _)| module_in(file, names));
                return Ok(known
                    .map(|(file, bytes)| (file.clone(), bytes.clone()))
                    .collect());
            }
            self.pick(path, &|file| module_in(file, names))
        })?;
        let foreign = Foreign {
            image,
            config,
            modules,
        };
        // What was read is what was digested.
        let again = Digest::of_file(path).map_err(|error| CacheError::io("read", path, error))?;
        if again != digest {
            return Err(no_kernel(path, "it changed while it was read: try again").into());
        }
        let kernel = self.keep(name, key, &foreign)?;
        self.tell(name, &kernel)
    }

    /// Puts it into the store.
    fn keep(&self, name: &str, key: Digest, foreign: &Foreign) -> Result<Kernel, KernelError> {
        let entry = self.cache.temporary(Part::Kernels)?;
        let copy = write(&entry, "copied", &foreign.image)?;
        let found = image::inspect(&copy)?;
        let place = entry.path().join(store::image_name(found.kind));
        fs::rename(&copy, &place).map_err(|error| CacheError::io("write", place, error))?;
        if let Some(config) = &foreign.config {
            write(&entry, store::CONFIG, config)?;
        }
        let mut modules = Vec::new();
        for (index, (module, bytes)) in foreign.modules.iter().enumerate() {
            // The order of the names is the order in which they are loaded.
            let file = format!("{index:02}-{module}.ko");
            write(&entry, &file, bytes)?;
            modules.push(ModuleRecord {
                file,
                digest: Digest::of(bytes),
            });
        }
        let manifest = Manifest {
            schema: SCHEMA,
            name: name.to_owned(),
            key,
            kind: found.kind,
            image_digest: Digest::of(&foreign.image),
            release: found.release.unwrap_or_else(|| "unknown".to_owned()),
            built: None,
            reads_fw_cfg: self.reads_fw_cfg(foreign),
            modules,
            at: Timestamp::now(),
        };
        Ok(store::publish(entry, &manifest, name)?)
    }

    /// Whether the plan can come in by fw_cfg. Where nothing tells, it is tried.
    fn reads_fw_cfg(&self, foreign: &Foreign) -> bool {
        if foreign.modules.iter().any(|(name, _)| name == FW_CFG) {
            return true;
        }
        if let Some(config) = &foreign.config {
            let config = Config::parse(&String::from_utf8_lossy(config));
            return config.value("CONFIG_FW_CFG_SYSFS") == Some("y");
        }
        match self.uncompressed(&foreign.image) {
            Some(kernel) => payload::has_fw_cfg(&kernel),
            None => true,
        }
    }

    /// Says, before it is booted, what a kernel lacks.
    fn tell(&self, name: &str, kernel: &Kernel) -> Result<Kernel, KernelError> {
        if kernel.config.is_none() {
            let note = format!(
                "the configuration of {name} is not known (neither .config nor config-{} lies \
                 beside it, and it carries none): what it lacks shows when it runs",
                kernel.release
            );
            self.progress.event(BuildEvent::Note(&note));
        }
        for (option, why) in kernel.lacks()? {
            let value = kernel
                .config_value(option)?
                .unwrap_or_else(|| "n".to_owned());
            let mut warning = format!("{name} was built without {option} (it is {value}): {why}");
            if option == "CONFIG_FW_CFG_SYSFS" {
                warning.push_str("; it comes in the initramfs instead, and every guest boots cold");
            }
            self.progress.event(BuildEvent::Warning(&warning));
        }
        if kernel.config.is_none() && !kernel.manifest.reads_fw_cfg {
            let note = format!(
                "{name} has no driver for fw_cfg: the plan comes in the initramfs, and every guest \
                 boots cold"
            );
            self.progress.event(BuildEvent::Note(&note));
        }
        Ok(kernel.clone())
    }

    /// The modules that a kernel needs, with those that they need, in their order.
    fn modules(
        &self,
        path: &Path,
        release: Option<&str>,
        config: Option<&[u8]>,
        fetch: &mut Fetch<'_>,
    ) -> Result<Vec<(String, Vec<u8>)>, KernelError> {
        let Some(config) = config else {
            return Ok(Vec::new());
        };
        let config = Config::parse(&String::from_utf8_lossy(config));
        let mut wanted: BTreeSet<String> = LOADABLE
            .iter()
            .filter(|(option, _)| config.value(option) == Some("m"))
            .map(|(_, module)| (*module).to_owned())
            .collect();
        let mut known: BTreeMap<String, Module> = BTreeMap::new();
        let mut contents = Files::new();
        while !wanted.is_empty() {
            let mut needed = BTreeSet::new();
            for (file, bytes) in fetch(&wanted)? {
                let file = file.rsplit('/').next().unwrap_or(&file);
                let Some(name) = module::name_of_file(file) else {
                    continue;
                };
                let bytes = self.decompress(bytes, path)?;
                let module = module::read(&bytes)
                    .ok_or_else(|| no_kernel(path, &format!("its {file} is no module")))?;
                if release.is_some_and(|release| release != module.release) {
                    return Err(ImageError::Module {
                        path: path.to_owned(),
                        module: name,
                        built_for: module.release,
                        release: release.unwrap_or_default().to_owned(),
                    }
                    .into());
                }
                needed.extend(module.depends.iter().cloned());
                known.insert(name.clone(), module);
                contents.insert(name, bytes);
            }
            for name in wanted.iter().filter(|name| !known.contains_key(*name)) {
                let warning = format!(
                    "the module {name}, which {} has not built in, is not with it",
                    crate::files::name(path)
                );
                self.progress.event(BuildEvent::Warning(&warning));
            }
            needed.retain(|name| !known.contains_key(name) && !wanted.contains(name));
            wanted = needed;
        }
        Ok(module::order(&known)
            .into_iter()
            .filter_map(|name| contents.remove_entry(&name))
            .collect())
    }

    /// The files of a package that are wanted, by their paths in it.
    fn pick(&self, package: &Path, wanted: &dyn Fn(&str) -> bool) -> Result<Files, KernelError> {
        let mut command = self.tools.command("dpkg-deb");
        command.arg("--fsys-tarfile").arg(package);
        let nothing =
            File::open("/dev/null").map_err(|error| CacheError::io("open", "/dev/null", error))?;
        let log = self.cache.entry(
            Part::Logs,
            &format!(
                "package-{}.log",
                crate::files::plain(&crate::files::name(package))
            ),
        );
        let _ = fs::remove_file(&log);
        let filter = Filter::start(command, nothing, &log, None, DEADLINE, self.cancel)
            .map_err(BuildError::from)?;
        let broken = |error: std::io::Error| {
            let said = fs::read_to_string(&log).unwrap_or_default();
            let said = said.lines().last().map_or(error.to_string(), str::to_owned);
            KernelError::from(no_kernel(
                package,
                &format!("it cannot be unpacked ({said})"),
            ))
        };
        let mut files = Files::new();
        let mut archive = tar::Archive::new(filter);
        for entry in archive.entries().map_err(broken)? {
            let entry = entry.map_err(broken)?;
            let path = entry.path_bytes();
            let path = String::from_utf8_lossy(&path);
            let path = path.trim_start_matches("./").to_owned();
            if !entry.header().entry_type().is_file() || !wanted(&path) {
                continue;
            }
            let mut bytes = Vec::new();
            entry.take(MOST).read_to_end(&mut bytes).map_err(broken)?;
            files.insert(path, bytes);
        }
        let ended = archive.into_inner().finish().map_err(broken)?;
        // It is told that nobody reads what comes after the archive's end.
        if !ended.success() && !process::was_killed(ended) {
            return Err(broken(std::io::Error::other("dpkg-deb failed")));
        }
        let _ = fs::remove_file(&log);
        Ok(files)
    }

    /// Why a package has no kernel.
    fn empty_package(&self, path: &Path) -> ImageError {
        let mut command = self.tools.command("dpkg-deb");
        command.arg("--field").arg(path).arg("Depends");
        let depends = process::answer(command).unwrap_or_default();
        let image = depends
            .split([',', '|', ' '])
            .find(|word| word.starts_with("linux-image-"));
        no_kernel(
            path,
            &match image {
                Some(image) => format!(
                    "it is a package without a kernel, and only depends on {image}: get that one"
                ),
                None => "it is a package without /boot/vmlinuz-*".to_owned(),
            },
        )
    }

    /// The configuration that an image carries.
    fn embedded(&self, image: &[u8]) -> Option<Vec<u8>> {
        let kernel = self.uncompressed(image)?;
        let compressed = payload::configuration(&kernel)?;
        self.filter("gzip", compressed)
    }

    /// The kernel itself, in a bzImage or not.
    fn uncompressed<'b>(&self, image: &'b [u8]) -> Option<std::borrow::Cow<'b, [u8]>> {
        if image.starts_with(b"\x7fELF") {
            return Some(image.into());
        }
        let (compressed, tool) = payload::compressed(image)?;
        Some(self.filter(tool, compressed)?.into())
    }

    /// A module, decompressed if it is compressed.
    fn decompress(&self, bytes: Vec<u8>, path: &Path) -> Result<Vec<u8>, KernelError> {
        let Some((tool, _)) = toolchain::decompressor(&bytes) else {
            return Ok(bytes);
        };
        self.tools.check_decompressor(tool)?;
        self.filter(tool, &bytes)
            .ok_or_else(|| no_kernel(path, &format!("a module in it is damaged ({tool})")).into())
    }

    /// What a tool makes of some bytes; `None` if it makes nothing. Bytes after the end of
    /// what is compressed make it complain, and harm nothing.
    fn filter(&self, tool: &str, bytes: &[u8]) -> Option<Vec<u8>> {
        let (_, arguments) = toolchain::decompressor(bytes)?;
        let mut input = tempfile::tempfile_in(self.cache.root()).ok()?;
        input.write_all(bytes).ok()?;
        input.rewind().ok()?;
        let mut command = self.tools.command(tool);
        command.args(arguments);
        let nothing = Path::new("/dev/null");
        let mut filter =
            Filter::start(command, input, nothing, None, DEADLINE, self.cancel).ok()?;
        let mut output = Vec::new();
        std::io::Read::by_ref(&mut filter)
            .take(MOST)
            .read_to_end(&mut output)
            .ok()?;
        (!output.is_empty()).then_some(output)
    }
}

fn no_kernel(path: &Path, why: &str) -> ImageError {
    ImageError::NoKernel {
        path: path.to_owned(),
        why: why.to_owned(),
    }
}

fn write(entry: &TempEntry, name: &str, bytes: &[u8]) -> Result<PathBuf, CacheError> {
    let path = entry.path().join(name);
    fs::write(&path, bytes).map_err(|error| CacheError::io("write", &path, error))?;
    Ok(path)
}

/// Whether a path is one of these modules' files.
fn module_in(path: &str, names: &BTreeSet<String>) -> bool {
    let path = path.strip_prefix("usr/").unwrap_or(path);
    path.starts_with("lib/modules/")
        && path
            .rsplit('/')
            .next()
            .and_then(module::name_of_file)
            .is_some_and(|name| names.contains(&name))
}

/// Where the modules of an image lie, if it lies where distributions put it:
/// `/boot/vmlinuz-RELEASE`, or beside its modules.
fn modules_folder(image: &Path, release: &str) -> Option<PathBuf> {
    let image = image.canonicalize().ok()?;
    let folder = image.parent()?;
    let root = folder.parent()?;
    let places = [
        root.join("lib/modules").join(release),
        root.join("usr/lib/modules").join(release),
        folder.to_owned(),
    ];
    places
        .into_iter()
        .find(|place| place.ends_with(release) && place.join("kernel").is_dir())
}

fn in_folder(folder: &Path, names: &BTreeSet<String>) -> Result<Files, KernelError> {
    let mut files = Files::new();
    let mut folders = vec![folder.join("kernel")];
    while let Some(folder) = folders.pop() {
        let fault = |error| CacheError::io("list", &folder, error);
        for item in fs::read_dir(&folder).map_err(fault)? {
            let item = item.map_err(fault)?;
            let path = item.path();
            // Links are not followed: some lead to sources.
            if item.file_type().map_err(fault)?.is_dir() {
                folders.push(path);
                continue;
            }
            let file = item.file_name().to_string_lossy().into_owned();
            if module::name_of_file(&file).is_some_and(|name| names.contains(&name)) {
                let bytes =
                    fs::read(&path).map_err(|error| CacheError::io("read", &path, error))?;
                files.insert(file, bytes);
            }
        }
    }
    Ok(files)
}
