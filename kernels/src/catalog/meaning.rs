//! What a definition stands for: its base, its patches and its fragments, put together.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::Catalog;
use super::error::SpecError;
use crate::catalog::definition::{Definition, DefinitionError, Start};
use crate::error::KernelError;
use crate::source::repository::Repository;
use crate::spec::{Direction, Fragment, KernelSpec, Origin, Patch, Recipe, Source};
use crate::spelling;
use crate::yaml::At;

impl Catalog {
    /// What a definition stands for, its base included.
    pub fn wanted(&self, definition: &Definition) -> Result<KernelSpec, KernelError> {
        let (trail, source) = self.trail(definition)?;
        let first = trail[trail.len() - 1];
        let mut recipe = Recipe {
            source: located(first, source)?,
            alternative: first.alternative.clone().map(Box::new),
            patches: Vec::new(),
            config: None,
            fragments: Vec::new(),
            own: Vec::new(),
        };
        let mut expected = BTreeMap::new();
        for definition in trail.into_iter().rev() {
            self.add(definition, &mut recipe)?;
            expected.extend(definition.expected.clone());
        }
        Ok(KernelSpec {
            name: definition.name.clone(),
            word: definition.name.clone(),
            origin: Origin::Recipe(recipe),
            expected,
            notes: Vec::new(),
        })
    }

    /// A definition with its bases, and the source that they lead to.
    fn trail<'a>(
        &'a self,
        definition: &'a Definition,
    ) -> Result<(Vec<&'a Definition>, Source), DefinitionError> {
        let mut trail = vec![definition];
        loop {
            let last = trail[trail.len() - 1];
            match &last.start {
                Start::Source(source) => return Ok((trail, source.clone())),
                Start::Base(name) => {
                    let Some(base) = self.definitions.get(name) else {
                        let names = || self.definitions.keys().map(String::as_str);
                        let hint = spelling::nearest(name, names())
                            .map(|name| format!("; did you mean {name:?}?"))
                            .unwrap_or_default();
                        let known = names().collect::<Vec<_>>().join(", ");
                        return Err(last.fault(
                            &At::Value("base".to_owned()),
                            format!("the base {name:?} is none of {known}{hint}"),
                        ));
                    };
                    if trail.iter().any(|known| known.path == base.path) {
                        return Err(last.fault(
                            &At::Value("base".to_owned()),
                            format!("the base {name:?} leads back to this kernel"),
                        ));
                    }
                    trail.push(base);
                }
            }
        }
    }

    /// Adds a definition's own patches and options to those of its base.
    fn add(&self, definition: &Definition, recipe: &mut Recipe) -> Result<(), KernelError> {
        for (key, names, direction) in [
            ("revert", &definition.revert, Direction::Revert),
            ("apply", &definition.apply, Direction::Apply),
        ] {
            for (index, name) in names.iter().enumerate() {
                let at = At::Value(format!("{key}[{index}]"));
                let path = self.find(definition, &at, name, "patches", "")?;
                recipe.patches.push(read_patch(path, direction)?);
            }
        }
        for (index, name) in definition.config.iter().enumerate() {
            let at = At::Value(format!("config[{index}]"));
            let path = self.find(definition, &at, name, "fragments", ".config")?;
            recipe.fragments.push(Fragment {
                name: name.clone(),
                text: read_text(definition, &at, &path)?,
            });
        }
        if !definition.set.is_empty() {
            recipe.fragments.push(Fragment {
                name: format!("{} (set)", definition.name),
                text: definition
                    .set
                    .iter()
                    .map(|(option, value)| match value.as_str() {
                        "n" => format!("# {option} is not set\n"),
                        value => format!("{option}={value}\n"),
                    })
                    .collect(),
            });
        }
        Ok(())
    }

    /// A file that a definition names: beside it, or in the catalog's folder of such.
    fn find(
        &self,
        definition: &Definition,
        at: &At,
        name: &str,
        folder: &str,
        suffix: &str,
    ) -> Result<PathBuf, DefinitionError> {
        let own = beside(definition, Path::new(name));
        let shipped = self.folder.join(folder).join(format!("{name}{suffix}"));
        if let Some(path) = [&own, &shipped].into_iter().find(|path| path.is_file()) {
            return Ok(path.clone());
        }
        Err(definition.fault(
            at,
            format!(
                "{name:?} is not there: looked for {} and {}",
                own.display(),
                shipped.display()
            ),
        ))
    }
}

/// A source whose paths, relative to its definition, have been found.
fn located(definition: &Definition, source: Source) -> Result<Source, DefinitionError> {
    let fault = |key: &str, message| definition.fault(&At::Key(format!("source.{key}")), message);
    let path = |key: &str, path: &Path| {
        let path = beside(definition, path);
        let found = path.canonicalize();
        found.map_err(|error| fault(key, format!("the {key} {}: {error}", path.display())))
    };
    Ok(match source {
        Source::Directory(folder) => Source::Directory(path("directory", &folder)?),
        Source::Tarball(file) => Source::Tarball(path("tarball", &file)?),
        Source::Git {
            repository,
            revision,
        } => {
            let (repository, commit) = Repository::open(&beside(definition, &repository))
                .and_then(|found| Ok((found.path().to_owned(), found.commit(&revision)?)))
                .map_err(|error| fault("git", error.to_string()))?;
            Source::Git {
                repository,
                revision: commit.id,
            }
        }
        source => source,
    })
}

fn beside(definition: &Definition, path: &Path) -> PathBuf {
    definition.path.parent().unwrap_or(Path::new("")).join(path)
}

fn read_patch(path: PathBuf, direction: Direction) -> Result<Patch, SpecError> {
    match fs::read(&path) {
        Ok(bytes) => Ok(Patch::new(path, bytes, direction)),
        Err(source) => Err(SpecError::Read { path, source }),
    }
}

fn read_text(definition: &Definition, at: &At, path: &Path) -> Result<String, DefinitionError> {
    fs::read_to_string(path).map_err(|error| {
        definition.fault(at, format!("{} cannot be read: {error}", path.display()))
    })
}
