//! Whether KVM can be used: probed by a boot, never assumed.
//!
//! A host may have a `/dev/kvm` that opens and on which no guest runs. So a guest is booted,
//! and KVM works if its agent sends a record. The answer is cached for the host's boot, the
//! QEMU and the kernel; whether `/dev/kvm` opens is checked each time, since permissions
//! change.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use camino::{Utf8Path, Utf8PathBuf};
use numalab_protocol::{CONTRACT, Record, pages};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::argv::{Boot, Start};
use super::deadline::{Deadlines, StageLimit, Waited};
use super::lifecycle::{self, GuestError, GuestEvent, Limits};
use super::mode::{Accelerator, AcceleratorChoice, KvmCpu, Mode, ModeError, Platform};
use super::outcome::{End, Outcome};
use super::qemu::Qemu;
use super::topology::{Machine, Node};

/// The form of what is cached; a file of another form is probed again.
const SCHEMA: u32 = 1;

/// Under KVM a lean kernel is ready within a second.
const PROBE: StageLimit = StageLimit::new(10, 20, 15);

/// Of [`PROBE`]'s wall time, what QEMU must have got for a silent guest to be a finding.
const FAIR_SHARE: u32 = 3;

/// What a probe needs.
#[derive(Debug, Clone, Copy)]
pub struct Probe<'a> {
    /// The QEMU.
    pub qemu: &'a Qemu,
    /// The kernel to boot.
    pub kernel: &'a Utf8Path,
    /// Its digest.
    pub kernel_digest: &'a str,
    /// An initramfs with the agent.
    pub initrd: &'a Utf8Path,
    /// The folder for what is cached; a probe's own files are made and removed there.
    pub cache: &'a Utf8Path,
}

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Answer {
    /// A guest boots under KVM with this CPU.
    Usable(KvmCpu),
    /// None does.
    Unusable {
        /// Why, as a fragment of a sentence.
        reason: String,
    },
}

/// A platform, and why it is not the one that would have been preferred.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The mode and the accelerator that will really run.
    pub platform: Platform,
    /// Why `auto` fell back to TCG.
    pub fallback: Option<String>,
}

/// Why there is no accelerator.
#[derive(Debug, thiserror::Error)]
pub enum KvmError {
    /// The choice contradicts the mode.
    #[error(transparent)]
    Mode(#[from] ModeError),
    /// KVM was demanded.
    #[error(
        "KVM was asked for and cannot be used: {reason} (leave the accelerator out to use TCG)"
    )]
    Demanded {
        /// Why not.
        reason: String,
    },
    /// The probe's guest could not be run at all.
    #[error("probing KVM failed")]
    Guest(#[from] GuestError),
    /// The probe's machine is not possible.
    #[error("the probe's files in {folder} cannot be written")]
    Cache {
        /// The cache folder.
        folder: Utf8PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The probe was cancelled.
    #[error("probing KVM was interrupted")]
    Cancelled,
}

/// Decides what runs a guest. Probes only if KVM is a possible answer.
pub async fn choose(
    choice: AcceleratorChoice,
    mode: Mode,
    probe: Probe<'_>,
    cancel: CancellationToken,
) -> Result<Chosen, KvmError> {
    choice.check(mode)?;
    let tcg = |fallback| -> Result<Chosen, KvmError> {
        let platform = Platform::new(mode, Accelerator::Tcg)?;
        Ok(Chosen { platform, fallback })
    };
    match (mode, choice) {
        (Mode::Exact { .. }, _) | (_, AcceleratorChoice::Tcg) => return tcg(None),
        (Mode::Live, AcceleratorChoice::Auto | AcceleratorChoice::Kvm) => {}
    }
    match (probe.ask(cancel).await?, choice) {
        (Answer::Usable(cpu), _) => Ok(Chosen {
            platform: Platform::new(mode, Accelerator::Kvm(cpu))?,
            fallback: None,
        }),
        (Answer::Unusable { reason }, AcceleratorChoice::Kvm) => Err(KvmError::Demanded { reason }),
        (Answer::Unusable { reason }, _) => tcg(Some(reason)),
    }
}

impl Probe<'_> {
    /// Finds out whether KVM can be used, from the cache if it is known.
    pub async fn ask(self, cancel: CancellationToken) -> Result<Answer, KvmError> {
        if let Err(reason) = open(Path::new("/dev/kvm")) {
            return Ok(Answer::Unusable { reason });
        }
        let place = self.place();
        if let Some(answer) = cached(&place) {
            return Ok(answer);
        }
        let mut reasons = Vec::new();
        for cpu in [KvmCpu::Host, KvmCpu::Max] {
            match self.boot(cpu, &cancel).await? {
                Finding::Usable => return self.keep(&place, Answer::Usable(cpu)),
                Finding::Unusable(reason) => reasons.push(reason),
                // Another moment may give another answer.
                Finding::Unclear(reason) => return Ok(Answer::Unusable { reason }),
            }
        }
        let mut reason = match &*reasons {
            [host, max] if host == max => format!("with -cpu host, and with -cpu max, {host}"),
            reasons => {
                let tried = reasons.iter().zip(["host", "max"]);
                let tried = tried.map(|(reason, cpu)| format!("with -cpu {cpu} {reason}"));
                tried.collect::<Vec<_>>().join("; ")
            }
        };
        if let Some(hint) = distrusted() {
            reason = format!("{reason} ({hint})");
        }
        self.keep(&place, Answer::Unusable { reason })
    }

    /// The file of this host's boot, QEMU and kernel.
    fn place(&self) -> Utf8PathBuf {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let path = self.qemu.path().to_string_lossy();
        let key = [
            boot.trim(),
            self.qemu.text(),
            &*path,
            self.kernel_digest,
            distrusted().unwrap_or(""),
            &CONTRACT.to_string(),
        ];
        let mut name = String::with_capacity(68);
        for byte in Sha256::digest(key.join("\n")) {
            name += &format!("{byte:02x}");
        }
        self.cache.join("kvm").join(name + ".json")
    }

    fn keep(&self, place: &Utf8Path, answer: Answer) -> Result<Answer, KvmError> {
        let written = || -> io::Result<()> {
            let folder = place.parent().unwrap_or(self.cache);
            fs::create_dir_all(folder)?;
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            serde_json::to_writer(&mut file, &(SCHEMA, &answer))?;
            file.flush()?;
            // In one step, so that nobody reads half an answer.
            file.persist(place).map_err(|error| error.error)?;
            Ok(())
        };
        written().map_err(|source| self.unwritable(source))?;
        Ok(answer)
    }

    fn unwritable(&self, source: io::Error) -> KvmError {
        let folder = self.cache.to_owned();
        KvmError::Cache { folder, source }
    }

    /// Boots a small guest until its agent is ready.
    async fn boot(self, cpu: KvmCpu, cancel: &CancellationToken) -> Result<Finding, KvmError> {
        let (folder, boot) = self.prepare(cpu)?;
        let ready = cancel.child_token();
        let deadlines = Deadlines {
            boot: PROBE,
            ..Deadlines::STANDARD
        };
        let mut usable = false;
        let on_event = |event: GuestEvent<'_>| {
            if let GuestEvent::Record(Record::Ready { .. }) = event {
                usable = true;
                ready.cancel();
            }
        };
        let limits = Limits::STANDARD;
        let run = lifecycle::run(
            self.qemu,
            &boot,
            &deadlines,
            &limits,
            on_event,
            ready.clone(),
        );
        let outcome = run.await;
        drop(folder);
        let outcome = outcome?;
        if usable {
            return Ok(Finding::Usable);
        }
        if cancel.is_cancelled() {
            return Err(KvmError::Cancelled);
        }
        Ok(judge(&outcome))
    }

    /// Makes the files of a probe; they go with the folder.
    fn prepare(&self, cpu: KvmCpu) -> Result<(tempfile::TempDir, Boot), KvmError> {
        let made = || -> io::Result<(tempfile::TempDir, Utf8PathBuf)> {
            fs::create_dir_all(self.cache)?;
            let made = tempfile::Builder::new()
                .prefix("probe-")
                .tempdir_in(self.cache)?;
            let folder = Utf8PathBuf::try_from(made.path().to_owned()).map_err(io::Error::other)?;
            // The guest is ended before it would read them.
            for index in 0..pages::COUNT {
                fs::write(folder.join(format!("page.{index}")), [0; pages::PAGE])?;
            }
            Ok((made, folder))
        };
        let (made, folder) = made().map_err(|source| self.unwritable(source))?;
        let node = Node {
            cpus: 1,
            memory_mib: 256,
        };
        let machine = Machine::new(vec![node], None, vec![]).map_err(io::Error::other);
        let boot = Boot {
            machine: machine.map_err(|source| self.unwritable(source))?,
            platform: Platform::new(Mode::Live, Accelerator::Kvm(cpu))?,
            kernel: self.kernel.into(),
            initrd: self.initrd.into(),
            pages: std::array::from_fn(|index| folder.join(format!("page.{index}"))),
            console: folder.join("console"),
            records: folder.join("records"),
            start: Start::Cold,
        };
        Ok((made, boot))
    }
}

enum Finding {
    Usable,
    Unusable(String),
    Unclear(String),
}

/// What the end of a guest that did not get ready shows about KVM.
fn judge(outcome: &Outcome) -> Finding {
    match &outcome.end {
        End::Stuck {
            waited: Waited::Wall { wall, cpu },
            ..
        } if *cpu * FAIR_SHARE < *wall => Finding::Unclear(format!(
            "the host was too busy to find out whether it works (QEMU got {:.1} of {:.1} seconds)",
            cpu.as_secs_f64(),
            wall.as_secs_f64()
        )),
        End::Stuck { .. } if outcome.console_bytes == 0 => {
            Finding::Unusable("a guest runs and never prints a character".into())
        }
        end if may_pass(end) => Finding::Unclear(end.to_string()),
        end => Finding::Unusable(end.to_string()),
    }
}

/// Whether the end shows only the host's state of the moment: KVM in use by another
/// hypervisor, no memory left, a QEMU that somebody killed.
fn may_pass(end: &End) -> bool {
    const MOMENTARY: [&str; 3] = [
        "Device or resource busy",
        "Resource temporarily unavailable",
        "Cannot allocate memory",
    ];
    match end {
        End::QemuExit { how, stderr } => {
            how == "signal 9" || MOMENTARY.iter().any(|words| stderr.contains(words))
        }
        End::DiskFull { .. } | End::Dismissed => true,
        _ => false,
    }
}

/// Opens the device: permission bits do not show everything.
fn open(device: &Path) -> Result<(), String> {
    let opened = File::options().read(true).write(true).open(device);
    let device = device.display();
    opened.map(|_| ()).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            format!("there is no {device}: this host has no KVM, or its module is not loaded")
        }
        io::ErrorKind::PermissionDenied => format!(
            "{device} cannot be opened: permission denied (it is usually the group kvm that may)"
        ),
        _ => format!("{device} cannot be opened: {error}"),
    })
}

/// A hint that KVM is not the usual one. The boot decides.
fn distrusted() -> Option<&'static str> {
    Path::new("/sys/module/kvm_pvm").exists().then_some(
        "the host's kernel has the module kvm_pvm, which runs guests of its own kind only",
    )
}

fn cached(place: &Utf8Path) -> Option<Answer> {
    // What cannot be read is not known.
    let bytes = fs::read(place).ok()?;
    let (schema, answer): (u32, Answer) = serde_json::from_slice(&bytes).ok()?;
    (schema == SCHEMA).then_some(answer)
}

#[cfg(test)]
mod tests;
