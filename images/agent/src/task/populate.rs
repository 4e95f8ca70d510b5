//! Maps a region, and populates it if the plan asks for it.

use numalab_protocol::plan::{self, Access, PageKind, Policy, Populate};
use numalab_protocol::procfs;
use rustix::thread::sched_getcpu;

use super::layout::Layout;
use super::region::Region;
use super::{TaskError, policy, touch};
use crate::file;
use crate::plan_check::HUGE_PAGE_SIZE;

/// Maps and populates a region; `task_policy` is the memory policy to restore afterwards.
pub(crate) fn map(
    asked: &plan::Region,
    layout: &mut Layout,
    task_policy: Option<&Policy>,
) -> Result<Region, TaskError> {
    if asked.pages == PageKind::Hugetlb {
        reserve(asked)?;
    }
    if asked.populate == Populate::No {
        return Region::map(asked, layout, asked.access);
    }
    let mut region = Region::map(asked, layout, Access::ReadWrite)?;
    let huge_before = huge_kib(asked)?;
    if let Populate::Node(node) = asked.populate {
        policy::bind(node)?;
        touch::write_once(&region);
        policy::restore(task_policy)?;
    } else {
        touch::write_once(&region);
    }
    check_huge(asked, huge_before)?;
    if asked.access != Access::ReadWrite {
        region.protect(asked.access)?;
    }
    Ok(region)
}

/// The task's memory in transparent huge pages; 0 if the region does not ask for them.
fn huge_kib(asked: &plan::Region) -> Result<u64, TaskError> {
    if asked.pages != PageKind::TransparentHuge {
        return Ok(0);
    }
    let path = "/proc/self/smaps_rollup";
    let text = file::read(path)?;
    procfs::smaps_huge_kib(&text)
        .ok_or_else(|| file::FileError::form(path, &text, "a process's smaps_rollup").into())
}

/// Checks that a populated region consists of transparent huge pages if the plan asks for
/// them: the kernel silently falls back to base pages, which would be another experiment.
fn check_huge(asked: &plan::Region, before: u64) -> Result<(), TaskError> {
    if asked.pages != PageKind::TransparentHuge {
        return Ok(());
    }
    let wanted = asked.size / 1024 * u64::from(asked.count);
    match huge_kib(asked)?.saturating_sub(before) {
        got if got == wanted => Ok(()),
        got => Err(TaskError::NotHuge { got, wanted }),
    }
}

/// Adds the huge pages that a region needs to the kernel's pool, on the node that the region
/// is populated on, or else on the node that the task runs on.
fn reserve(asked: &plan::Region) -> Result<(), TaskError> {
    let node = match asked.populate {
        Populate::Node(node) => node,
        Populate::No | Populate::Yes => own_node()?,
    };
    let needed = (asked.size / HUGE_PAGE_SIZE).saturating_mul(u64::from(asked.count));
    let directory = format!("/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB");
    let number = |name: &str| file::read_number::<u64>(&format!("{directory}/{name}"));
    let total = number("nr_hugepages")?.saturating_add(needed);
    file::write(&format!("{directory}/nr_hugepages"), &total.to_string())?;
    let free = number("free_hugepages")?;
    if free < needed {
        return Err(TaskError::HugePages { node, free, needed });
    }
    Ok(())
}

/// The node of the CPU that the task runs on.
fn own_node() -> Result<u32, TaskError> {
    let path = format!("/sys/devices/system/cpu/cpu{}", sched_getcpu());
    let entries = std::fs::read_dir(&path).map_err(|cause| file::FileError::Read {
        path: path.clone(),
        cause,
    })?;
    let node = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .find_map(|name| name.strip_prefix("node")?.parse().ok());
    Ok(node.ok_or_else(|| file::FileError::form(&path, "", "a CPU of a node"))?)
}
