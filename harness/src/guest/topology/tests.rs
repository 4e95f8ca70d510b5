//! Which machines there can be.

use super::*;

fn node(cpus: u32, memory_mib: u64) -> Node {
    Node { cpus, memory_mib }
}

#[track_caller]
fn refused(nodes: &[(u32, u64)], distances: Option<&[&[u8]]>, expected: &str) {
    let nodes = nodes.iter().map(|(c, m)| node(*c, *m)).collect();
    let distances = distances.map(|rows| rows.iter().map(|row| row.to_vec()).collect());
    let error = Machine::new(nodes, distances, vec![]).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn what_cannot_be_is_refused_and_the_node_named() {
    refused(&[], None, "a machine needs at least one node");
    refused(
        &[(0, 256), (0, 256)],
        None,
        "no node has a CPU, and a machine needs at least one",
    );
    refused(
        &[(1, 256), (0, 0)],
        None,
        "node 1 has neither a CPU nor memory: the kernel does not see such a node",
    );
    refused(
        &[(1, 256), (1, 256), (1, 3)],
        None,
        "node 2 has 3 MiB of memory: older kernels ignore less than 4 MiB (0 makes a \
         memoryless node)",
    );
    refused(
        &[(1, 32), (1, 16)],
        None,
        "the nodes have 48 MiB of memory together, and a guest needs 64 MiB to boot",
    );
    refused(
        &[(1, 0), (1, 0)],
        None,
        "the nodes have 0 MiB of memory together, and a guest needs 64 MiB to boot",
    );
    refused(
        &[(1, 256), (u32::MAX, 256)],
        None,
        "node 1 brings the machine to 4294967296 CPUs: the guest kernels know at most 64",
    );
    refused(
        &[(1, 256), (1, u64::MAX), (1, u64::MAX)],
        None,
        "node 1 brings the machine to 18446744073709551871 MiB of memory, more than \
         524288 MiB",
    );
    refused(
        &[(1, 16); 65],
        None,
        "65 nodes are too many: the guest kernels know at most 64",
    );
    refused(
        &[(1, 256), (0, 256), (1, 256)],
        None,
        "node 1 has no CPU and comes before node 2, which has: Linux numbers nodes in the \
         order of their CPUs first, so nodes without a CPU must come last",
    );
}

#[test]
fn wrong_distances_are_refused() {
    let two = [(1, 256), (1, 256)];
    refused(
        &two,
        Some(&[&[10, 20]]),
        "the distances have 1 rows for 2 nodes: every pair needs its distance",
    );
    refused(
        &two,
        Some(&[&[10, 20], &[20]]),
        "the distances from node 1 are 1 for 2 nodes: every pair needs its distance",
    );
    refused(
        &two,
        Some(&[&[10, 20], &[20, 11]]),
        "the distance from node 1 to itself is 11, and must be 10",
    );
    refused(
        &two,
        Some(&[&[10, 10], &[20, 10]]),
        "the distance from node 0 to node 1 is 10, and must be 11 to 254, or 255 for \
         unreachable",
    );
}

#[track_caller]
fn parameter(text: &str, expected: Option<&str>) {
    let made = Machine::new(vec![node(1, 64)], None, vec![text.into()]);
    assert_eq!(made.err().map(|e| e.to_string()).as_deref(), expected);
}

#[test]
fn kernel_parameters_cannot_break_the_guest() {
    for fine in [
        "numa_balancing=disable",
        "transparent_hugepage=never",
        "loglevel=7",
        "ignore_loglevel",
        "printk.devkmsg=on",
        "sysctl.kernel.printk_delay=1",
        "sysctlkernel.printk=1",
        "rdinit=/none",
        "init=/none",
    ] {
        parameter(fine, None);
    }
    parameter(
        "quiet",
        Some("kernel parameter \"quiet\" is not accepted: it would hide the kernel's warnings"),
    );
    parameter(
        "loglevel=4",
        Some(
            "kernel parameter \"loglevel=4\" is not accepted: a log level below 5 would \
             hide the kernel's warnings",
        ),
    );
    for wrong in ["", "a b", "a\nb", "a\"b", "a\u{e9}"] {
        let form = "is empty or has a space, a quote or a control character in it";
        parameter(wrong, Some(&format!("kernel parameter {wrong:?} {form}")));
    }
    for wrong in [
        "console=tty0",
        "maxcpus=4",
        "--",
        "nosmp",
        "loglevel",
        "loglevel=x",
        "sysctl.kernel.printk=1",
        "sysctl.kernel/printk=1",
        "sysctl/kernel/printk=1",
        "sysctl.kernel//printk=1",
    ] {
        let made = Machine::new(vec![node(1, 64)], None, vec![wrong.into()]);
        assert!(
            matches!(made, Err(MachineError::Reserved { .. })),
            "{wrong}"
        );
    }
    let long = vec!["x".repeat(100); 16];
    assert!(matches!(
        Machine::new(vec![node(1, 64)], None, long),
        Err(MachineError::Parameters { bytes: 1616 })
    ));
}

#[test]
fn the_topology_counts_cpus_through() {
    let machine = Machine::new(vec![node(2, 256), node(1, 0), node(0, 128)], None, vec![]).unwrap();
    assert_eq!((machine.cpus(), machine.memory_mib()), (3, 384));
    let topology = machine.topology();
    assert_eq!(topology.nodes[0].cpus, [0, 1]);
    assert_eq!(topology.nodes[1].cpus, [2]);
    assert!(topology.nodes[2].cpus.is_empty());
    assert_eq!(topology.nodes[1].memory_kib, 0);
    assert_eq!(topology.nodes[2].memory_kib, 128 * 1024);
    assert_eq!(topology.nodes[1].distances, [20, 10, 20]);
}

#[test]
fn given_distances_are_kept_also_asymmetric_ones() {
    let distances = vec![vec![10, 11], vec![255, 10]];
    let nodes = vec![node(1, 64), node(1, 64)];
    let machine = Machine::new(nodes, Some(distances), vec![]).unwrap();
    assert_eq!(machine.topology().nodes[1].distances, [255, 10]);
}
