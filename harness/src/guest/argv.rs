//! QEMU's command line: the one module that knows its options.
//!
//! A pure function of values. Nothing of the host, and no path, enters the guest: its name,
//! its identifiers and its kernel's command line are the same wherever it runs.

use camino::Utf8PathBuf;
use numalab_protocol::pages;

use super::mode::{Accelerator, KvmCpu, Mode, Platform};
use super::qemu::SANDBOX;
use super::topology::Machine;

/// The name of the drive that guests are saved to, for QEMU's monitor.
pub const DRIVE: &str = "snapshot";

/// The name of a saved guest on its drive.
pub const SNAPSHOT: &str = "numalab";

/// All that one start of a guest is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boot {
    /// The machine.
    pub machine: Machine,
    /// How it runs.
    pub platform: Platform,
    /// The kernel: an ELF `vmlinux` with a PVH note, which boots fastest, or a `bzImage`.
    pub kernel: Utf8PathBuf,
    /// The initramfs.
    pub initrd: Utf8PathBuf,
    /// The plan's pages (`numalab_protocol::pages`).
    pub pages: [Utf8PathBuf; pages::COUNT],
    /// Where the kernel's console goes. Overwritten, but by a restored guest continued.
    pub console: Utf8PathBuf,
    /// Where the agent's records go. Overwritten, but by a restored guest continued.
    pub records: Utf8PathBuf,
    /// How it begins.
    pub start: Start,
}

impl Boot {
    /// A cold boot whose paths are fixed names, for arguments that do not depend on where
    /// files lie.
    pub(crate) fn canonical(machine: Machine, platform: Platform) -> Boot {
        Boot {
            machine,
            platform,
            kernel: "kernel".into(),
            initrd: "initramfs".into(),
            pages: std::array::from_fn(|index| format!("page{index}").into()),
            console: "console".into(),
            records: "records".into(),
            start: Start::Cold,
        }
    }
}

/// How a guest begins. The disk is no device of the guest's: it boots alike with one and
/// without.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Start {
    /// At power on.
    #[default]
    Cold,
    /// At power on, with a disk (`disk`) that it can be saved to.
    Savable(Utf8PathBuf),
    /// In the state that such a disk holds. QEMU writes to it, so it must be nobody else's.
    Restored(Utf8PathBuf),
}

/// What the command line depends on besides the boot itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostOptions {
    /// Whether QEMU takes `-sandbox`.
    pub sandbox: bool,
    /// Who watches.
    pub monitor: Monitor,
}

/// Who watches the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Monitor {
    /// QMP, over a connected socket that QEMU inherits under this number. A number instead
    /// of a path: there is no limit to its length, no file to clean up after a kill, and no
    /// moment at which the socket does not exist yet.
    Descriptor(i32),
    /// Nobody: the command line for a person to type. QEMU then ends with its guest.
    Nobody,
}

/// The arguments, without the program's name.
pub fn arguments(boot: &Boot, options: HostOptions) -> Vec<String> {
    let mut arguments = Arguments(Vec::new());
    arguments.flag("-nodefaults");
    arguments.flag("-no-user-config");
    arguments.option("-display", "none");
    arguments.option("-name", "numalab");
    if options.sandbox {
        arguments.option("-sandbox", SANDBOX);
    }
    // Without hpet=off a guest's jiffies run at double speed under QEMU 10.0: HPET and PIT
    // both drive IRQ 0. Linux then finds its APIC timer to be wrong and goes without
    // high-resolution timers ("APIC timer disabled due to verification failure").
    // With dump-guest-core=off an abort of QEMU leaves no core file of the guest's size.
    arguments.option("-machine", "q35,hpet=off,dump-guest-core=off");
    platform(&mut arguments, boot.platform);
    topology(&mut arguments, &boot.machine);
    arguments.option("-kernel", boot.kernel.as_str());
    arguments.option("-initrd", boot.initrd.as_str());
    arguments.option("-append", &kernel_parameters(boot));
    for (index, path) in boot.pages.iter().enumerate() {
        let (name, path) = (pages::name(index), escaped(path));
        arguments.option("-fw_cfg", &format!("name={name},file={path}"));
    }
    let append = match boot.start {
        Start::Cold | Start::Savable(_) => "",
        Start::Restored(_) => ",append=on",
    };
    for (id, path) in [("console", &boot.console), ("records", &boot.records)] {
        // A file, never a socket or pipe: a full buffer would stop the guest's clock.
        let path = escaped(path);
        arguments.option("-chardev", &format!("file,id={id},path={path}{append}"));
        arguments.option("-serial", &format!("chardev:{id}"));
    }
    arguments.option("-device", "pvpanic-pci");
    match &boot.start {
        Start::Cold => {}
        Start::Savable(disk) => drive(&mut arguments, disk),
        Start::Restored(disk) => {
            drive(&mut arguments, disk);
            arguments.option("-loadvm", SNAPSHOT);
        }
    }
    match options.monitor {
        Monitor::Descriptor(number) => {
            let socket = format!("socket,id=monitor,fd={number}");
            arguments.option("-chardev", &socket);
            arguments.option("-mon", "chardev=monitor,mode=control");
            // However the guest ends, QEMU stays until it is told to go, so that no event
            // is lost.
            arguments.option("-action", "reboot=shutdown,shutdown=pause,panic=pause");
        }
        Monitor::Nobody => {
            let action = "reboot=shutdown,shutdown=poweroff,panic=exit-failure";
            arguments.option("-action", action);
        }
    }
    arguments.0
}

/// Arguments without what does not decide what the guest sees: the paths of files, and the
/// sandbox.
pub(crate) fn without_paths(arguments: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-sandbox" => {
                words.next();
            }
            "-kernel" | "-initrd" => {
                words.next();
                kept.push(word.clone());
            }
            other => {
                let ends = [",file=", ",path="]
                    .iter()
                    .filter_map(|end| other.find(end));
                let end = ends.min().unwrap_or(other.len());
                kept.push(other[..end].to_owned());
            }
        }
    }
    kept
}

/// A drive that no device of the guest's belongs to. `cache=unsafe`: what a crash of the host
/// leaves of it is never used.
fn drive(arguments: &mut Arguments, disk: &Utf8PathBuf) {
    let file = escaped(disk);
    let drive = format!("if=none,node-name={DRIVE},format=qcow2,cache=unsafe,file={file}");
    arguments.option("-drive", &drive);
}

/// Work of a boot that decides nothing here and takes two thirds of its instructions:
/// `trace_eval_init` rewrites the print formats of all trace events for programs that parse
/// `format` files (the kernel's own output does not use them), and `blake2s_mod_init` tests a
/// hash. A kernel that has no such function only says that it was named.
const NOT_AT_BOOT: &str = "initcall_blacklist=trace_eval_init,blake2s_mod_init";

/// The kernel's command line.
fn kernel_parameters(boot: &Boot) -> String {
    let mut words = vec![
        "console=ttyS0",
        // A panic while the tables of nodes are read comes before the console does.
        "earlyprintk=serial,ttyS0,115200",
        // The log level that shows warnings; some configurations default to less.
        "loglevel=7",
        "panic=-1",
        "oops=panic",
        "nokaslr",
        // Until the plan is read only CPU 0 runs; the agent brings up the others.
        "maxcpus=1",
        // The check of the timer's interrupt compares it with a delay loop, and fails on a
        // busy host.
        "no_timer_check",
    ];
    if let Mode::Exact { .. } = boot.platform.mode() {
        words.extend(["tsc=reliable", "cpu_init_udelay=0", "lpj=1000000"]);
        words.push(NOT_AT_BOOT);
        // The code of one CPU is not patched in and, when the second one comes, out again:
        // two thirds of the instructions that bringing it up takes.
        words.push("noreplace-smp");
    }
    words.extend(boot.machine.parameters().iter().map(String::as_str));
    words.join(" ")
}

fn platform(arguments: &mut Arguments, platform: Platform) {
    match (platform.mode(), platform.accelerator()) {
        (Mode::Exact { shift }, _) => {
            arguments.option("-accel", "tcg,thread=single");
            let icount = format!("shift={shift},sleep=off,align=off");
            arguments.option("-icount", &icount);
            arguments.option("-rtc", "base=2024-01-01T00:00:00,clock=vm");
            arguments.option("-seed", "1");
            // Their stream starts anew with each QEMU, so a restored guest would draw other
            // numbers than a cold one.
            arguments.option("-cpu", "max,-rdrand,-rdseed");
        }
        (Mode::Live, Accelerator::Tcg) => {
            arguments.option("-accel", "tcg,thread=multi");
            arguments.option("-cpu", "max");
        }
        (Mode::Live, Accelerator::Kvm(cpu)) => {
            arguments.option("-accel", "kvm");
            let cpu = match cpu {
                KvmCpu::Host => "host",
                KvmCpu::Max => "max,migratable=off",
            };
            arguments.option("-cpu", cpu);
        }
    }
}

fn topology(arguments: &mut Arguments, machine: &Machine) {
    let cpus = machine.cpus();
    let cores = cores_per_socket(machine);
    let sockets = cpus / cores;
    arguments.option("-m", &format!("{}M", machine.memory_mib()));
    let smp = format!("{cpus},sockets={sockets},cores={cores},threads=1");
    arguments.option("-smp", &smp);
    let nodes = machine.nodes().iter().zip(machine.cpus_of_nodes());
    for (id, (node, cpus)) in nodes.enumerate() {
        let mut words = format!("node,nodeid={id}");
        if !cpus.is_empty() {
            words += &match cpus.len() {
                1 => format!(",cpus={}", cpus.start),
                _ => format!(",cpus={}-{}", cpus.start, cpus.end - 1),
            };
        }
        // A memoryless node has no backend: QEMU refuses one of size 0.
        if node.memory_mib > 0 {
            let mib = node.memory_mib;
            let backend = format!("memory-backend-ram,id=memory{id},size={mib}M");
            arguments.option("-object", &backend);
            words += &format!(",memdev=memory{id}");
        }
        arguments.option("-numa", &words);
    }
    for (from, row) in machine.distances().unwrap_or_default().iter().enumerate() {
        for (to, distance) in row.iter().enumerate() {
            let words = format!("dist,src={from},dst={to},val={distance}");
            arguments.option("-numa", &words);
        }
    }
}

/// The greatest number of cores with which no socket reaches into two nodes. A socket that
/// did would make the kernel warn (`topology_sane` of `arch/x86/kernel/smpboot.c`). With
/// equal nodes it is one socket a node.
fn cores_per_socket(machine: &Machine) -> u32 {
    let counts = machine.nodes().iter().map(|node| node.cpus);
    counts.fold(0, divisor).max(1)
}

/// The greatest common divisor; that of 0 and a number is the number.
fn divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// A comma ends a value in QEMU's options, unless it is doubled.
fn escaped(path: &Utf8PathBuf) -> String {
    path.as_str().replace(',', ",,")
}

struct Arguments(Vec<String>);

impl Arguments {
    fn flag(&mut self, flag: &str) {
        self.0.push(flag.into());
    }

    fn option(&mut self, option: &str, value: &str) {
        self.0.extend([option.into(), value.into()]);
    }
}

#[cfg(test)]
mod tests;
