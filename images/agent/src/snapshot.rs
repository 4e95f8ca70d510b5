//! Reads counters at one edge of a measurement, while all tasks sleep.

use std::collections::BTreeMap;

use numalab_protocol::procfs;
use numalab_protocol::record::{Edge, Record, TaskState, Values};

use crate::cgroup::Hierarchy;
use crate::child::Child;
use crate::clock;
use crate::file::{self, FileError};
use crate::memcg_flush::FlushError;

/// Why counters could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SnapshotError {
    #[error(transparent)]
    Flush(#[from] FlushError),
    #[error(transparent)]
    File(#[from] FileError),
}

/// Reads the counters of the kernel and of all live tasks.
///
/// Flushing `memory.stat` causes page faults of the agent. They stay out of the measurement:
/// the kernel's counters are read last at its beginning, and first at its end.
pub(crate) fn take(
    measure: &str,
    edge: Edge,
    hierarchy: &Hierarchy,
    children: &BTreeMap<String, Child>,
) -> Result<Record, SnapshotError> {
    let ((uptime_ns, vmstat), tasks) = match edge {
        Edge::Begin => {
            let tasks = tasks(hierarchy, children)?;
            (kernel()?, tasks)
        }
        Edge::End => (kernel()?, tasks(hierarchy, children)?),
    };
    Ok(Record::Snapshot {
        measure: measure.into(),
        edge,
        uptime_ns,
        vmstat,
        tasks,
    })
}

/// The counters of the kernel, and when they were read.
///
/// `stat_refresh` first folds the per-CPU counters into the global ones (`vmstat_refresh`).
/// Every kernel with NUMA balancing has it (only `CONFIG_PROC_FS` is needed).
fn kernel() -> Result<(u64, Values), FileError> {
    let uptime_ns = clock::uptime_ns();
    file::write("/proc/sys/vm/stat_refresh", "1")?;
    let path = "/proc/vmstat";
    let text = file::read(path)?;
    let vmstat = procfs::name_value_lines(&text);
    if vmstat.is_empty() {
        return Err(FileError::form(path, &text, "a list of counters"));
    }
    Ok((uptime_ns, vmstat))
}

fn tasks(
    hierarchy: &Hierarchy,
    children: &BTreeMap<String, Child>,
) -> Result<BTreeMap<String, TaskState>, SnapshotError> {
    // Without a flush, an assertion on memory.stat has no value, rather than one that lags.
    let flushed = children.values().any(|child| child.cgroup().is_some()) && hierarchy.flush()?;
    let mut tasks = BTreeMap::new();
    for (name, child) in children {
        tasks.insert(name.clone(), task(flushed.then_some(hierarchy), child)?);
    }
    Ok(tasks)
}

fn task(flushed: Option<&Hierarchy>, child: &Child) -> Result<TaskState, FileError> {
    let process = format!("/proc/{}", child.pid());
    let sched = file::read_optional(&format!("{process}/sched"))?;
    let memory_stat = match (flushed, child.cgroup()) {
        (Some(hierarchy), Some(path)) => hierarchy.memory_stat(path)?,
        _ => None,
    };
    let path = format!("{process}/stat");
    let text = file::read(&path)?;
    let stat = procfs::task_stat(&text);
    if stat.is_empty() {
        return Err(FileError::form(&path, &text, "a process's stat"));
    }
    Ok(TaskState {
        sched: sched.map_or_else(Values::new, |text| procfs::task_sched(&text)),
        memory_stat: memory_stat.map_or_else(Values::new, |text| procfs::name_value_lines(&text)),
        stat,
    })
}
