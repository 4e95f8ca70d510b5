//! The topology: brings its CPUs online, reads it and checks it against the plan.

use std::collections::BTreeMap;
use std::path::Path;

use numalab_protocol::list;
use numalab_protocol::plan::Topology;
use numalab_protocol::procfs;
use numalab_protocol::record::Values;

use crate::file::{self, FileError};

const NODES: &str = "/sys/devices/system/node";
const CPUS: &str = "/sys/devices/system/cpu";

/// How much less memory a node may show than the plan asks for, in KiB: `MemTotal` excludes
/// the kernel's own image, page structures, hash tables and reserved areas. The lean kernel
/// uses 30 to 40 MiB of node 0 and 1.6 % of each node; debugging kernels use more, KASAN an
/// eighth of all memory. The margin still detects a node that is smaller by a quarter.
///
/// A kernel with kmemleak uses up to [`CHECKS_KIB`] more: measured with KASAN, lockdep and
/// kmemleak together, 122 MiB of node 0 of 2 nodes of 256 MiB.
fn margin_kib(asked_kib: u64, checks_itself: bool) -> u64 {
    let checks = if checks_itself { CHECKS_KIB } else { 0 };
    64 * 1024 + asked_kib / 8 + checks
}

/// The most that the tables of kmemleak, lockdep and KASAN take, in KiB.
const CHECKS_KIB: u64 = 64 * 1024;

/// What is wrong with the topology.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TopologyError {
    #[error("the guest has nodes {seen}, but the plan asks for {asked}")]
    Nodes { seen: String, asked: String },
    #[error("node {node} has CPUs \"{seen}\", but the plan asks for \"{asked}\"")]
    Cpus {
        node: u32,
        seen: String,
        asked: String,
    },
    #[error(
        "node {node} has {seen} KiB of memory, but the plan asks for {asked} KiB, of which the \
         kernel may use {margin} KiB for itself"
    )]
    Memory {
        node: u32,
        seen: u64,
        asked: u64,
        margin: u64,
    },
    #[error("node {node} has distances {seen:?}, but the plan asks for {asked:?}")]
    Distances {
        node: u32,
        seen: Vec<u8>,
        asked: Vec<u8>,
    },
    #[error("CPUs {seen} are online, but the plan asks for {asked}")]
    Online { seen: String, asked: String },
    #[error(transparent)]
    File(#[from] FileError),
}

/// One node as the kernel shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeenNode {
    pub(crate) cpus: Vec<u32>,
    pub(crate) memory_kib: u64,
    /// To the nodes that are online, in their order.
    pub(crate) distances: Vec<u8>,
}

/// What the kernel shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) nodes: BTreeMap<u32, SeenNode>,
    pub(crate) cpus: Vec<u32>,
}

/// All CPUs of a topology, ascending.
pub(crate) fn cpus(topology: &Topology) -> Vec<u32> {
    let mut cpus: Vec<u32> = topology
        .nodes
        .iter()
        .flat_map(|node| node.cpus.iter().copied())
        .collect();
    cpus.sort_unstable();
    cpus
}

/// Brings all CPUs of a topology online.
pub(crate) fn bring_online(topology: &Topology) -> Result<(), FileError> {
    for cpu in cpus(topology) {
        let path = format!("{CPUS}/cpu{cpu}/online");
        // CPU 0 has no such file where it cannot be taken offline.
        if cpu == 0 && !Path::new(&path).exists() {
            continue;
        }
        if file::read(&path)?.trim_end() != "1" {
            file::write(&path, "1")?;
        }
    }
    Ok(())
}

/// Reads what the kernel shows.
pub(crate) fn read() -> Result<Seen, FileError> {
    let mut nodes = BTreeMap::new();
    for node in file::read_list(&format!("{NODES}/online"))? {
        let cpus = file::read_list(&format!("{NODES}/node{node}/cpulist"))?;
        let path = format!("{NODES}/node{node}/meminfo");
        let text = file::read(&path)?;
        let memory_kib = procfs::node_memory_kib(&text)
            .ok_or_else(|| FileError::form(&path, &text, "a node's meminfo"))?;
        let path = format!("{NODES}/node{node}/distance");
        let text = file::read(&path)?;
        let distances = procfs::node_distances(&text)
            .ok_or_else(|| FileError::form(&path, &text, "a list of distances"))?;
        nodes.insert(
            node,
            SeenNode {
                cpus,
                memory_kib,
                distances,
            },
        );
    }
    let cpus = file::read_list(&format!("{CPUS}/online"))?;
    Ok(Seen { nodes, cpus })
}

/// Checks what the kernel shows against the plan.
///
/// The kernel does not bring a node online that has neither CPUs nor memory, so such a node
/// is not expected. `checks_itself`: the kernel uses memory for its own checks.
pub(crate) fn check(
    topology: &Topology,
    seen: &Seen,
    checks_itself: bool,
) -> Result<(), TopologyError> {
    let asked: BTreeMap<u32, _> = (0..)
        .zip(&topology.nodes)
        .filter(|(_, node)| !node.cpus.is_empty() || node.memory_kib > 0)
        .collect();
    let seen_nodes: Vec<u32> = seen.nodes.keys().copied().collect();
    let asked_nodes: Vec<u32> = asked.keys().copied().collect();
    if seen_nodes != asked_nodes {
        return Err(TopologyError::Nodes {
            seen: list::format(&seen_nodes),
            asked: list::format(&asked_nodes),
        });
    }
    let all = cpus(topology);
    if seen.cpus != all {
        return Err(TopologyError::Online {
            seen: list::format(&seen.cpus),
            asked: list::format(&all),
        });
    }
    for ((&number, node), shown) in asked.iter().zip(seen.nodes.values()) {
        let mut cpus = node.cpus.clone();
        cpus.sort_unstable();
        if shown.cpus != cpus {
            return Err(TopologyError::Cpus {
                node: number,
                seen: list::format(&shown.cpus),
                asked: list::format(&cpus),
            });
        }
        check_memory(number, node.memory_kib, shown.memory_kib, checks_itself)?;
        let distances: Vec<u8> = asked_nodes
            .iter()
            .filter_map(|other| node.distances.get(*other as usize).copied())
            .collect();
        if shown.distances != distances {
            return Err(TopologyError::Distances {
                node: number,
                seen: shown.distances.clone(),
                asked: distances,
            });
        }
    }
    Ok(())
}

fn check_memory(
    node: u32,
    asked: u64,
    seen: u64,
    checks_itself: bool,
) -> Result<(), TopologyError> {
    let margin = margin_kib(asked, checks_itself);
    let memoryless = asked == 0 && seen == 0;
    let enough = seen > 0 && seen <= asked && asked - seen <= margin;
    if memoryless || enough {
        return Ok(());
    }
    Err(TopologyError::Memory {
        node,
        seen,
        asked,
        margin,
    })
}

/// The facts of the start record: the topology, and tunables before they are written.
pub(crate) fn facts(seen: &Seen) -> Result<Values, FileError> {
    let mut facts = topology_facts(seen);
    match file::read_number("/proc/sys/kernel/numa_balancing") {
        Ok(value) => _ = facts.insert("numa_balancing".into(), value),
        Err(error) if error.is_absent() => {}
        Err(error) => return Err(error),
    }
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    if let Some(text) = file::read_optional(path)? {
        let value = procfs::thp_enabled(&text)
            .ok_or_else(|| FileError::form(path, &text, "a choice of always, madvise, never"))?;
        facts.insert("thp".into(), value);
    }
    Ok(facts)
}

fn topology_facts(seen: &Seen) -> Values {
    let count = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
    let mut facts = Values::new();
    facts.insert("nodes".into(), count(seen.nodes.len()));
    facts.insert("cpus".into(), count(seen.cpus.len()));
    for (number, node) in &seen.nodes {
        facts.insert(format!("node{number}.cpus"), count(node.cpus.len()));
        let memory = i64::try_from(node.memory_kib).unwrap_or(i64::MAX);
        facts.insert(format!("node{number}.memory-kib"), memory);
        for (other, distance) in seen.nodes.keys().zip(&node.distances) {
            let name = format!("node{number}.distance.{other}");
            facts.insert(name, i64::from(*distance));
        }
    }
    facts
}

#[cfg(test)]
#[path = "topology/tests.rs"]
mod tests;
