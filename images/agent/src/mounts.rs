//! The file systems that are mounted before the plan is known.
//!
//! Control groups are not among them: which hierarchy is wanted is the plan's to say.

use std::io;

use rustix::mount::{MountFlags, mount};

use crate::errno;

/// Why the guest has no usable file systems.
#[derive(Debug, thiserror::Error)]
#[error("{kind} cannot be mounted on {target}: {}", errno::text(.cause))]
pub(crate) struct MountError {
    kind: &'static str,
    target: &'static str,
    cause: io::Error,
}

struct FileSystem {
    kind: &'static str,
    target: &'static str,
    /// Whether every plan needs it. What needs another one names the file that is missing.
    required: bool,
}

const FILE_SYSTEMS: [FileSystem; 5] = [
    FileSystem {
        kind: "proc",
        target: "/proc",
        required: true,
    },
    FileSystem {
        kind: "sysfs",
        target: "/sys",
        required: true,
    },
    // The image has the few devices that are needed, for a kernel that lacks devtmpfs.
    FileSystem {
        kind: "devtmpfs",
        target: "/dev",
        required: false,
    },
    FileSystem {
        kind: "debugfs",
        target: "/sys/kernel/debug",
        required: false,
    },
    FileSystem {
        kind: "tracefs",
        target: "/sys/kernel/tracing",
        required: false,
    },
];

/// Mounts `kind` on `target`, which exists.
pub(crate) fn one(
    kind: &'static str,
    target: &'static str,
    options: Option<&std::ffi::CStr>,
) -> Result<(), MountError> {
    match mount("none", target, kind, MountFlags::empty(), options) {
        // EBUSY: the kernel has mounted it already.
        Ok(()) | Err(rustix::io::Errno::BUSY) => Ok(()),
        Err(errno) => Err(MountError {
            kind,
            target,
            cause: errno.into(),
        }),
    }
}

/// Mounts all of them; optional ones if the kernel has them.
pub(crate) fn all() -> Result<(), MountError> {
    for system in FILE_SYSTEMS {
        let mounted = one(system.kind, system.target, None);
        if system.required {
            mounted?;
        }
    }
    Ok(())
}
