//! Control groups: the hierarchy that the plan asks for, and the cpusets in it.
//!
//! The unified hierarchy is `/sys/fs/cgroup`, version 1's cpuset hierarchy `/cpuset` (a
//! directory of the image). Only one of them is mounted, and no controller is enabled
//! unless the plan has a control group: merely a child cpuset changes what the kernel does
//! (`cpusets_enabled()` counts them).

use std::collections::BTreeSet;
use std::fs;
use std::io;

use numalab_protocol::plan::{Cgroup, CgroupVersion, Plan};

use crate::errno;
use crate::file::{self, FileError};
use crate::mounts::{self, MountError};

const UNIFIED: &str = "/sys/fs/cgroup";
const VERSION_1: &str = "/cpuset";

/// Why the control groups cannot be as the plan asks.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CgroupError {
    #[error("the kernel has no cpusets of version {version}")]
    Mount {
        version: u8,
        #[source]
        source: MountError,
    },
    #[error("the unified hierarchy has no cpuset controller, only {controllers:?}")]
    NoCpuset { controllers: String },
    #[error("the control group {path} cannot be made: {}", errno::text(.cause))]
    Make { path: String, cause: io::Error },
    #[error(transparent)]
    File(#[from] FileError),
}

/// The hierarchy in use.
#[derive(Debug, Clone)]
pub(crate) struct Hierarchy {
    version: CgroupVersion,
    /// Whether `memory.stat` exists.
    memory: bool,
}

impl Hierarchy {
    /// Mounts the plan's hierarchy and makes its control groups.
    pub(crate) fn make(plan: &Plan) -> Result<Self, CgroupError> {
        let version = plan.cgroup_version;
        let mut hierarchy = Hierarchy {
            version,
            memory: false,
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
        let root = match self.version {
            CgroupVersion::V1 => VERSION_1,
            CgroupVersion::V2 => UNIFIED,
        };
        format!("{root}/{path}")
    }

    fn add(&self, plan: &Plan, cgroup: &Cgroup) -> Result<(), CgroupError> {
        let directory = self.directory(&cgroup.path);
        fs::create_dir(&directory).map_err(|cause| CgroupError::Make {
            path: directory.clone(),
            cause,
        })?;
        match self.version {
            CgroupVersion::V1 => self.inherit(&directory, cgroup)?,
            CgroupVersion::V2 if parents(plan).contains(cgroup.path.as_str()) => {
                self.enable(plan, &directory, &cgroup.path)?;
            }
            CgroupVersion::V2 => {}
        }
        self.set(cgroup)
    }

    /// Enables the controllers below a directory. The memory controller is left out where a
    /// task sits in the directory itself: the kernel allows a group either processes or
    /// domain controllers for its children (`cgroup_migrate_vet_dst`).
    fn enable(&self, plan: &Plan, directory: &str, path: &str) -> Result<(), FileError> {
        let file = format!("{directory}/cgroup.subtree_control");
        file::write(&file, "+cpuset")?;
        let inhabited = |task: &numalab_protocol::plan::Task| task.cgroup.as_deref() == Some(path);
        if self.memory && !plan.tasks.values().any(inhabited) {
            file::write(&file, "+memory")?;
        }
        Ok(())
    }

    /// Gives a new cpuset of version 1, which is empty, what its parent has.
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

    /// Writes a control group's cpuset.
    pub(crate) fn set(&self, cgroup: &Cgroup) -> Result<(), CgroupError> {
        let directory = self.directory(&cgroup.path);
        for (name, asked) in [("cpuset.mems", &cgroup.mems), ("cpuset.cpus", &cgroup.cpus)] {
            if let Some(value) = asked {
                // An empty write is none at all; a line feed alone is an empty list.
                file::write(&format!("{directory}/{name}"), &format!("{value}\n"))?;
            }
        }
        Ok(())
    }

    /// Where a process is put into a control group.
    pub(crate) fn procs(&self, path: &str) -> String {
        format!("{}/cgroup.procs", self.directory(path))
    }

    /// `memory.stat` of a control group, if there is one, with nothing held back.
    ///
    /// Reading `memory.stat` flushes what the CPUs have counted only above a threshold
    /// (`mem_cgroup_flush_stats`); reading `cpu.stat` flushes all of a group's counters
    /// (`cgroup_base_stat_cputime_show`), until Linux 6.15, since when each controller is
    /// flushed by itself.
    pub(crate) fn memory_stat(&self, path: &str) -> Result<Option<String>, FileError> {
        if !self.memory {
            return Ok(None);
        }
        let directory = self.directory(path);
        file::read_optional(&format!("{directory}/cpu.stat"))?;
        file::read_optional(&format!("{directory}/memory.stat"))
    }
}

/// The control groups that have children.
fn parents(plan: &Plan) -> BTreeSet<&str> {
    let parents = plan
        .cgroups
        .iter()
        .filter_map(|cgroup| Some(cgroup.path.rsplit_once('/')?.0));
    parents.collect()
}
