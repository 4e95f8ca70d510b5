//! What a machine has: a number of a node or a CPU outside of it is a mistake, found before
//! anything is built or booted.

use numalab_protocol::list;

use super::problems::Problems;
use crate::guest::topology::Machine;

/// The nodes, CPUs and memory of the machine. A machine that is itself a mistake has
/// everything, so that only its own mistake is reported.
#[derive(Debug, Clone)]
pub(super) struct Extent {
    machine: Option<Machine>,
}

impl Extent {
    pub(super) fn new(machine: Option<&Machine>) -> Extent {
        Extent {
            machine: machine.cloned(),
        }
    }

    fn node_count(&self) -> u32 {
        let count = self.machine.as_ref().map(|machine| machine.nodes().len());
        count.map_or(u32::MAX, |count| u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// The bytes of a node's memory, or of all nodes' memory.
    pub(super) fn memory(&self, node: Option<u32>) -> Option<u64> {
        let machine = self.machine.as_ref()?;
        let mib = match node {
            Some(node) => machine.nodes().get(node as usize)?.memory_mib,
            None => machine.memory_mib(),
        };
        Some(mib << 20)
    }

    /// Reads a list of nodes; at least one.
    pub(super) fn nodes(
        &self,
        path: &str,
        text: &str,
        problems: &mut Problems,
    ) -> Option<Vec<u32>> {
        numbers(path, text, "node", self.node_count(), problems)
    }

    /// Reads a list of CPUs; at least one.
    pub(super) fn cpus(&self, path: &str, text: &str, problems: &mut Problems) -> Option<Vec<u32>> {
        let count = self.machine.as_ref().map_or(u32::MAX, Machine::cpus);
        numbers(path, text, "CPU", count, problems)
    }

    /// Checks one node.
    pub(super) fn node(&self, path: &str, node: u32, problems: &mut Problems) {
        if node >= self.node_count() {
            problems.add(path, outside("node", node, self.node_count()));
        }
    }
}

pub(super) fn outside(what: &str, number: u32, count: u32) -> String {
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
        problems.add(path, format!("the list names no {what}"));
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
