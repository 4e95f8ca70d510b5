//! The file systems that are mounted before the plan is known.
//!
//! The control group hierarchy is not among them: the plan says which one is needed.

use rustix::mount::{MountFlags, mount};

use crate::errno::{CallError, failed};

/// Type, mount point, and whether every plan needs it. Code that needs an optional one
/// reports the missing file. For a kernel without devtmpfs the image has the few devices
/// that are needed.
const FILE_SYSTEMS: [(&str, &str, bool); 5] = [
    ("proc", "/proc", true),
    ("sysfs", "/sys", true),
    ("devtmpfs", "/dev", false),
    ("debugfs", "/sys/kernel/debug", false),
    ("tracefs", "/sys/kernel/tracing", false),
];

/// Mounts `kind` on `target`, which exists.
pub(crate) fn one(
    kind: &'static str,
    target: &'static str,
    options: Option<&std::ffi::CStr>,
) -> Result<(), CallError> {
    match mount("none", target, kind, MountFlags::empty(), options) {
        // EBUSY: the kernel has mounted it already.
        Ok(()) | Err(rustix::io::Errno::BUSY) => Ok(()),
        Err(errno) => Err(failed(format!("{kind} cannot be mounted on {target}"))(
            errno,
        )),
    }
}

/// Mounts all of them, optional ones only if the kernel has them.
pub(crate) fn all() -> Result<(), CallError> {
    for (kind, target, required) in FILE_SYSTEMS {
        let mounted = one(kind, target, None);
        if required {
            mounted?;
        }
    }
    Ok(())
}
