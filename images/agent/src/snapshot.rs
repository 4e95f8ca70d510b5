//! Counters, read at one edge of a measurement, while all tasks sleep.

use std::collections::BTreeMap;

use numalab_protocol::procfs;
use numalab_protocol::record::{Edge, Record, TaskState, Values};

use crate::cgroup::Hierarchy;
use crate::child::Child;
use crate::clock;
use crate::file::{self, FileError};
use crate::settled::SettleError;

/// Why counters could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SnapshotError {
    #[error(transparent)]
    Settle(#[from] SettleError),
    #[error(transparent)]
    File(#[from] FileError),
}

/// Reads the counters of the kernel and of all tasks that live.
///
/// Settling `memory.stat` costs page faults of the agent's own, which are kept out of what is
/// measured: at its begin the kernel's counters are read last, at its end first.
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
/// First each CPU's share of the node counters is folded into the whole
/// (`vmstat_refresh`); a kernel without `stat_refresh` (`CONFIG_PROC_FS` alone decides) does
/// not exist among those that have NUMA balancing, and a refusal says so.
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
    // Without settling, a claim on memory.stat has no value, rather than one that lags.
    let settled = children.values().any(|child| child.cgroup().is_some()) && hierarchy.settle()?;
    let mut tasks = BTreeMap::new();
    for (name, child) in children {
        tasks.insert(name.clone(), task(settled.then_some(hierarchy), child)?);
    }
    Ok(tasks)
}

fn task(settled: Option<&Hierarchy>, child: &Child) -> Result<TaskState, FileError> {
    let process = format!("/proc/{}", child.pid());
    let sched = file::read_optional(&format!("{process}/sched"))?;
    let memory_stat = match (settled, child.cgroup()) {
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
