//! Kernel configurations: what was asked for, and whether it was granted.
//!
//! Kconfig drops without a word what its dependencies do not allow. Each option that
//! a fragment names is therefore looked up in the final configuration.

pub(crate) mod kconfig;
pub(crate) mod option;
mod requested;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use crate::cache::CacheError;
use crate::config::option::is_option;
use crate::error_kind::ErrorKind;
use requested::Absence;
pub use requested::Requested;

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

/// Why a configuration is not the one asked for.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A fragment's line is no option.
    #[error("{fragment}:{line}: {text:?} is neither `CONFIG_X=value` nor `# CONFIG_X is not set`")]
    Syntax {
        /// The fragment.
        fragment: String,
        /// The line, from 1.
        line: usize,
        /// The line's text.
        text: String,
    },
    /// A fragment's line gives an option a value that none has.
    #[error(
        "{fragment}:{line}: {option} cannot be {value:?}: an option is y, m, n, a number, or a \
         text in double quotes, such as {option}=\"text\" (a shell takes quotes away: write \
         '{option}=\"text\"' there)"
    )]
    Value {
        /// The fragment.
        fragment: String,
        /// The line, from 1.
        line: usize,
        /// The option.
        option: String,
        /// What it is given.
        value: String,
    },
    /// Options were not granted.
    #[error(
        "the kernel's configuration is not the one asked for:{}",
        list(refused)
    )]
    Refused {
        /// Each of them.
        refused: Vec<Refused>,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

impl ConfigError {
    /// Whose fault it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Cache(error) => error.kind(),
            _ => ErrorKind::Input,
        }
    }
}

/// An option that exists but is not what was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its name.
    pub option: String,
    /// What was asked for: a value, or `n`.
    pub asked: String,
    /// What it is: a value, or `n`.
    pub got: String,
    /// The fragment and line that asks for it.
    pub origin: String,
    /// Whether this version of the source has it.
    pub exists: bool,
    /// Its dependencies in this source, with their values; for one that does not exist,
    /// the nearest that does.
    pub because: String,
}

fn list(refused: &[Refused]) -> String {
    use fmt::Write as _;
    let mut text = String::new();
    for item in refused {
        let Refused {
            option,
            asked,
            got,
            origin,
            exists,
            because,
        } = item;
        let dropped = match (exists, got.as_str()) {
            (false, _) => "does not exist in this version of the source".to_owned(),
            (true, "n") => "exists but was dropped".to_owned(),
            (true, got) => format!("became {got}"),
        };
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {option}={asked} ({origin}) {dropped}{because}");
    }
    text
}

/// A final configuration (`.config`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    values: BTreeMap<String, String>,
    named: BTreeMap<String, ()>,
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
                config.named.insert(option.to_owned(), ());
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

    /// Checks that all that was asked for was granted. Returns the options that do not
    /// exist in this version of the source, as warnings.
    pub(crate) fn check(
        &self,
        requested: &Requested,
        source: &Path,
    ) -> Result<Vec<String>, ConfigError> {
        let differing: Vec<_> = requested
            .options
            .iter()
            .filter_map(|(option, asked)| {
                let got = self.value(option).unwrap_or("n");
                // An option that is asked to be off and does not exist is off; but one that
                // the user asked for may be misspelt.
                let doubtful = asked.absence == Absence::Wrong
                    && got == "n"
                    && !self.named.contains_key(option);
                (doubtful || !same(&asked.value, got)).then_some((option, asked, got))
            })
            .collect();
        if differing.is_empty() {
            return Ok(Vec::new());
        }
        let symbols =
            kconfig::Symbols::find(source, differing.iter().map(|(option, ..)| option.as_str()))?;
        let mut warnings = Vec::new();
        let mut refused = Vec::new();
        for (option, asked, got) in differing {
            let known = got != "n" || self.named.contains_key(option);
            let refuse = |exists, because| Refused {
                option: option.clone(),
                asked: asked.value.clone(),
                got: got.to_owned(),
                origin: asked.origin.clone(),
                exists,
                because,
            };
            match (symbols.get(option), asked.absence) {
                (None, Absence::Fine) if !known => {}
                (None, Absence::Told) if !known => warnings.push(format!(
                    "{option} ({}) does not exist in this version of the source",
                    asked.origin
                )),
                (None, Absence::Wrong) if !known => {
                    let hint = kconfig::nearest(source, option)?
                        .map(|name| format!("; did you mean {name}?"));
                    refused.push(refuse(false, hint.unwrap_or_default()));
                }
                _ if same(&asked.value, got) => {}
                (symbol, _) => {
                    let because =
                        symbol.map_or_else(String::new, |symbol| symbol.explain(option, self));
                    refused.push(refuse(true, because));
                }
            }
        }
        if refused.is_empty() {
            Ok(warnings)
        } else {
            Err(ConfigError::Refused { refused })
        }
    }

    /// What became of a whole configuration that was asked for, in sentences: which of its
    /// options the fragments changed, and which are otherwise because this source wants it
    /// so.
    pub(crate) fn completed(&self, requested: &Requested) -> Vec<String> {
        const SHOWN: usize = 12;
        let Some(whole) = &requested.whole else {
            return Vec::new();
        };
        let before = Self::parse(&whole.text);
        let was = |option: &str| before.value(option).unwrap_or("n").to_owned();
        let is = |option: &str| self.value(option).unwrap_or("n").to_owned();
        let asked = requested.options.keys();
        let changed: Vec<String> = asked
            .filter(|option| !same(&is(option), &was(option)))
            .map(|option| format!("{option}={} (was {})", is(option), was(option)))
            .collect();
        let others: BTreeSet<&String> = before
            .values
            .keys()
            .filter(|option| {
                !requested.options.contains_key(*option) && !same(&was(option), &is(option))
            })
            .collect();
        let (modules, others): (Vec<&String>, Vec<&String>) =
            others.into_iter().partition(|option| was(option) == "m");
        let mut notes = Vec::new();
        if !changed.is_empty() {
            notes.push(format!(
                "{}: added or changed for the guest: {}",
                whole.name,
                changed.join(", ")
            ));
        }
        if !modules.is_empty() {
            notes.push(format!(
                "{}: {} options that make modules are off, for a guest loads none",
                whole.name,
                modules.len()
            ));
        }
        if !others.is_empty() {
            let shown: Vec<String> = others
                .iter()
                .take(SHOWN)
                .map(|option| format!("{option}={} (was {})", is(option), was(option)))
                .collect();
            let more = match others.len().saturating_sub(SHOWN) {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            notes.push(format!(
                "{}: otherwise in this version of the source, or with this compiler: {}{more}",
                whole.name,
                shown.join(", ")
            ));
        }
        notes
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

/// Whether two values mean the same: Kconfig writes hexadecimal numbers its own way,
/// and an empty text may stand without quotes.
fn same(asked: &str, got: &str) -> bool {
    let number = |text: &str| {
        let digits = text
            .strip_prefix("0x")
            .or_else(|| text.strip_prefix("0X"))?;
        u64::from_str_radix(digits, 16).ok()
    };
    // An empty text and one that is not there: both give nothing.
    let empty = |text: &str| text == "n" || text == "\"\"";
    asked == got
        || (number(asked).is_some() && number(asked) == number(got))
        || (asked == "\"\"" && empty(got))
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
    use crate::spec::Fragment;

    fn fragment(name: &str, text: &str) -> Fragment {
        Fragment {
            name: name.to_owned(),
            text: text.to_owned(),
        }
    }

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

    #[test]
    fn what_completes_a_whole_configuration_has_all_that_guests_need() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fragments/contract.config");
        let text = std::fs::read_to_string(path).unwrap();
        let requested = Requested::read(&[fragment("contract", &text)]).unwrap();
        for (option, _) in REQUIRED {
            assert_eq!(requested.options[*option].value, "y", "{option}");
        }
    }

    #[test]
    fn what_became_of_a_whole_configuration_is_told() {
        let whole = "CONFIG_A=y\nCONFIG_OLD=y\nCONFIG_M=m\nCONFIG_HZ=0x10\n";
        let mut requested =
            Requested::read(&[fragment("contract", "CONFIG_A=y\nCONFIG_NUMA=y\n")]).unwrap();
        requested.whole = Some(fragment("my.config", whole));
        let config = Config::parse("CONFIG_A=y\nCONFIG_NUMA=y\nCONFIG_HZ=0x0010\n");
        assert_eq!(
            config.completed(&requested),
            [
                "my.config: added or changed for the guest: CONFIG_NUMA=y (was n)",
                "my.config: 1 options that make modules are off, for a guest loads none",
                "my.config: otherwise in this version of the source, or with this compiler: \
                 CONFIG_OLD=n (was y)",
            ]
        );
    }

    #[test]
    fn hexadecimal_numbers_are_compared_as_numbers() {
        assert!(same("0x1000000", "0x01000000"));
        assert!(!same("0x10", "16"));
        // Kconfig writes no line for a text that depends on what is off.
        assert!(same("\"\"", "n"));
        assert!(!same("n", "\"a\"") && !same("\"a\"", "n"));
    }
}
