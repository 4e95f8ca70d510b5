//! What this machine can do, what is missing, and how to get it.

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::environment::Environment;
use crate::guest::host;
use crate::guest::qemu::Qemu;
use crate::guest::qemu_priority::{self, QemuPriority};
use crate::workspace::Workspace;
use crate::workspace::project::Project;

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub name: &'static str,
    /// What it means.
    pub state: State,
    /// What was found, in a sentence.
    pub found: String,
}

/// What a finding means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// As it should be.
    Good,
    /// Worth knowing; exact mode works without it.
    Note,
    /// Exact mode does not work without it.
    Missing,
}

/// The least free space for a source, an object tree and some kernels, in GiB; measured for
/// 6.12: 1.6 of source, 0.5 of objects, 25 MiB a kernel.
const SPACE_GIB: u64 = 5;

/// Looks at everything. Nothing is changed, and nothing is booted.
pub fn examine() -> Vec<Finding> {
    vec![
        qemu(),
        build_tools(),
        cache(),
        runs(),
        memory(),
        priority(),
        kvm(),
        host_balancing(),
    ]
}

fn qemu() -> Finding {
    let found = Qemu::find(&Environment::read()).and_then(|qemu| {
        qemu.require_exact()?;
        qemu.check_firmware()?;
        Ok(qemu)
    });
    match found {
        Ok(qemu) => finding(
            "QEMU",
            State::Good,
            format!(
                "{} at {}: exact mode works",
                qemu.version(),
                qemu.path().display()
            ),
        ),
        Err(error) => finding("QEMU", State::Missing, sentence(&error)),
    }
}

fn build_tools() -> Finding {
    match numalab_kernels::tools::toolchain::check("gcc") {
        Ok(()) => finding("kernel builds", State::Good, "all tools are there".into()),
        Err(error) => finding("kernel builds", State::Missing, sentence(&error)),
    }
}

fn cache() -> Finding {
    let workspace = match Workspace::open() {
        Ok(workspace) => workspace,
        Err(error) => return finding("cache", State::Missing, sentence(&error)),
    };
    let root = workspace.cache.root();
    let place = root.display();
    match rustix::fs::statvfs(root) {
        Ok(space) => {
            let gib = space.f_bavail.saturating_mul(space.f_frsize) >> 30;
            let state = if gib < SPACE_GIB {
                State::Note
            } else {
                State::Good
            };
            let advice = if gib < SPACE_GIB {
                format!("; a first kernel needs about {SPACE_GIB} GiB (NUMALAB_CACHE moves it)")
            } else {
                String::new()
            };
            finding("cache", state, format!("{place}, {gib} GiB free{advice}"))
        }
        Err(error) => finding("cache", State::Note, format!("{place}: {error}")),
    }
}

/// Whether the folder for runs, or the nearest one above it that exists, can be written to.
fn runs() -> Finding {
    use rustix::fs::{Access, access};
    let Ok(project) = Project::find(&Environment::read()) else {
        return finding("runs", State::Missing, "there is no project".into());
    };
    let folder = project.runs();
    let exists = folder.ancestors().find(|above| above.exists());
    let advice = "choose another folder with NUMALAB_RUNS";
    match exists {
        Some(above) if !above.is_dir() => {
            let found = format!("{above} is a file, where a folder should be: {advice}");
            finding("runs", State::Missing, found)
        }
        Some(above) if access(above.as_std_path(), Access::WRITE_OK).is_err() => {
            let found = format!("{above} is not writable: {advice}");
            finding("runs", State::Missing, found)
        }
        _ => finding("runs", State::Good, folder.to_string()),
    }
}

fn memory() -> Finding {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    match host::check_memory(512) {
        Ok(()) => finding(
            "guests",
            State::Good,
            format!("{processors} at a time, one for each processor"),
        ),
        Err(error) => finding("guests", State::Missing, sentence(&error)),
    }
}

fn priority() -> Finding {
    let name = "QEMU's priority";
    let allow = "CAP_SYS_NICE or `ulimit -r 1` (RLIMIT_RTPRIO) allows it";
    match qemu_priority::of_host() {
        QemuPriority::RealTime => {
            let found = "real-time, so that a busy host does not disturb exact guests";
            finding(name, State::Good, found.into())
        }
        QemuPriority::ShortSlice => {
            let found = format!(
                "a short slice of time: on a busy host an exact run may, rarely, differ from \
                 another, which numalab tells and judges `inconclusive`, and less rarely than with \
                 a real-time priority: {allow}"
            );
            finding(name, State::Note, found)
        }
        QemuPriority::None => {
            let found = format!(
                "a real-time one is refused, and a short slice of time, which Linux 6.12 gives \
                 anybody, as well: on a busy host an exact run may, rarely, differ from another, \
                 which numalab tells and judges `inconclusive`; {allow}"
            );
            finding(name, State::Note, found)
        }
    }
}

// Whether KVM works is only known after a boot; live mode probes it when it is asked for.
fn kvm() -> Finding {
    let name = "KVM (live mode)";
    let device = Path::new("/dev/kvm");
    match fs::OpenOptions::new().read(true).write(true).open(device) {
        Err(error) => finding(
            name,
            State::Note,
            format!("/dev/kvm: {error}; exact mode does not need it"),
        ),
        Ok(_) if Path::new("/sys/module/kvm_pvm").exists() => finding(
            name,
            State::Note,
            "/dev/kvm opens, but with kvm_pvm loaded ordinary guests do not run; live mode \
             falls back to TCG"
                .into(),
        ),
        Ok(_) => finding(
            name,
            State::Good,
            "/dev/kvm opens; live mode boots a guest before it relies on it".into(),
        ),
    }
}

fn host_balancing() -> Finding {
    let name = "host's own balancing";
    let path = "/proc/sys/kernel/numa_balancing";
    match fs::read_to_string(path) {
        Ok(text) if text.trim() != "0" => finding(
            name,
            State::Note,
            format!(
                "{path} is {}: it can disturb the timing of live guests, not exact ones",
                text.trim()
            ),
        ),
        _ => finding(name, State::Good, "off".into()),
    }
}

fn finding(name: &'static str, state: State, found: String) -> Finding {
    Finding { name, state, found }
}

fn sentence(error: &dyn std::error::Error) -> String {
    crate::error_chain::sentence(error)
}
