//! Writes an image and the plan of a known workload, to boot a guest by hand.
//!
//! `cargo run -p numalab-images --example workloads -- FOLDER WORKLOAD SEED` leaves the
//! initramfs and the plan's pages in FOLDER and prints the options by which QEMU passes
//! them; `with-plan.cpio`, beside them, is an initramfs that carries the plan itself. The guest is one of two nodes with a CPU and 256 MiB each, for `everything` 384 MiB:
//! the kernel turns huge pages off where there are less than 512 MiB.
//!
//! The workloads are small known cases: what each makes the kernel count is known from
//! reading and from measuring it, so that they show whether an agent still works.

use std::error::Error;
use std::fs;

use camino::Utf8PathBuf;
use numalab_protocol::plan::*;
use numalab_protocol::{CONTRACT, Plan, pages};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, workload, seed] = &arguments[..] else {
        return Err("usage: workloads FOLDER WORKLOAD SEED".into());
    };
    let plan = plan(workload, seed.parse()?).ok_or_else(|| {
        format!(
            "{workload:?} is none of the workloads: {}",
            NAMES.join(", ")
        )
    })?;
    let folder = Utf8PathBuf::from(folder);
    let image = numalab_images::ensure(&folder, &[])?;
    println!("-initrd {}", image.path);
    let pages = pages::encode(&plan)?;
    let mut carried = numalab_images::initramfs();
    carried.extend(numalab_images::appended_plan(&pages));
    fs::write(folder.join("with-plan.cpio"), carried)?;
    for (index, page) in pages.iter().enumerate() {
        let path = folder.join(format!("page-{index}"));
        fs::write(&path, page)?;
        println!("-fw_cfg name={},file={path}", pages::name(index));
    }
    Ok(())
}

const NAMES: [&str; 12] = [
    "one-node-cpuset",
    "two-node-cpuset",
    "unpinned-sibling",
    "bound-policy",
    "late-vmas",
    "early-vmas",
    "everything",
    "version-1",
    "gives-up",
    "absent-node",
    "absent-policy",
    "nothing",
];

fn plan(workload: &str, seed: u64) -> Option<Plan> {
    let pinned = |mems: &str| Some(("pinned", Some(mems.to_owned())));
    Some(match workload {
        "one-node-cpuset" => resident(seed, pinned("0"), 1, None),
        "two-node-cpuset" => resident(seed, pinned("0-1"), 2, None),
        "unpinned-sibling" => resident(seed, Some(("sibling", None)), 2, None),
        "bound-policy" => resident(seed, None, 1, Some(bind(0))),
        "late-vmas" => vmas(seed, 4),
        "early-vmas" => vmas(seed, 0),
        "everything" => everything(seed),
        "version-1" => Plan {
            cgroup_version: CgroupVersion::V1,
            ..resident(seed, pinned("0"), 1, None)
        },
        "gives-up" => Plan {
            settings: vec![set(Knob::NumaBalancing, 0)],
            ..vmas(seed, 4)
        },
        "absent-node" => resident(seed, pinned("0,5"), 1, None),
        "absent-policy" => resident(seed, None, 1, Some(bind(5))),
        "nothing" => empty(seed),
        _ => return None,
    })
}

fn empty(seed: u64) -> Plan {
    let node = |cpu, distances: [u8; 2]| Node {
        cpus: vec![cpu],
        memory_kib: 256 * 1024,
        distances: distances.into(),
    };
    Plan {
        watch: Watch::default(),
        contract: CONTRACT,
        seed,
        topology: Topology {
            nodes: vec![node(0, [10, 20]), node(1, [20, 10])],
        },
        cgroup_version: CgroupVersion::V2,
        settings: vec![],
        cgroups: vec![],
        tasks: [].into(),
        steps: vec![],
    }
}

fn set(knob: Knob, value: i64) -> Setting {
    Setting { knob, value }
}

fn periods(delay: i64, min: i64, max: i64) -> Vec<Setting> {
    vec![
        set(Knob::NumaBalancing, 1),
        set(Knob::ScanDelayMs, delay),
        set(Knob::ScanPeriodMinMs, min),
        set(Knob::ScanPeriodMaxMs, max),
    ]
}

fn bind(node: u32) -> Policy {
    Policy {
        mode: PolicyMode::Bind,
        nodes: vec![node],
        numa_balancing: false,
    }
}

fn region(name: &str, size: u64, count: u32) -> Region {
    Region {
        name: name.into(),
        size,
        count,
        gap: if count > 1 { 64 << 10 } else { 0 },
        pages: PageKind::Base,
        sharing: Sharing::Private,
        access: Access::ReadWrite,
        populate: Populate::Yes,
    }
}

fn lane(task: &str, commands: Vec<Command>) -> Lane {
    Lane {
        task: Some(task.into()),
        commands,
    }
}

fn touch(region: &str, until: Until) -> Command {
    Command::Touch {
        region: region.into(),
        until,
    }
}

/// A task on node 1 that touches 4 MiB for 3 s.
fn resident(
    seed: u64,
    cgroup: Option<(&str, Option<String>)>,
    threads: u32,
    policy: Option<Policy>,
) -> Plan {
    let name = "resident";
    let task = Task {
        cpus: vec![1],
        cgroup: cgroup.as_ref().map(|(path, _)| (*path).into()),
        threads,
        policy,
    };
    let cgroups = cgroup.map(|(path, mems)| Cgroup {
        path: path.into(),
        mems,
        cpus: None,
    });
    Plan {
        settings: periods(100, 100, 200),
        cgroups: cgroups.into_iter().collect(),
        tasks: [(name.into(), task)].into(),
        steps: vec![Step {
            measure: Some(name.into()),
            prepare: vec![lane(name, vec![Command::Map(region("memory", 4 << 20, 1))])],
            lanes: vec![lane(
                name,
                vec![
                    touch("memory", Until::Elapsed { ms: 3000 }),
                    Command::Placement {
                        region: "memory".into(),
                    },
                ],
            )],
        }],
        ..empty(seed)
    }
}

/// A task of 65 threads that maps 128 VMAs after so many scan sequences, touches only other
/// memory for 2 s, and then asks how much of them was scanned.
fn vmas(seed: u64, sequences: i64) -> Plan {
    let name = "many";
    let task = Task {
        cpus: vec![0],
        cgroup: None,
        threads: 65,
        policy: None,
    };
    let wait = Until::ScanSeq {
        at_least: sequences,
        within_ms: 60_000,
    };
    Plan {
        settings: periods(0, 100, 100),
        tasks: [(name.into(), task)].into(),
        steps: vec![Step {
            measure: Some(name.into()),
            prepare: vec![lane(
                name,
                vec![
                    Command::Map(region("hot", 1 << 20, 1)),
                    touch("hot", wait),
                    Command::Map(region("late", 16 << 10, 128)),
                ],
            )],
            lanes: vec![lane(
                name,
                vec![
                    touch("hot", Until::Elapsed { ms: 2000 }),
                    Command::Probe {
                        region: "late".into(),
                    },
                ],
            )],
        }],
        ..empty(seed)
    }
}

/// Each command once, by two tasks and the agent side by side.
fn everything(seed: u64) -> Plan {
    let task = |cpus: &[u32], cgroup: &str| Task {
        cpus: cpus.into(),
        cgroup: Some(cgroup.into()),
        threads: 3,
        policy: None,
    };
    let cgroup = |path: &str, mems: &str, cpus: Option<&str>| Cgroup {
        path: path.into(),
        mems: Some(mems.into()),
        cpus: cpus.map(Into::into),
    };
    let huge = |name: &str, pages| Region {
        pages,
        populate: Populate::Node(1),
        ..region(name, 4 << 20, 2)
    };
    let huge = |name, pages| Region {
        gap: 2 << 20,
        ..huge(name, pages)
    };
    let place = |region: &str| Command::Placement {
        region: region.into(),
    };
    let shared = Region {
        sharing: Sharing::Shared,
        populate: Populate::Node(0),
        ..region("shared", 1 << 20, 2)
    };
    let lazy = Region {
        populate: Populate::No,
        ..region("lazy", 64 << 10, 3)
    };
    let first = vec![
        Command::Map(huge("thp", PageKind::TransparentHuge)),
        Command::Map(huge("tlb", PageKind::Hugetlb)),
        Command::Map(shared),
        Command::Map(lazy),
        place("lazy"),
        Command::Probe {
            region: "lazy".into(),
        },
        place("thp"),
        place("tlb"),
        place("shared"),
        touch("thp", Until::Elapsed { ms: 300 }),
        Command::Affinity { cpus: vec![1] },
        touch("shared", Until::Passes { count: 20 }),
        Command::Protect {
            region: "lazy".into(),
            access: Access::Read,
        },
        touch("lazy", Until::Passes { count: 2 }),
        Command::Unmap {
            region: "lazy".into(),
        },
        Command::Policy(Policy {
            mode: PolicyMode::Bind,
            nodes: vec![0, 1],
            numa_balancing: true,
        }),
        Command::Sleep { ms: 20 },
    ];
    let second = vec![
        Command::Map(region("memory", 1 << 20, 1)),
        touch("memory", Until::Elapsed { ms: 500 }),
        Command::Exit { status: 7 },
    ];
    let agent = Lane {
        task: None,
        commands: vec![
            Command::Sleep { ms: 200 },
            Command::Set(set(Knob::ScanSizeMb, 64)),
            Command::Cpuset(cgroup("a/b", "0-1", None)),
            Command::Sleep { ms: 10_000 },
        ],
    };
    let step = |measure: Option<&str>, lanes| Step {
        measure: measure.map(Into::into),
        prepare: vec![],
        lanes,
    };
    let mut plan = empty(seed);
    for node in &mut plan.topology.nodes {
        node.memory_kib = 384 * 1024;
    }
    Plan {
        settings: periods(100, 100, 200),
        cgroups: vec![
            cgroup("a", "0-1", Some("0-1")),
            cgroup("a/b", "0", None),
            cgroup("c", "1", None),
            cgroup("d", "0-1", None),
        ],
        tasks: [
            ("first".to_owned(), task(&[0], "d")),
            ("second".to_owned(), task(&[], "a/b")),
            ("third".to_owned(), task(&[1], "c")),
        ]
        .into(),
        steps: vec![
            step(
                Some("both"),
                vec![lane("first", first), lane("second", second), agent],
            ),
            step(None, vec![lane("third", vec![])]),
            step(Some("idle"), vec![lane("third", vec![])]),
        ],
        ..plan
    }
}
