//! The catalog: the definitions of one folder, and what a word of the command line
//! means by them.

mod commit;
pub mod definition;
pub(crate) mod error;
mod meaning;
pub(crate) mod setting;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::cache::Cache;
use crate::catalog::definition::Definition;
use crate::error::KernelError;
use crate::image;
use crate::series;
use crate::source::repository::{Commit, Repository};
use crate::source::{tarball, url};
use crate::spec::{Direction, Fragment, KernelSpec, Origin, Recipe, Source};
use crate::spelling;
pub use error::SpecError;
pub use setting::Setting;

/// The kernel whose configuration a source without a definition is built with.
pub const CONFIG_OF_DIRECTORIES: &str = "linux-6.12";

/// What a whole configuration of somebody's own is completed with.
const CONTRACT: &str = "fragments/contract.config";

/// What stands before a patch that is to be taken back.
const REVERT: &str = "revert:";

/// The definitions of one folder, with their `fragments` and `patches`.
#[derive(Debug, Clone)]
pub struct Catalog {
    folder: PathBuf,
    definitions: BTreeMap<String, Definition>,
}

impl Catalog {
    /// Reads all definitions of a folder.
    pub fn load(folder: &Path) -> Result<Self, KernelError> {
        let fault = |source| SpecError::Folder {
            path: folder.to_owned(),
            source,
        };
        let mut definitions = BTreeMap::new();
        for item in fs::read_dir(folder).map_err(fault)? {
            let path = item.map_err(fault)?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "yaml")
            {
                let definition = Definition::read(&path)?;
                definitions.insert(definition.name.clone(), definition);
            }
        }
        Ok(Self {
            folder: folder.to_owned(),
            definitions,
        })
    }

    /// The definitions, by name.
    pub fn definitions(&self) -> impl Iterator<Item = &Definition> {
        self.definitions.values()
    }

    /// The kernels of the default test matrix, by name.
    pub fn matrix(&self) -> Result<Vec<KernelSpec>, KernelError> {
        self.definitions()
            .filter(|definition| definition.matrix)
            .map(|definition| self.wanted(definition))
            .collect()
    }

    /// What a word means: a name, a path (of a definition, an image or a source
    /// directory), a commit (`git:PATH@REVISION`), or one of these with `+PATCH` or
    /// `+revert:PATCH` after it, once or more, where each PATCH is what [`series::read`]
    /// takes, or with an option or a file of options (see `Setting`). Paths are relative to
    /// `cwd`; mails are taken apart in `cache`.
    pub fn resolve(
        &self,
        word: &str,
        cwd: &Path,
        cache: &Cache,
    ) -> Result<KernelSpec, KernelError> {
        let pieces: Vec<&str> = word.split('+').collect();
        // The longest beginning that exists is the kernel, so that a file whose own
        // name has a `+` wins.
        let kernel = (1..=pieces.len()).rev().find_map(|count| {
            let beginning = pieces[..count].join("+");
            let exists = !beginning.is_empty()
                && (self.definitions.contains_key(&beginning)
                    || url::of_word(&beginning).is_some()
                    || cwd.join(&beginning).exists()
                    || commit::exists(&beginning, cwd));
            exists.then_some((beginning, count))
        });
        let Some((beginning, count)) = kernel else {
            if commit::of_word(word).is_some() {
                return Err(commit::error(word, cwd));
            }
            if crate::spec::is_url(word) {
                return Err(SpecError::Digestless {
                    word: word.to_owned(),
                }
                .into());
            }
            return Err(self.unknown(pieces[0], cwd).into());
        };
        let mut wanted = self.kernel(&beginning, cwd)?;
        self.patch(&mut wanted, word, &pieces[count..], cwd, cache)?;
        Ok(wanted)
    }

    /// Puts on a kernel what comes after it in a word.
    fn patch(
        &self,
        wanted: &mut KernelSpec,
        word: &str,
        mut rest: &[&str],
        cwd: &Path,
        cache: &Cache,
    ) -> Result<(), KernelError> {
        let mut given: Vec<(Direction, Vec<String>)> = Vec::new();
        // On a commit, revisions are its repository's.
        let repository = match &wanted.origin {
            Origin::Recipe(Recipe {
                source: Source::Git { repository, .. },
                ..
            }) => repository.clone(),
            _ => cwd.to_owned(),
        };
        while !rest.is_empty() {
            if let Some(setting) = Setting::read(rest[0], word, cwd)? {
                self.configure(wanted, &[setting])?;
                rest = &rest[1..];
                continue;
            }
            let (direction, first) = match rest[0].strip_prefix(REVERT) {
                Some(first) => (Direction::Revert, first),
                None => (Direction::Apply, rest[0]),
            };
            let patch = (1..=rest.len()).rev().find_map(|count| {
                let mut name = vec![first];
                name.extend(&rest[1..count]);
                let name = name.join("+");
                (!name.is_empty() && cwd.join(&name).exists()).then_some((name, count))
            });
            // Where there is no such file, `A..B` may be revisions.
            let patch = patch.map(|(name, count)| {
                let word = absolute(&cwd.join(&name));
                (name, count, word)
            });
            let range = || {
                (1..=rest.len()).find_map(|count| {
                    let name = [&[first], &rest[1..count]].concat().join("+");
                    series::range_word(&name, &repository).map(|word| (word.clone(), count, word))
                })
            };
            let Some((name, count, meant)) = patch.or_else(range) else {
                return Err(SpecError::Patch {
                    word: word.to_owned(),
                    patch: rest.join("+"),
                    cwd: cwd.to_owned(),
                }
                .into());
            };
            let prefix = match direction {
                Direction::Apply => "",
                Direction::Revert => REVERT,
            };
            wanted.word = format!("{}+{prefix}{meant}", wanted.word);
            match given.last_mut() {
                Some((last, names)) if *last == direction => names.push(name),
                _ => given.push((direction, vec![name])),
            }
            rest = &rest[count..];
        }
        for (direction, names) in given {
            let Origin::Recipe(recipe) = &mut wanted.origin else {
                return Err(SpecError::PatchedImage {
                    word: word.to_owned(),
                }
                .into());
            };
            let series = series::read(&names, direction, cwd, cache)?;
            let sign = match direction {
                Direction::Apply => "+",
                Direction::Revert => "+revert-",
            };
            wanted.name = format!("{}{sign}{}", wanted.name, series.name);
            // What a kernel with somebody's patch should do is the scenarios' to say.
            wanted.expected.clear();
            recipe.patches.extend(series.patches);
            wanted.notes.extend(series.notes);
        }
        Ok(())
    }

    /// Adds settings to a kernel's configuration, its name and its word.
    ///
    /// # Errors
    /// The kernel is an image, or the options that guests need cannot be read.
    pub fn configure(
        &self,
        spec: &mut KernelSpec,
        settings: &[Setting],
    ) -> Result<(), KernelError> {
        for setting in settings {
            let Origin::Recipe(recipe) = &mut spec.origin else {
                let word = spec.word.clone();
                return Err(SpecError::ConfiguredImage { word }.into());
            };
            spec.name = format!("{}+{}", spec.name, setting.name());
            spec.word = format!("{}+{}", spec.word, setting.piece());
            // The definition's expectations hold for its own configuration only.
            spec.expected.clear();
            match setting {
                Setting::Own { fragment, .. } => recipe.own.push(fragment.clone()),
                Setting::Whole { config, .. } => {
                    let path = self.folder.join(CONTRACT);
                    recipe.config = Some(config.clone());
                    recipe.fragments = vec![Fragment {
                        name: "contract".to_owned(),
                        text: fs::read_to_string(&path)
                            .map_err(|source| SpecError::Read { path, source })?,
                    }];
                }
            }
        }
        Ok(())
    }

    fn kernel(&self, word: &str, cwd: &Path) -> Result<KernelSpec, KernelError> {
        if let Some(definition) = self.definitions.get(word) {
            return self.wanted(definition);
        }
        if let Some(source) = url::of_word(word) {
            let name = match &source {
                Source::Url { url, .. } => crate::spec::name_in_url(url),
                _ => word.to_owned(),
            };
            return self.plain(source, name, word.to_owned());
        }
        let path = cwd.join(word);
        if let Some(rest) = commit::of_word(word)
            && !path.exists()
        {
            let (repository, commit, name) = commit::named(rest, cwd)?;
            return self.of_commit(&repository, &commit, name);
        }
        if path.is_dir() {
            return self.directory(&path);
        }
        if tarball::is_name(&path) {
            let path = path.canonicalize().map_err(|source| SpecError::Read {
                path: path.clone(),
                source,
            })?;
            let (name, word) = (crate::files::name(&path), absolute(&path));
            return self.plain(Source::Tarball(path), name, word);
        }
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            let wanted = self.wanted(&Definition::read(&path)?)?;
            return Ok(KernelSpec {
                word: absolute(&path),
                ..wanted
            });
        }
        let origin = if path.extension().is_some_and(|extension| extension == "deb") {
            Origin::Package(path.clone())
        } else {
            image::inspect(&path)?;
            Origin::Image(path.clone())
        };
        Ok(KernelSpec {
            name: image_name(&path),
            word: absolute(&path),
            origin,
            expected: BTreeMap::new(),
            notes: Vec::new(),
        })
    }

    fn directory(&self, path: &Path) -> Result<KernelSpec, KernelError> {
        for missing in ["Makefile", "Kconfig"] {
            if !path.join(missing).is_file() {
                return Err(SpecError::Folderless {
                    path: path.to_owned(),
                    missing,
                }
                .into());
            }
        }
        let path = path.canonicalize().map_err(|source| SpecError::Read {
            path: path.to_owned(),
            source,
        })?;
        let (name, word) = (crate::files::name(&path), absolute(&path));
        self.plain(Source::Directory(path), name, word)
    }

    /// The kernel of a commit, with the configuration of plain sources.
    ///
    /// # Errors
    /// There is no definition with that configuration.
    pub fn of_commit(
        &self,
        repository: &Repository,
        commit: &Commit,
        name: String,
    ) -> Result<KernelSpec, KernelError> {
        let (source, word) = commit::source(repository, commit);
        self.plain(source, name, word)
    }

    /// A source that no definition describes.
    fn plain(&self, source: Source, name: String, word: String) -> Result<KernelSpec, KernelError> {
        let config = self
            .definitions
            .get(CONFIG_OF_DIRECTORIES)
            .ok_or_else(|| self.unknown(CONFIG_OF_DIRECTORIES, &self.folder))?;
        let Origin::Recipe(recipe) = self.wanted(config)?.origin else {
            return Err(self.unknown(CONFIG_OF_DIRECTORIES, &self.folder).into());
        };
        Ok(KernelSpec {
            name,
            word,
            origin: Origin::Recipe(Recipe {
                source,
                alternative: None,
                ..recipe
            }),
            expected: BTreeMap::new(),
            notes: Vec::new(),
        })
    }

    fn unknown(&self, word: &str, cwd: &Path) -> SpecError {
        let names = || self.definitions.keys().map(String::as_str);
        SpecError::Unknown {
            word: word.to_owned(),
            cwd: cwd.to_owned(),
            known: names().collect::<Vec<_>>().join(", "),
            hint: spelling::nearest(word, names())
                .map(|name| format!("; did you mean {name:?}?"))
                .unwrap_or_default(),
        }
    }
}

/// How an image is called: as its file, or, where a build names the file, as the build's
/// folder.
fn image_name(path: &Path) -> String {
    const BY_BUILDS: [&str; 4] = ["vmlinux", "bzImage", "vmlinuz", "Image"];
    const WITHIN_BUILDS: [&str; 5] = ["arch", "x86", "x86_64", "boot", "compressed"];
    let name = crate::files::name(path);
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut folders = absolute.ancestors().skip(1).map(crate::files::name);
    let build = folders.find(|folder| !WITHIN_BUILDS.contains(&folder.as_str()));
    match build {
        Some(build) if BY_BUILDS.contains(&name.as_str()) && build != "/" => build,
        _ => name,
    }
}

/// A path that means the same from any folder.
fn absolute(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute.display().to_string()
}
