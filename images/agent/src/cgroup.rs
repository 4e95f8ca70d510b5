//! Control groups: the hierarchy that the plan asks for, and its cpusets.
//!
//! The unified hierarchy is `/sys/fs/cgroup`, version 1's cpuset hierarchy `/cpuset` (a
//! directory of the image). Only one of them is mounted, and no controller is enabled
//! unless the plan has a control group: the mere existence of a child cpuset changes what
//! the kernel does (`cpusets_enabled()`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use numalab_protocol::plan::{Cgroup, CgroupVersion, Plan};

use crate::cpuset::{self, CpusetError};
use crate::errno::{CallError, failed};
use crate::file::{self, FileError};
use crate::memcg_flush::{self, FlushError};
use crate::mounts;
use crate::topology;

const UNIFIED: &str = "/sys/fs/cgroup";
const VERSION_1: &str = "/cpuset";

/// Why the control groups cannot be as the plan asks.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CgroupError {
    #[error("the kernel has no cpusets of version {version}")]
    Mount {
        version: u8,
        #[source]
        source: CallError,
    },
    #[error("the unified hierarchy has no cpuset controller, only {controllers:?}")]
    NoCpuset { controllers: String },
    #[error(transparent)]
    Make(#[from] CallError),
    #[error(transparent)]
    Cpuset(#[from] CpusetError),
    #[error(transparent)]
    File(#[from] FileError),
}

/// The hierarchy in use.
#[derive(Debug, Clone)]
pub(crate) struct Hierarchy {
    version: CgroupVersion,
    /// Where it is mounted.
    root: String,
    /// Whether `memory.stat` exists.
    memory: bool,
    /// CPUs of the guest.
    cpus: usize,
    /// The lists that each control group was last given.
    asked: BTreeMap<String, Cgroup>,
}

impl Hierarchy {
    /// Mounts the plan's hierarchy and makes its control groups.
    pub(crate) fn make(plan: &Plan) -> Result<Self, CgroupError> {
        let version = plan.cgroup_version;
        let mut hierarchy = Hierarchy {
            version,
            root: match version {
                CgroupVersion::V1 => VERSION_1.into(),
                CgroupVersion::V2 => UNIFIED.into(),
            },
            memory: false,
            cpus: topology::cpus(&plan.topology).len(),
            asked: BTreeMap::new(),
        };
        if plan.cgroups.is_empty() {
            return Ok(hierarchy);
        }
        match version {
            CgroupVersion::V1 => mounts::one("cgroup", VERSION_1, Some(c"cpuset"))
                .map_err(|source| CgroupError::Mount { version: 1, source })?,
            CgroupVersion::V2 => {
                mounts::one("cgroup2", UNIFIED, None)
                    .map_err(|source| CgroupError::Mount { version: 2, source })?;
                let controllers = file::read(&format!("{UNIFIED}/cgroup.controllers"))?;
                let has = |name: &str| controllers.split_ascii_whitespace().any(|c| c == name);
                if !has("cpuset") {
                    return Err(CgroupError::NoCpuset {
                        controllers: controllers.trim_end().into(),
                    });
                }
                hierarchy.memory = has("memory");
                hierarchy.enable(plan, UNIFIED, "")?;
            }
        }
        for cgroup in &plan.cgroups {
            hierarchy.add(plan, cgroup)?;
        }
        Ok(hierarchy)
    }

    fn directory(&self, path: &str) -> String {
        format!("{}/{path}", self.root)
    }

    fn add(&mut self, plan: &Plan, cgroup: &Cgroup) -> Result<(), CgroupError> {
        let directory = self.directory(&cgroup.path);
        let what = format!("the control group {directory} cannot be made");
        fs::create_dir(&directory).map_err(failed(what))?;
        match self.version {
            CgroupVersion::V1 => self.inherit(&directory, cgroup)?,
            CgroupVersion::V2 if parents(plan).contains(cgroup.path.as_str()) => {
                self.enable(plan, &directory, &cgroup.path)?;
            }
            CgroupVersion::V2 => {}
        }
        self.set(cgroup)
    }

    /// Enables the controllers below a directory. The memory controller is left out where the
    /// directory itself has a task: the kernel allows a group either processes or domain
    /// controllers for its children (`cgroup_migrate_vet_dst`).
    fn enable(&self, plan: &Plan, directory: &str, path: &str) -> Result<(), FileError> {
        let file = format!("{directory}/cgroup.subtree_control");
        file::write(&file, "+cpuset")?;
        let inhabited = |task: &numalab_protocol::plan::Task| task.cgroup.as_deref() == Some(path);
        if self.memory && !plan.tasks.values().any(inhabited) {
            file::write(&file, "+memory")?;
        }
        Ok(())
    }

    /// Copies the parent's lists into a new cpuset of version 1, which is empty.
    fn inherit(&self, directory: &str, cgroup: &Cgroup) -> Result<(), FileError> {
        let parent = directory.rsplit_once('/').map_or("", |(parent, _)| parent);
        for (name, asked) in [("cpuset.mems", &cgroup.mems), ("cpuset.cpus", &cgroup.cpus)] {
            if asked.is_none() {
                let value = file::read(&format!("{parent}/{name}"))?;
                file::write(&format!("{directory}/{name}"), value.trim_end())?;
            }
        }
        Ok(())
    }

    /// Writes a control group's cpuset, and checks what is in effect in it and in the groups
    /// below it: a run with other CPUs or nodes would be a run of another plan.
    pub(crate) fn set(&mut self, cgroup: &Cgroup) -> Result<(), CgroupError> {
        let directory = self.directory(&cgroup.path);
        for (name, asked) in [("cpuset.mems", &cgroup.mems), ("cpuset.cpus", &cgroup.cpus)] {
            if let Some(value) = asked {
                // An empty write does nothing; a line feed alone is an empty list.
                file::write(&format!("{directory}/{name}"), &format!("{value}\n"))?;
            }
        }
        let known = self.asked.entry(cgroup.path.clone());
        let known = known.or_insert_with(|| Cgroup {
            path: cgroup.path.clone(),
            mems: None,
            cpus: None,
        });
        known.mems = cgroup.mems.clone().or(known.mems.take());
        known.cpus = cgroup.cpus.clone().or(known.cpus.take());
        for asked in self.asked.values() {
            if is_within(&asked.path, &cgroup.path) {
                cpuset::check(self.version, &self.directory(&asked.path), asked)?;
            }
        }
        Ok(())
    }

    /// The file that moves a process into a control group.
    pub(crate) fn procs(&self, path: &str) -> String {
        format!("{}/cgroup.procs", self.directory(path))
    }

    /// Makes every `memory.stat` complete; no task may run meanwhile. Returns whether it is:
    /// one that may lag behind is not a result.
    pub(crate) fn flush(&self) -> Result<bool, FlushError> {
        if !self.memory {
            return Ok(false);
        }
        memcg_flush::flush(&format!("{UNIFIED}/memory.stat"), self.cpus)
    }

    /// `memory.stat` of a control group, if there is one.
    pub(crate) fn memory_stat(&self, path: &str) -> Result<Option<String>, FileError> {
        file::read_optional(&format!("{}/memory.stat", self.directory(path)))
    }
}

/// Whether a control group is another one, or below it.
fn is_within(path: &str, above: &str) -> bool {
    let rest = path.strip_prefix(above);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The control groups that have children.
fn parents(plan: &Plan) -> BTreeSet<&str> {
    let parents = plan
        .cgroups
        .iter()
        .filter_map(|cgroup| Some(cgroup.path.rsplit_once('/')?.0));
    parents.collect()
}

#[cfg(test)]
#[path = "cgroup/tests.rs"]
mod tests;
