//! The machine as a value: nodes, CPUs, memory, distances, kernel parameters.
//!
//! [`Machine::new`] refuses what QEMU or the kernel would refuse or silently change, so that
//! no later code has to check again.

use numalab_protocol::plan;

/// The most nodes: `CONFIG_NODES_SHIFT=6` of the guest kernels.
pub const MAX_NODES: usize = 64;

/// The most CPUs: `CONFIG_NR_CPUS=64` of the guest kernels.
pub const MAX_CPUS: u32 = 64;

/// The most memory in MiB: half of what the 40 physical address bits of QEMU's own CPU
/// models reach, the rest being left to devices.
pub const MAX_MEMORY_MIB: u64 = 512 * 1024;

/// The least memory of a machine in MiB. A lean kernel and its initramfs need about 30 MiB;
/// below this limit they do not boot.
pub const MIN_MEMORY_MIB: u64 = 64;

/// The least memory of a node in MiB: `NODE_MIN_SIZE` of `arch/x86/include/asm/numa.h` in older
/// kernels (6.1 has it, 6.12 not), which pass over a smaller node.
pub const MIN_NODE_MIB: u64 = 4;

/// The most bytes of all extra kernel parameters: `COMMAND_LINE_SIZE` of
/// `arch/x86/include/asm/setup.h`, 2048, less room for numalab's own.
pub const MAX_PARAMETERS: usize = 1536;

/// The distance of a node to itself (`LOCAL_DISTANCE`).
pub const LOCAL: u8 = 10;

/// The distance of two nodes if none is given (`REMOTE_DISTANCE`).
pub const REMOTE: u8 = 20;

/// One NUMA node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Number of CPUs; 0 for a CPU-less node.
    pub cpus: u32,
    /// Memory in MiB; 0 for a memoryless node.
    pub memory_mib: u64,
}

/// A machine that QEMU can give and the kernel sees as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    nodes: Vec<Node>,
    distances: Option<Vec<Vec<u8>>>,
    parameters: Vec<String>,
}

/// Why there can be no such machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// Nothing at all.
    #[error("a machine needs at least one node")]
    NoNodes,
    /// More than [`MAX_NODES`].
    #[error("{count} nodes are too many: the guest kernels know at most {MAX_NODES}")]
    Nodes {
        /// How many.
        count: usize,
    },
    /// No node has a CPU.
    #[error("no node has a CPU, and a machine needs at least one")]
    NoCpu,
    /// More than [`MAX_CPUS`].
    #[error(
        "node {node} brings the machine to {count} CPUs: the guest kernels know at most {MAX_CPUS}"
    )]
    Cpus {
        /// The node with which it is too many.
        node: usize,
        /// How many up to it.
        count: u64,
    },
    /// Neither CPU nor memory.
    #[error("node {node} has neither a CPU nor memory: the kernel does not see such a node")]
    Empty {
        /// Which.
        node: usize,
    },
    /// A CPU-less node before one with CPUs.
    #[error(
        "node {node} has no CPU and comes before node {later}, which has: Linux numbers nodes \
         in the order of their CPUs first, so nodes without a CPU must come last"
    )]
    CpulessFirst {
        /// The CPU-less node.
        node: usize,
        /// The next node with CPUs.
        later: usize,
    },
    /// Less than [`MIN_NODE_MIB`].
    #[error(
        "node {node} has {mib} MiB of memory: older kernels ignore less than {MIN_NODE_MIB} MiB \
         (0 makes a memoryless node)"
    )]
    NodeTooSmall {
        /// Which.
        node: usize,
        /// How much.
        mib: u64,
    },
    /// Less than [`MIN_MEMORY_MIB`].
    #[error(
        "the nodes have {mib} MiB of memory together, and a guest needs {MIN_MEMORY_MIB} MiB to boot"
    )]
    TooSmall {
        /// How much.
        mib: u64,
    },
    /// More than [`MAX_MEMORY_MIB`].
    #[error(
        "node {node} brings the machine to {mib} MiB of memory, more than {MAX_MEMORY_MIB} MiB"
    )]
    TooLarge {
        /// The node with which it is too much.
        node: usize,
        /// How much up to it.
        mib: u128,
    },
    /// The matrix has not one row a node.
    #[error("the distances have {rows} rows for {nodes} nodes: every pair needs its distance")]
    Rows {
        /// Rows given.
        rows: usize,
        /// Nodes of the machine.
        nodes: usize,
    },
    /// A row has not one distance a node.
    #[error(
        "the distances from node {node} are {found} for {nodes} nodes: every pair needs its distance"
    )]
    Row {
        /// The row.
        node: usize,
        /// Distances in it.
        found: usize,
        /// Nodes of the machine.
        nodes: usize,
    },
    /// Not 10 to itself.
    #[error("the distance from node {node} to itself is {found}, and must be {LOCAL}")]
    Local {
        /// Which.
        node: usize,
        /// Its distance.
        found: u8,
    },
    /// 10 or less to another node; the kernel then discards the whole matrix (`slit_valid`
    /// of `drivers/acpi/numa/srat.c`).
    #[error(
        "the distance from node {from} to node {to} is {found}, and must be 11 to 254, or 255 \
         for unreachable"
    )]
    Remote {
        /// The row.
        from: usize,
        /// The column.
        to: usize,
        /// The distance.
        found: u8,
    },
    /// A kernel parameter that is none, or more than one.
    #[error(
        "kernel parameter {parameter:?} is empty or has a space, a quote or a control character in it"
    )]
    Parameter {
        /// Which.
        parameter: String,
    },
    /// A kernel parameter that would make results unreliable.
    #[error("kernel parameter {parameter:?} is not accepted: {because}")]
    Reserved {
        /// Which.
        parameter: String,
        /// What it would break.
        because: &'static str,
    },
    /// More than [`MAX_PARAMETERS`].
    #[error("the kernel parameters have {bytes} bytes together, more than {MAX_PARAMETERS}")]
    Parameters {
        /// How many.
        bytes: usize,
    },
}

impl Machine {
    /// Checks and makes a machine. `distances[i][j]` is the distance from node `i` to node
    /// `j`; without a matrix it is [`LOCAL`] or [`REMOTE`]. The matrix need not be
    /// symmetric: the kernel takes an asymmetric one as it is. `parameters` are added to
    /// the kernel's command line.
    pub fn new(
        nodes: Vec<Node>,
        distances: Option<Vec<Vec<u8>>>,
        parameters: Vec<String>,
    ) -> Result<Machine, MachineError> {
        check_nodes(&nodes)?;
        if let Some(distances) = &distances {
            check_distances(nodes.len(), distances)?;
        }
        check_parameters(&parameters)?;
        Ok(Machine {
            nodes,
            distances,
            parameters,
        })
    }

    /// The nodes, in the order of their numbers.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The distances, if a matrix was given.
    pub fn distances(&self) -> Option<&[Vec<u8>]> {
        self.distances.as_deref()
    }

    /// What is added to the kernel's command line.
    pub fn parameters(&self) -> &[String] {
        &self.parameters
    }

    /// The number of CPUs of all nodes.
    pub fn cpus(&self) -> u32 {
        self.nodes.iter().map(|node| node.cpus).sum()
    }

    /// The memory of all nodes in MiB.
    pub fn memory_mib(&self) -> u64 {
        self.nodes.iter().map(|node| node.memory_mib).sum()
    }

    /// The CPUs of each node: numbered through in the order of the nodes.
    pub fn cpus_of_nodes(&self) -> Vec<std::ops::Range<u32>> {
        let mut next = 0;
        let ranges = self.nodes.iter().map(|node| {
            let first = next;
            next += node.cpus;
            first..next
        });
        ranges.collect()
    }

    /// The topology that the guest has to see.
    pub fn topology(&self) -> plan::Topology {
        let distance = |from: usize, to: usize| match &self.distances {
            Some(distances) => distances[from][to],
            None if from == to => LOCAL,
            None => REMOTE,
        };
        let nodes = self.nodes.iter().zip(self.cpus_of_nodes()).enumerate();
        let nodes = nodes.map(|(from, (node, cpus))| plan::Node {
            cpus: cpus.collect(),
            memory_kib: node.memory_mib * 1024,
            distances: (0..self.nodes.len()).map(|to| distance(from, to)).collect(),
        });
        plan::Topology {
            nodes: nodes.collect(),
        }
    }
}

fn check_nodes(nodes: &[Node]) -> Result<(), MachineError> {
    if nodes.is_empty() {
        return Err(MachineError::NoNodes);
    }
    if nodes.len() > MAX_NODES {
        return Err(MachineError::Nodes { count: nodes.len() });
    }
    let last_with_cpus = nodes.iter().rposition(|node| node.cpus > 0);
    let last_with_cpus = last_with_cpus.ok_or(MachineError::NoCpu)?;
    let (mut cpus, mut memory) = (0_u64, 0_u128);
    for (
        node,
        Node {
            cpus: own,
            memory_mib: mib,
        },
    ) in nodes.iter().copied().enumerate()
    {
        if own == 0 && mib == 0 {
            return Err(MachineError::Empty { node });
        }
        // Measured with Linux 6.12: acpi_map_pxm_to_node gives out node numbers in the
        // order of the SRAT's entries, and QEMU writes those of CPUs before those of memory.
        if own == 0 && node < last_with_cpus {
            let later = nodes[node..].iter().position(|node| node.cpus > 0);
            let later = later.map_or(last_with_cpus, |ahead| node + ahead);
            return Err(MachineError::CpulessFirst { node, later });
        }
        if (1..MIN_NODE_MIB).contains(&mib) {
            return Err(MachineError::NodeTooSmall { node, mib });
        }
        cpus += u64::from(own);
        if cpus > u64::from(MAX_CPUS) {
            return Err(MachineError::Cpus { node, count: cpus });
        }
        memory += u128::from(mib);
        if memory > u128::from(MAX_MEMORY_MIB) {
            return Err(MachineError::TooLarge { node, mib: memory });
        }
    }
    match u64::try_from(memory) {
        Ok(mib) if mib < MIN_MEMORY_MIB => Err(MachineError::TooSmall { mib }),
        _ => Ok(()),
    }
}

fn check_distances(nodes: usize, distances: &[Vec<u8>]) -> Result<(), MachineError> {
    if distances.len() != nodes {
        let rows = distances.len();
        return Err(MachineError::Rows { rows, nodes });
    }
    for (from, row) in distances.iter().enumerate() {
        if row.len() != nodes {
            let (node, found) = (from, row.len());
            return Err(MachineError::Row { node, found, nodes });
        }
        for (to, &found) in row.iter().enumerate() {
            if from == to && found != LOCAL {
                return Err(MachineError::Local { node: from, found });
            }
            if from != to && found <= LOCAL {
                return Err(MachineError::Remote { from, to, found });
            }
        }
    }
    Ok(())
}

fn check_parameters(parameters: &[String]) -> Result<(), MachineError> {
    for parameter in parameters {
        let plain = |c: char| c.is_ascii_graphic() && c != '"';
        if parameter.is_empty() || !parameter.chars().all(plain) {
            let parameter = parameter.clone();
            return Err(MachineError::Parameter { parameter });
        }
        if let Some(because) = reserved(parameter) {
            let parameter = parameter.clone();
            return Err(MachineError::Reserved { parameter, because });
        }
    }
    let bytes = parameters.iter().map(|parameter| parameter.len() + 1).sum();
    if bytes > MAX_PARAMETERS {
        return Err(MachineError::Parameters { bytes });
    }
    Ok(())
}

fn reserved(parameter: &str) -> Option<&'static str> {
    let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
    if is_sysctl(name, "kernel/printk") {
        return Some("it would set a log level that hides the kernel's warnings");
    }
    // The kernel takes - and _ in names as the same.
    match name.replace('-', "_").as_str() {
        "quiet" => Some("it would hide the kernel's warnings"),
        "loglevel" if !matches!(value.parse(), Ok(5..=15_u8)) => {
            Some("a log level below 5 would hide the kernel's warnings")
        }
        "console" | "earlyprintk" | "earlycon" => Some("the first UART is the console"),
        "maxcpus" | "nosmp" => Some("the agent brings the other CPUs online"),
        "__" => Some("it would end the kernel's parameters"),
        _ => None,
    }
}

/// Whether a parameter writes a file below `/proc/sys` (`process_sysctl_arg` of
/// `fs/proc/proc_sysctl.c`): dots and slashes are the same there, and any number of them
/// separates two names.
fn is_sysctl(parameter: &str, path: &str) -> bool {
    let separator = ['.', '/'];
    let Some(rest) = parameter.strip_prefix("sysctl") else {
        return false;
    };
    let names = rest.split(separator).filter(|name| !name.is_empty());
    rest.starts_with(separator) && names.eq(path.split('/'))
}

#[cfg(test)]
mod tests;
