use super::*;
use crate::guest::topology::Node;

fn boot(nodes: &[(u32, u64)], distances: Option<Vec<Vec<u8>>>, platform: Platform) -> Boot {
    let nodes = nodes
        .iter()
        .map(|&(cpus, memory_mib)| Node { cpus, memory_mib });
    Boot {
        machine: Machine::new(nodes.collect(), distances, vec![]).unwrap(),
        platform,
        kernel: "/k/vmlinux".into(),
        initrd: "/k/initramfs".into(),
        pages: std::array::from_fn(|index| format!("/r/plan.{index}").into()),
        console: "/r/console".into(),
        records: "/r/records".into(),
        start: Start::Cold,
    }
}

fn exact() -> Platform {
    Platform::new(Mode::Exact { shift: 5 }, Accelerator::Tcg).unwrap()
}

fn live(accelerator: Accelerator) -> Platform {
    Platform::new(Mode::Live, accelerator).unwrap()
}

/// One option a line.
fn lines(boot: &Boot) -> String {
    let options = HostOptions {
        sandbox: true,
        monitor: Monitor::Descriptor(100),
    };
    arguments(boot, options).join(" ").replace(" -", "\n-")
}

/// Only what says which nodes there are.
fn nodes(boot: &Boot) -> String {
    let starts = ["-m ", "-smp", "-object", "-numa"];
    let text = lines(boot);
    let lines = text.lines();
    let lines = lines.filter(|line| starts.iter().any(|start| line.starts_with(start)));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn exact_mode_in_full() {
    insta::assert_snapshot!(lines(&boot(&[(1, 256), (1, 256)], None, exact())));
}

#[test]
fn live_mode_with_kvm_in_full() {
    let kvm = live(Accelerator::Kvm(KvmCpu::Host));
    insta::assert_snapshot!(lines(&boot(&[(2, 512)], None, kvm)));
}

#[test]
fn live_mode_with_tcg_in_full() {
    let tcg = live(Accelerator::Tcg);
    insta::assert_snapshot!(lines(&boot(&[(2, 512)], None, tcg)));
}

#[test]
fn a_savable_guest_differs_from_a_cold_one_by_its_drive_alone() {
    let cold = boot(&[(1, 256)], None, exact());
    let mut savable = cold.clone();
    savable.start = Start::Savable("/s/a,b".into());
    let drive = "-drive if=none,node-name=snapshot,format=qcow2,cache=unsafe,file=/s/a,,b\n";
    assert_eq!(lines(&savable).replace(drive, ""), lines(&cold));
}

#[test]
fn a_restored_guest_continues_its_files() {
    let mut boot = boot(&[(1, 256)], None, exact());
    boot.start = Start::Restored("/s/disk".into());
    let text = lines(&boot);
    for words in [
        "-chardev file,id=console,path=/r/console,append=on\n",
        "-chardev file,id=records,path=/r/records,append=on\n",
        "file=/s/disk\n-loadvm numalab\n",
    ] {
        assert!(text.contains(words), "{words} is not in {text}");
    }
}

#[test]
fn one_node() {
    insta::assert_snapshot!(nodes(&boot(&[(1, 256)], None, exact())), @r"
    -m 256M
    -smp 1,sockets=1,cores=1,threads=1
    -object memory-backend-ram,id=memory0,size=256M
    -numa node,nodeid=0,cpus=0,memdev=memory0
    ");
}

#[test]
fn four_nodes_with_distances() {
    let distances = vec![
        vec![10, 20, 30, 30],
        vec![20, 10, 30, 30],
        vec![30, 30, 10, 20],
        vec![30, 30, 20, 10],
    ];
    insta::assert_snapshot!(nodes(&boot(&[(2, 256); 4], Some(distances), exact())));
}

#[test]
fn a_cpuless_and_a_memoryless_node() {
    let boot = boot(&[(2, 256), (2, 0), (0, 128)], None, exact());
    insta::assert_snapshot!(nodes(&boot), @r"
    -m 384M
    -smp 4,sockets=2,cores=2,threads=1
    -object memory-backend-ram,id=memory0,size=256M
    -numa node,nodeid=0,cpus=0-1,memdev=memory0
    -numa node,nodeid=1,cpus=2-3
    -object memory-backend-ram,id=memory2,size=128M
    -numa node,nodeid=2,memdev=memory2
    ");
}

#[test]
fn no_socket_reaches_into_two_nodes() {
    let sockets = |nodes: &[(u32, u64)]| {
        let machine = boot(nodes, None, exact()).machine;
        let cores = cores_per_socket(&machine);
        (machine.cpus() / cores, cores)
    };
    assert_eq!(sockets(&[(4, 64), (4, 64)]), (2, 4));
    assert_eq!(sockets(&[(4, 64), (2, 64), (0, 64)]), (3, 2));
    assert_eq!(sockets(&[(2, 64), (3, 64)]), (5, 1));
}

#[test]
fn a_comma_in_a_path_does_not_end_it() {
    let mut boot = boot(&[(1, 64)], None, exact());
    boot.console = "/r/a,id=b".into();
    boot.pages[0] = "/r/p,q".into();
    let text = lines(&boot);
    assert!(text.contains("-chardev file,id=console,path=/r/a,,id=b\n"));
    assert!(text.contains("name=opt/org.numalab/plan,file=/r/p,,q\n"));
}

#[test]
fn extra_parameters_come_last_so_that_they_win() {
    let mut boot = boot(&[(1, 64)], None, exact());
    let extra = vec!["numa_balancing=disable".to_owned()];
    boot.machine = Machine::new(boot.machine.nodes().to_vec(), None, extra).unwrap();
    let line = kernel_parameters(&boot);
    assert!(line.ends_with(" numa_balancing=disable"), "{line}");
    assert!(!line.contains("quiet"));
}

#[test]
fn nothing_of_the_host_enters_the_guest() {
    let one = boot(&[(1, 64)], None, exact());
    let mut other = one.clone();
    other.kernel = "/elsewhere/vmlinux".into();
    other.console = "/elsewhere/console".into();
    assert_eq!(kernel_parameters(&one), kernel_parameters(&other));
}

#[test]
fn a_person_needs_no_monitor() {
    let options = HostOptions {
        sandbox: false,
        monitor: Monitor::Nobody,
    };
    let text = arguments(&boot(&[(1, 64)], None, exact()), options).join(" ");
    assert!(!text.contains("monitor"), "{text}");
    assert!(!text.contains("sandbox"), "{text}");
    assert!(text.contains("shutdown=poweroff"), "{text}");
}
