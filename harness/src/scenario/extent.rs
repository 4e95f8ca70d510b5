//! How far a machine reaches: numbers of nodes and CPUs outside of it are mistakes, found
//! before anything is built or booted.

use numalab_protocol::list;

use super::problems::Problems;
use crate::guest::topology::Machine;

/// The nodes and CPUs that there are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    nodes: u32,
    cpus: u32,
}

impl Extent {
    /// That of a machine. One that is itself a mistake reaches everywhere, so that only its
    /// own mistake is told.
    pub(super) fn of(machine: Option<&Machine>) -> Extent {
        let nodes = machine.map_or(u32::MAX, |machine| {
            u32::try_from(machine.nodes().len()).unwrap_or(u32::MAX)
        });
        Extent {
            nodes,
            cpus: machine.map_or(u32::MAX, Machine::cpus),
        }
    }

    /// Reads a list of nodes; at least one.
    pub(super) fn nodes(self, path: &str, text: &str, problems: &mut Problems) -> Option<Vec<u32>> {
        numbers(path, text, "node", self.nodes, problems)
    }

    /// Reads a list of CPUs; at least one.
    pub(super) fn cpus(self, path: &str, text: &str, problems: &mut Problems) -> Option<Vec<u32>> {
        numbers(path, text, "CPU", self.cpus, problems)
    }

    /// Checks one node.
    pub(super) fn node(self, path: &str, node: u32, problems: &mut Problems) {
        if node >= self.nodes {
            problems.add(path, outside("node", node, self.nodes));
        }
    }
}

fn outside(what: &str, number: u32, count: u32) -> String {
    format!(
        "the machine has no {what} {number}: its {what}s are 0 to {}",
        count.saturating_sub(1)
    )
}

fn numbers(
    path: &str,
    text: &str,
    what: &str,
    count: u32,
    problems: &mut Problems,
) -> Option<Vec<u32>> {
    let numbers = problems.take(path, list::parse(text).map_err(|error| error.to_string()))?;
    if numbers.is_empty() {
        problems.add(path, format!("no {what} is named"));
        return None;
    }
    match numbers.iter().find(|number| **number >= count) {
        Some(number) => {
            problems.add(path, outside(what, *number, count));
            None
        }
        None => Some(numbers),
    }
}
