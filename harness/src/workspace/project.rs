//! The project's folders, and choosing scenarios by the words of a command line.

use camino::{Utf8Path, Utf8PathBuf};
use miette::Diagnostic;

use crate::environment::Environment;
use crate::scenario::Scenario;
use crate::suggest;

/// Where scenarios and kernel definitions are, and where runs are kept.
#[derive(Debug, Clone)]
pub struct Project {
    root: Utf8PathBuf,
    runs: Utf8PathBuf,
}

/// Why there is no project, or no such scenario.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum ProjectError {
    /// No folder with `suites` and `kernels`.
    #[error("{place} is not numalab's folder: it has no `suites` and `kernels`")]
    #[diagnostic(help("NUMALAB_ROOT names the folder of a clone of numalab"))]
    NoProject {
        /// Where it was looked for.
        place: Utf8PathBuf,
    },
    /// A folder cannot be listed.
    #[error("cannot list {folder}")]
    List {
        /// The folder.
        folder: Utf8PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// No scenario of that name.
    #[error("there is no scenario or suite {word:?}")]
    Unknown {
        /// The word.
        word: String,
        /// What there is.
        #[help]
        help: String,
    },
    /// A folder without scenarios.
    #[error("there is no scenario in {folder}")]
    Empty {
        /// The folder.
        folder: Utf8PathBuf,
    },
}

impl Project {
    /// Finds the project: `NUMALAB_ROOT`, else the nearest folder upwards from the current
    /// one, else the folder that this program was built in.
    ///
    /// # Errors
    /// `NUMALAB_ROOT` names another folder, or there is none.
    pub fn find(environment: &Environment) -> Result<Project, ProjectError> {
        let mut project = match &environment.root {
            Some(root) => Project::at(root.clone())?,
            None => Project::nearest()?,
        };
        if let Some(runs) = &environment.runs {
            project.runs.clone_from(runs);
        }
        Ok(project)
    }

    fn nearest() -> Result<Project, ProjectError> {
        let built_in = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).parent();
        let here = std::env::current_dir()
            .ok()
            .and_then(|dir| Utf8PathBuf::try_from(dir).ok());
        let above = here.iter().flat_map(|dir| dir.ancestors());
        above
            .chain(built_in)
            .find_map(|dir| Project::at(dir.to_owned()).ok())
            .ok_or_else(|| ProjectError::NoProject {
                place: here.clone().unwrap_or_default(),
            })
    }

    /// The project in a folder.
    ///
    /// # Errors
    /// It is not one.
    pub fn at(root: Utf8PathBuf) -> Result<Project, ProjectError> {
        let runs = root.join("target/numalab/runs");
        let project = Project { root, runs };
        if project.suites().is_dir() && project.kernels().join("fragments").is_dir() {
            return Ok(project);
        }
        Err(ProjectError::NoProject {
            place: project.root,
        })
    }

    /// The scenarios' folder.
    pub fn suites(&self) -> Utf8PathBuf {
        self.root.join("suites")
    }

    /// The kernel definitions' folder.
    pub fn kernels(&self) -> Utf8PathBuf {
        self.root.join("kernels")
    }

    /// Where run folders are made: `NUMALAB_RUNS`, else `target/numalab/runs`.
    pub fn runs(&self) -> Utf8PathBuf {
        self.runs.clone()
    }

    /// The files of all shipped scenarios, in the order of their names.
    ///
    /// # Errors
    /// A folder cannot be listed, or there is no scenario at all.
    pub fn scenario_files(&self) -> Result<Vec<Utf8PathBuf>, ProjectError> {
        let suites = self.suites();
        let mut files = Vec::new();
        for suite in entries(&suites)? {
            // `src` and `tests` are this crate's own.
            if suite.is_dir() && !matches!(suite.file_name(), Some("src" | "tests")) {
                files.extend(
                    entries(&suite)?
                        .into_iter()
                        .filter(|f| f.extension() == Some("yaml")),
                );
            }
        }
        if files.is_empty() {
            return Err(ProjectError::Empty { folder: suites });
        }
        files.sort();
        Ok(files)
    }

    /// The scenarios that words name: `suite/scenario`, a whole `suite`, or a path to a
    /// YAML file. No word names all.
    ///
    /// # Errors
    /// A word names nothing, or a scenario that is named cannot be used.
    pub fn scenarios(&self, words: &[String]) -> miette::Result<Vec<Scenario>> {
        let shipped = self.scenario_files()?;
        let name = |file: &Utf8PathBuf| {
            let suite = file
                .parent()
                .and_then(Utf8Path::file_name)
                .unwrap_or_default();
            (
                suite.to_owned(),
                format!("{suite}/{}", file.file_stem().unwrap_or_default()),
            )
        };
        let mut files: Vec<Utf8PathBuf> = Vec::new();
        for word in words {
            let trimmed = word.trim_end_matches('/');
            let named: Vec<Utf8PathBuf> = shipped
                .iter()
                .filter(|file| {
                    let (suite, name) = name(file);
                    trimmed == suite || trimmed == name
                })
                .cloned()
                .collect();
            let path = Utf8PathBuf::from(word);
            if !named.is_empty() {
                files.extend(named);
            } else if path.extension() == Some("yaml") {
                // Reading it says what is wrong with a path.
                files.push(path);
            } else {
                let names: Vec<(String, String)> = shipped.iter().map(name).collect();
                let known: Vec<&str> = names
                    .iter()
                    .flat_map(|(suite, name)| [&**suite, &**name])
                    .collect();
                let help = suggest::help(word, &known);
                return Err(ProjectError::Unknown {
                    word: word.clone(),
                    help,
                }
                .into());
            }
        }
        if words.is_empty() {
            files = shipped;
        }
        let mut seen = std::collections::BTreeSet::new();
        files.retain(|file| seen.insert(file.clone()));
        let scenarios: miette::Result<Vec<Scenario>> = files
            .iter()
            .map(|file| Scenario::load(&absolute(file)))
            .collect();
        let mut scenarios = scenarios?;
        tell_apart(&mut scenarios, &self.suites());
        Ok(scenarios)
    }
}

/// Gives a longer name to each scenario of the user's own that has another one's: by as many
/// more folders of its path as it takes, and, for one file in two spellings, a number.
fn tell_apart(scenarios: &mut [Scenario], suites: &Utf8Path) {
    let mut taken = std::collections::BTreeSet::new();
    let is_shipped = |scenario: &Scenario| scenario.file.starts_with(suites);
    taken.extend(
        scenarios
            .iter()
            .filter(|one| is_shipped(one))
            .map(|one| one.name.clone()),
    );
    for scenario in scenarios.iter_mut().filter(|one| !is_shipped(one)) {
        let file = camino::absolute_utf8(&scenario.file).unwrap_or_else(|_| scenario.file.clone());
        let above = file.parent().and_then(Utf8Path::parent);
        let folders = above.into_iter().flat_map(Utf8Path::components).rev();
        let mut folders = folders.map(|folder| folder.as_str().to_owned());
        let mut number = 1;
        while taken.contains(&scenario.name) {
            match folders.next().filter(|folder| folder != "/") {
                Some(folder) => scenario.name = format!("{folder}/{}", scenario.name),
                None => {
                    number += 1;
                    scenario.name = format!("{}-{number}", scenario.name);
                }
            }
        }
        taken.insert(scenario.name.clone());
    }
}

// A scenario is named after its folder, which `own.yaml` alone does not tell.
fn absolute(file: &Utf8Path) -> Utf8PathBuf {
    if file.parent().and_then(Utf8Path::file_name).is_some() {
        return file.to_owned();
    }
    match camino::absolute_utf8(file) {
        Ok(absolute) => absolute,
        Err(_) => file.to_owned(),
    }
}

fn entries(folder: &Utf8Path) -> Result<Vec<Utf8PathBuf>, ProjectError> {
    let error = |source| ProjectError::List {
        folder: folder.to_owned(),
        source,
    };
    let entries = folder.read_dir_utf8().map_err(error)?;
    entries
        .map(|entry| Ok(entry.map_err(error)?.into_path()))
        .collect()
}
