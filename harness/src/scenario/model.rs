//! A scenario, as the rest of numalab knows it.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;
use numalab_kernels::yaml::Place;
use numalab_protocol::plan::{Cgroup, CgroupVersion, Plan, Setting, Step, Task};

use super::assertion::Assertion;
use super::since::{DoesNotApply, Since};
use super::spelling;
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
    pub(super) work: Work,
}

/// What the guest does with every seed.
#[derive(Debug, Clone)]
pub(super) struct Work {
    pub(super) cgroup_version: CgroupVersion,
    pub(super) settings: Vec<Setting>,
    pub(super) cgroups: Vec<Cgroup>,
    pub(super) tasks: BTreeMap<String, Task>,
    pub(super) steps: Vec<Step>,
}

impl Scenario {
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
