//! Every deviation from the topology of the plan is an error.

use numalab_protocol::plan::Node;

use super::*;

const MIB: u64 = 1024;

fn node(cpus: &[u32], memory_kib: u64, distances: &[u8]) -> Node {
    Node {
        cpus: cpus.into(),
        memory_kib,
        distances: distances.into(),
    }
}

fn shown(cpus: &[u32], memory_kib: u64, distances: &[u8]) -> SeenNode {
    SeenNode {
        cpus: cpus.into(),
        memory_kib,
        distances: distances.into(),
    }
}

fn seen(nodes: &[(u32, SeenNode)]) -> Seen {
    let mut cpus: Vec<u32> = nodes
        .iter()
        .flat_map(|(_, node)| node.cpus.clone())
        .collect();
    cpus.sort_unstable();
    Seen {
        nodes: nodes.iter().cloned().collect(),
        cpus,
    }
}

/// Two nodes of 256 MiB with a CPU each, and what a kernel shows of them.
fn pair() -> (Topology, Seen) {
    let asked = Topology {
        nodes: vec![
            node(&[0], 256 * MIB, &[10, 20]),
            node(&[1], 256 * MIB, &[20, 10]),
        ],
    };
    let seen = seen(&[
        (0, shown(&[0], 222 * MIB, &[10, 20])),
        (1, shown(&[1], 251 * MIB, &[20, 10])),
    ]);
    (asked, seen)
}

#[test]
fn what_the_kernel_keeps_for_itself_is_no_difference() {
    let (asked, seen) = pair();
    check(&asked, &seen, false).unwrap();
}

#[track_caller]
fn refused(asked: &Topology, seen: &Seen, words: &str) {
    assert_eq!(check(asked, seen, false).unwrap_err().to_string(), words);
}

#[test]
fn each_difference_is_reported_with_its_node() {
    let (asked, mut other) = pair();
    other.nodes.get_mut(&1).unwrap().memory_kib = 128 * MIB;
    refused(
        &asked,
        &other,
        "node 1 has 131072 KiB of memory, but the plan asks for 262144 KiB, of which the kernel \
         may use 98304 KiB for itself",
    );
    let (asked, mut other) = pair();
    other.nodes.get_mut(&0).unwrap().memory_kib = 257 * MIB;
    assert!(check(&asked, &other, false).is_err());

    let (asked, mut other) = pair();
    other.nodes.get_mut(&1).unwrap().distances = vec![21, 10];
    refused(
        &asked,
        &other,
        "node 1 has distances [21, 10], but the plan asks for [20, 10]",
    );

    let (asked, mut other) = pair();
    other.nodes.get_mut(&0).unwrap().cpus = vec![1];
    refused(
        &asked,
        &other,
        "node 0 has CPUs \"1\", but the plan asks for \"0\"",
    );

    let (asked, mut other) = pair();
    other.cpus = vec![0];
    refused(
        &asked,
        &other,
        "CPUs 0 are online, but the plan asks for 0-1",
    );

    let (asked, mut other) = pair();
    other.nodes.remove(&1);
    refused(
        &asked,
        &other,
        "the guest has nodes 0, but the plan asks for 0-1",
    );
}

#[test]
fn nodes_without_cpus_or_memory_are_known() {
    let asked = Topology {
        nodes: vec![
            node(&[0], 256 * MIB, &[10, 20, 30]),
            node(&[], 256 * MIB, &[20, 10, 30]),
            node(&[1], 0, &[30, 30, 10]),
        ],
    };
    let shown = seen(&[
        (0, shown(&[0], 222 * MIB, &[10, 20, 30])),
        (1, shown(&[], 251 * MIB, &[20, 10, 30])),
        (2, shown(&[1], 0, &[30, 30, 10])),
    ]);
    check(&asked, &shown, false).unwrap();
    let mut memory = shown.clone();
    memory.nodes.get_mut(&2).unwrap().memory_kib = 4;
    assert!(check(&asked, &memory, false).is_err());
    let mut none = shown;
    none.nodes.get_mut(&1).unwrap().memory_kib = 0;
    assert!(check(&asked, &none, false).is_err());
}

#[test]
fn an_empty_node_does_not_show() {
    let asked = Topology {
        nodes: vec![
            node(&[0], 256 * MIB, &[10, 20, 30]),
            node(&[], 0, &[20, 10, 30]),
            node(&[1], 256 * MIB, &[30, 30, 10]),
        ],
    };
    let shown = seen(&[
        (0, shown(&[0], 222 * MIB, &[10, 30])),
        (2, shown(&[1], 251 * MIB, &[30, 10])),
    ]);
    check(&asked, &shown, false).unwrap();
}

#[test]
fn facts_name_nodes_and_distances() {
    let (_, seen) = pair();
    let facts = topology_facts(&seen);
    let expected = [
        ("cpus", 2),
        ("node0.cpus", 1),
        ("node0.distance.0", 10),
        ("node0.distance.1", 20),
        ("node0.memory-kib", 227_328),
        ("node1.cpus", 1),
        ("node1.distance.0", 20),
        ("node1.distance.1", 10),
        ("node1.memory-kib", 257_024),
        ("nodes", 2),
    ];
    let expected: Values = expected
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    assert_eq!(facts, expected);
}
