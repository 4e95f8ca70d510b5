//! Whether a cpuset holds what the plan asks: the kernel takes a list and may use another
//! one.
//!
//! What counts are the effective lists. In the unified hierarchy a group whose own list has
//! nothing in common with its parent's silently uses the parent's (`update_nodemasks_hier`
//! and `update_cpumasks_hier` of `kernel/cgroup/cpuset.c`). Writes nothing.

use numalab_protocol::list;
use numalab_protocol::plan::{Cgroup, CgroupVersion};

use crate::file::{self, FileError};

/// Why a cpuset is not as the plan asks.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CpusetError {
    #[error(
        "{path} shows \"{effective}\", and \"{asked}\" was asked for: a control group has no \
         more than its parent, and only nodes with memory and CPUs that are online"
    )]
    Effective {
        path: String,
        asked: String,
        effective: String,
    },
    #[error(transparent)]
    File(#[from] FileError),
}

/// One of the two lists of a cpuset: its file, and the one with what is in effect.
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

/// Compares what is in effect in a control group's directory with what it was asked to be.
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
            // An empty list of the unified hierarchy stands for the parent's.
            CgroupVersion::V2 if asked.trim().is_empty() => {
                let parent = directory.rsplit_once('/').map_or("", |(parent, _)| parent);
                self::effective(version, parent, &names)?.1
            }
            _ => parse(&path, asked)?,
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

/// What is in effect, and the file that shows it. A kernel without such a file of version 1
/// (before 3.17) has one list for both.
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
    let (path, text) = match (file::read(&path), fallback) {
        (Err(error), Some(own)) if error.is_absent() => {
            let path = format!("{directory}/{own}");
            let text = file::read(&path)?;
            (path, text)
        }
        (text, _) => (path, text?),
    };
    let numbers = parse(&path, &text)?;
    Ok((path, numbers))
}

fn parse(path: &str, text: &str) -> Result<Vec<u32>, FileError> {
    list::parse(text).map_err(|_| FileError::form(path, text, "a list of numbers"))
}

#[cfg(test)]
#[path = "cpuset/tests.rs"]
mod tests;
