//! The `.config` file of a kernel, and what a guest needs in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::option::is_option;

/// What the guest contract needs of a kernel, whoever built it: without one of these
/// a guest does not boot, does not speak, or has nothing to count.
pub const REQUIRED: &[(&str, &str)] = &[
    ("CONFIG_64BIT", "the agent is a 64-bit program"),
    ("CONFIG_SMP", "guests have several CPUs"),
    ("CONFIG_BINFMT_ELF", "the agent is an ELF program"),
    ("CONFIG_BLK_DEV_INITRD", "the agent comes in an initramfs"),
    ("CONFIG_FUTEX", "threads of tasks wait for each other"),
    ("CONFIG_ADVISE_SYSCALLS", "tasks call madvise"),
    ("CONFIG_NET", "a task is started with a pair of sockets"),
    ("CONFIG_UNIX", "a task is started with a pair of sockets"),
    ("CONFIG_ACPI", "QEMU describes nodes and CPUs by ACPI"),
    ("CONFIG_PCI", "devices are found by PCI"),
    ("CONFIG_SERIAL_8250", "the guest speaks on UARTs"),
    ("CONFIG_SERIAL_8250_CONSOLE", "the console is a UART"),
    ("CONFIG_PRINTK", "trouble is read from the console"),
    ("CONFIG_PROC_FS", "counters are read from /proc"),
    ("CONFIG_PROC_SYSCTL", "knobs are in /proc/sys"),
    ("CONFIG_SYSFS", "nodes are described in /sys"),
    ("CONFIG_DEVTMPFS", "the agent opens the UARTs in /dev"),
    ("CONFIG_DEBUG_FS", "the scan knobs are in debugfs"),
    ("CONFIG_NUMA", "it is the subject"),
    ("CONFIG_ACPI_NUMA", "nodes are described by ACPI"),
    ("CONFIG_NUMA_BALANCING", "it is the subject"),
    ("CONFIG_CGROUPS", "tasks are put into control groups"),
    (
        "CONFIG_CPUSETS",
        "tasks are bound to memory nodes by cpusets",
    ),
    (
        "CONFIG_MEMCG",
        "counters of a control group are in memory.stat",
    ),
    ("CONFIG_VM_EVENT_COUNTERS", "counters are in /proc/vmstat"),
    ("CONFIG_SCHED_DEBUG", "numa_scan_seq is in /proc/PID/sched"),
    ("CONFIG_FW_CFG_SYSFS", "the plan comes in by fw_cfg"),
];

/// Options of [`REQUIRED`] that have gone because what they chose is always there, and the
/// release since which that is so.
const ALWAYS: &[(&str, (u32, u32))] = &[("CONFIG_SCHED_DEBUG", (6, 15))];

/// A final configuration (`.config`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    pub(super) values: BTreeMap<String, String>,
    /// Options that a comment says are not set.
    unset: BTreeSet<String>,
    /// Of which release it is, as far as its first lines tell.
    release: Option<(u32, u32)>,
}

impl Config {
    /// Reads the text of a `.config` file. Lines that are no options are passed over.
    pub fn parse(text: &str) -> Self {
        let mut config = Self::default();
        for line in text.lines() {
            if let Some(option) = line
                .strip_prefix("# ")
                .and_then(|rest| rest.strip_suffix(" is not set"))
            {
                config.unset.insert(option.to_owned());
            } else if line.starts_with('#') {
                config.release = config.release.or_else(|| release(line));
            } else if let Some((option, value)) = line.split_once('=')
                && is_option(option)
            {
                config.values.insert(option.to_owned(), value.to_owned());
            }
        }
        config
    }

    /// An option's value as it stands in the file (texts with their quotes); `None` if
    /// it is not set.
    pub fn value(&self, option: &str) -> Option<&str> {
        self.values.get(option).map(String::as_str)
    }

    /// Which of [`REQUIRED`] it lacks, with the reason of each.
    pub fn lacks(&self) -> Vec<(&'static str, &'static str)> {
        REQUIRED
            .iter()
            .filter(|(option, _)| self.value(option) != Some("y") && !self.has_always(option))
            .copied()
            .collect()
    }

    /// Whether an option is none any more, as what it chose is always there.
    fn has_always(&self, option: &str) -> bool {
        self.release.is_some_and(|release| {
            ALWAYS
                .iter()
                .any(|(always, since)| *always == option && release >= *since)
        })
    }

    /// Whether the file mentions an option: this version of the source has it.
    pub(super) fn mentions(&self, option: &str) -> bool {
        self.values.contains_key(option) || self.unset.contains(option)
    }
}

/// Reads the release of a configuration's first lines: `# Linux/x86 6.12.117 Kernel
/// Configuration`.
fn release(line: &str) -> Option<(u32, u32)> {
    let (_, rest) = line.strip_prefix("# Linux/")?.split_once(' ')?;
    let mut numbers = rest
        .strip_suffix(" Kernel Configuration")?
        .split(['.', '-']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The configuration that belongs to an image that somebody else built, if it lies
/// where kernels' builds and distributions put it.
pub(crate) fn beside_image(image: &Path, release: Option<&str>) -> Option<PathBuf> {
    let folder = image.parent()?;
    let mut places = vec![folder.join(".config")];
    if let Some(release) = release {
        places.push(folder.join(format!("config-{release}")));
    }
    // O/arch/x86/boot/bzImage
    places.extend(folder.ancestors().nth(3).map(|root| root.join(".config")));
    places.into_iter().find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_has_gone_is_not_missed() {
        let lacks_it = |first: &str| {
            let config = Config::parse(&format!("#\n{first}\n#\nCONFIG_64BIT=y\n"));
            config
                .lacks()
                .iter()
                .any(|(option, _)| *option == "CONFIG_SCHED_DEBUG")
        };
        assert!(lacks_it("# Linux/x86 6.12.117 Kernel Configuration"));
        assert!(lacks_it("# Linux/x86_64 6.1.0-49 Kernel Configuration"));
        assert!(lacks_it("# nothing is told"));
        assert!(!lacks_it("# Linux/x86 6.15.0-rc1 Kernel Configuration"));
        assert!(!lacks_it("# Linux/x86 7.2.12 Kernel Configuration"));
    }
}
