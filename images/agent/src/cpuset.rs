//! Checks that a cpuset is in effect as the plan asks: the kernel may accept one list and
//! use another.
//!
//! In the unified hierarchy a group whose own list has nothing in common with its parent's
//! silently uses the parent's (`update_nodemasks_hier` and `update_cpumasks_hier` of
//! `kernel/cgroup/cpuset.c`).

use numalab_protocol::list;
use numalab_protocol::plan::{Cgroup, CgroupVersion};

use crate::file::{self, FileError};

/// Why a cpuset is not in effect.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CpusetError {
    #[error(
        "{path} is \"{effective}\", but the plan asks for \"{asked}\": a control group can \
         use only what its parent has, nodes with memory, and CPUs that are online"
    )]
    Effective {
        path: String,
        asked: String,
        effective: String,
    },
    #[error(transparent)]
    File(#[from] FileError),
}

/// The files of one list of a cpuset: as written, and as in effect for each version.
struct Names {
    own: &'static str,
    unified: &'static str,
    version_1: &'static str,
}

const MEMS: Names = Names {
    own: "cpuset.mems",
    unified: "cpuset.mems.effective",
    version_1: "cpuset.effective_mems",
};

const CPUS: Names = Names {
    own: "cpuset.cpus",
    unified: "cpuset.cpus.effective",
    version_1: "cpuset.effective_cpus",
};

/// Checks the lists in effect in a control group's directory.
pub(crate) fn check(
    version: CgroupVersion,
    directory: &str,
    asked: &Cgroup,
) -> Result<(), CpusetError> {
    for (names, asked) in [(MEMS, &asked.mems), (CPUS, &asked.cpus)] {
        let Some(asked) = asked else {
            continue;
        };
        let (path, effective) = effective(version, directory, &names)?;
        let wanted = match version {
            // In the unified hierarchy an empty list means the parent's.
            CgroupVersion::V2 if asked.trim().is_empty() => {
                let parent = directory.rsplit_once('/').map_or("", |(parent, _)| parent);
                self::effective(version, parent, &names)?.1
            }
            _ => list::parse(asked).map_err(|_| FileError::form(&path, asked, "a list"))?,
        };
        if effective != wanted {
            return Err(CpusetError::Effective {
                path,
                asked: asked.clone(),
                effective: list::format(&effective),
            });
        }
    }
    Ok(())
}

/// The list in effect, and its file. Before Linux 3.17, version 1 has one list for both.
fn effective(
    version: CgroupVersion,
    directory: &str,
    names: &Names,
) -> Result<(String, Vec<u32>), FileError> {
    let (name, fallback) = match version {
        CgroupVersion::V1 => (names.version_1, Some(names.own)),
        CgroupVersion::V2 => (names.unified, None),
    };
    let path = format!("{directory}/{name}");
    match (file::read_list(&path), fallback) {
        (Err(error), Some(own)) if error.is_absent() => {
            let path = format!("{directory}/{own}");
            let numbers = file::read_list(&path)?;
            Ok((path, numbers))
        }
        (numbers, _) => Ok((path, numbers?)),
    }
}

#[cfg(test)]
#[path = "cpuset/tests.rs"]
mod tests;
