//! Scenarios: each states one behavior of the kernel as what a correct kernel does.
//!
//! A YAML file is parsed here, once, into a complete and consistent [`Scenario`]. A scenario
//! that every guest would satisfy (`vacuity`), or none (`feasible`), is refused.

mod assertion;
mod assertions;
mod error;
mod extent;
mod facts;
mod feasible;
mod grammar;
mod home;
mod name;
mod problems;
mod quantity;
mod raw;
mod reference;
mod regions;
mod resolve;
mod since;
mod spelling;
mod steps;
mod tasks;
mod tunables;
mod vacuity;
mod yaml;

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use numalab_protocol::plan::{Cgroup, CgroupVersion, Plan, Setting, Step, Task};

pub use assertion::{Assertion, Bound, Observable, Unit};
pub use error::{Problem, ReadError, ScenarioError};
pub use numalab_kernels::yaml::Place;
pub use reference::reference;
pub use since::{DoesNotApply, Release, Since};
pub(crate) use spelling::is_known_counter;

use crate::guest::topology::Machine;

/// One behavior of the kernel.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// `suite/scenario`, from the file's path.
    pub name: String,
    /// The file.
    pub file: Utf8PathBuf,
    /// The file's text.
    pub text: String,
    /// What a correct kernel does, in one line.
    pub summary: String,
    /// Background.
    pub why: Option<String>,
    /// The kernel functions or source files that it is about.
    pub subject: Vec<String>,
    /// The commit that made the kernel behave this way.
    pub fixed_by: Option<String>,
    /// The release that introduced what it is about.
    pub since: Option<Since>,
    /// The virtual machine.
    pub machine: Machine,
    /// Exact mode's `-icount shift=`, if the scenario names one.
    pub shift: Option<u8>,
    /// Conditions that a run must satisfy to be meaningful.
    pub guards: Vec<Assertion>,
    /// What the measurements of a correct kernel satisfy.
    pub expectations: Vec<Assertion>,
    work: Work,
}

/// What the guest does with every seed.
#[derive(Debug, Clone)]
struct Work {
    cgroup_version: CgroupVersion,
    settings: Vec<Setting>,
    cgroups: Vec<Cgroup>,
    tasks: BTreeMap<String, Task>,
    steps: Vec<Step>,
}

impl Scenario {
    /// Loads a scenario file, whose name consists of the folder's and its own.
    ///
    /// # Errors
    /// The file cannot be read, or is not a valid scenario.
    pub fn load(file: &Utf8Path) -> miette::Result<Scenario> {
        let text =
            numalab_kernels::files::read_text(file.as_std_path()).map_err(|source| ReadError {
                file: file.to_string(),
                source,
            })?;
        Ok(Scenario::parse(file, &text)?)
    }

    /// Parses the text of a scenario; `file` gives its name and appears in messages.
    ///
    /// # Errors
    /// The text is not a valid scenario; all mistakes are reported at once.
    pub fn parse(file: &Utf8Path, text: &str) -> Result<Scenario, ScenarioError> {
        // Some editors begin a file with a byte order mark.
        resolve::resolve(file, text.strip_prefix('\u{feff}').unwrap_or(text))
    }

    /// The plan of a run with a seed, on the scenario's machine or another.
    pub fn plan(&self, machine: &Machine, seed: u64) -> Plan {
        let Work {
            cgroup_version,
            settings,
            cgroups,
            tasks,
            steps,
        } = self.work.clone();
        Plan {
            watch: numalab_protocol::plan::Watch::default(),
            contract: numalab_protocol::CONTRACT,
            seed,
            topology: machine.topology(),
            cgroup_version,
            settings,
            cgroups,
            tasks,
            steps,
        }
    }

    /// Why the scenario does not apply to a kernel of this release; `None` if it does.
    pub fn does_not_apply(&self, release: &str) -> Option<DoesNotApply> {
        let because = self.since.as_ref()?.excludes(release)?;
        Some(DoesNotApply {
            scenario: self.name.clone(),
            release: release.to_owned(),
            because,
        })
    }

    /// Warnings about names of counters that are probably misspelt. A kernel may have such
    /// counters, so the scenario can be run.
    pub fn doubts(&self) -> Vec<String> {
        let index = numalab_kernels::yaml::Index::new(&self.text);
        let assertions = [("guards", &self.guards), ("expect", &self.expectations)];
        let assertions = assertions.into_iter().flat_map(|(list, assertions)| {
            let assertions = assertions.iter().enumerate();
            assertions.map(move |(place, assertion)| (format!("{list}[{place}]"), assertion))
        });
        let doubts = assertions.filter_map(|(path, assertion)| {
            let (key, name, meant) = spelling::doubt(assertion)?;
            let Place { line, column, .. } = index.find(&format!("{path}.{key}"));
            Some(format!(
                "{}:{line}:{column}: numalab knows no counter {name}: did you mean {meant}?",
                self.file
            ))
        });
        doubts.collect()
    }

    /// Whether the scenario is about what the kernel does, and not only about facts of the
    /// machine that it runs on.
    pub fn is_about_behaviour(&self) -> bool {
        self.expectations
            .iter()
            .any(|assertion| assertion.observable.idle().is_some())
    }
}

/// The JSON schema of a scenario file, for editors.
pub fn schema() -> serde_json::Value {
    raw::schema()
}

#[cfg(test)]
mod tests;
