//! The host's memory: whether a guest of a size can be started, now or at all.
//!
//! Looks at what the kernel says is available and at the limits of our own control groups.
//! It reserves nothing; `slots` does. Where other programs take the memory nevertheless,
//! `oom_score_adj` makes the host end a guest rather than anything else.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What QEMU needs besides its guest's memory, in MiB: about 60 MiB for itself and what a
/// guest under TCG was seen to use for translated code.
pub const OVERHEAD_MIB: u64 = 256;

/// Too little memory for a guest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// Not now.
    #[error(
        "the guest needs {needed_mib} MiB ({OVERHEAD_MIB} MiB of it for QEMU) and {limit} leaves \
         {available_mib} MiB: give the machine less memory, or run fewer guests at once"
    )]
    Now {
        /// What the guest needs.
        needed_mib: u64,
        /// What there is.
        available_mib: u64,
        /// What limits it: the host, or a control group.
        limit: String,
    },
    /// Not even if nothing else ran.
    #[error(
        "the guest needs {needed_mib} MiB ({OVERHEAD_MIB} MiB of it for QEMU) and {limit} has \
         {total_mib} MiB in all: give the machine less memory"
    )]
    Never {
        /// What the guest needs.
        needed_mib: u64,
        /// All that there is.
        total_mib: u64,
        /// What limits it: the host, or a control group.
        limit: String,
    },
    /// Not for a long time.
    #[error(
        "the guest waited {} seconds for memory of the host: it needs {needed_mib} MiB \
         ({OVERHEAD_MIB} MiB of it for QEMU) and {limit} leaves {available_mib} MiB: give the \
         machine less memory, or run fewer guests at once",
        waited.as_secs()
    )]
    Waited {
        /// How long.
        waited: Duration,
        /// What the guest needs.
        needed_mib: u64,
        /// What there is.
        available_mib: u64,
        /// What limits it: the host, or a control group.
        limit: String,
    },
}

impl MemoryError {
    /// The same once a guest has waited for too long.
    pub(super) fn after(self, waited: Duration) -> MemoryError {
        match self {
            MemoryError::Now {
                needed_mib,
                available_mib,
                limit,
            } => MemoryError::Waited {
                waited,
                needed_mib,
                available_mib,
                limit,
            },
            other => other,
        }
    }
}

/// Checks that the host has the memory for a guest of `guest_mib` now.
///
/// # Errors
/// It has not.
pub fn check_memory(guest_mib: u64) -> Result<(), MemoryError> {
    check_memory_at(Path::new("/"), guest_mib, 0)
}

/// Checks that the host would have the memory for a guest if nothing else ran.
pub(super) fn check_total(guest_mib: u64) -> Result<(), MemoryError> {
    match check_memory(guest_mib) {
        Err(never @ MemoryError::Never { .. }) => Err(never),
        _ => Ok(()),
    }
}

/// What one limit gives, in MiB.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Room {
    available: u64,
    total: u64,
    limit: String,
}

/// The same below `root`, beside guests for which `reserved_mib` are reserved that they do not
/// use yet.
pub(super) fn check_memory_at(
    root: &Path,
    guest_mib: u64,
    reserved_mib: u64,
) -> Result<(), MemoryError> {
    let needed_mib = guest_mib.saturating_add(OVERHEAD_MIB);
    // What cannot be read is no limit: a wrong refusal would be worse.
    let mut rooms = groups(root);
    rooms.extend(host(root));
    let smallest = rooms.iter().min_by_key(|room| room.total);
    if let Some(room) = smallest
        && room.total < needed_mib
    {
        return Err(MemoryError::Never {
            needed_mib,
            total_mib: room.total,
            limit: room.limit.clone(),
        });
    }
    let Some(room) = rooms.into_iter().min_by_key(|room| room.available) else {
        return Ok(());
    };
    let available_mib = room.available.saturating_sub(reserved_mib);
    if available_mib < needed_mib {
        return Err(MemoryError::Now {
            needed_mib,
            available_mib,
            limit: room.limit,
        });
    }
    Ok(())
}

fn host(root: &Path) -> Option<Room> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let mib = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib / 1024)
    };
    Some(Room {
        available: mib("MemAvailable:")?,
        total: mib("MemTotal:").unwrap_or(u64::MAX),
        limit: "the host".into(),
    })
}

/// What our control groups, and those above them, leave.
fn groups(root: &Path) -> Vec<Room> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut rooms = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let (mount, files) = if controllers.is_empty() {
            ("sys/fs/cgroup", &V2)
        } else if controllers.split(',').any(|name| name == "memory") {
            ("sys/fs/cgroup/memory", &V1)
        } else {
            continue;
        };
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            rooms.extend(room(root, mount, group, files));
        }
    }
    rooms
}

struct Files {
    /// The smallest of these limits.
    limits: &'static [&'static str],
    usage: &'static str,
    reclaimable: &'static str,
}

const V2: Files = Files {
    // Beyond `memory.high` a group is not refused memory, but kept busy giving it back.
    limits: &["memory.max", "memory.high"],
    usage: "memory.current",
    reclaimable: "inactive_file ",
};

const V1: Files = Files {
    limits: &["memory.limit_in_bytes"],
    usage: "memory.usage_in_bytes",
    reclaimable: "total_inactive_file ",
};

/// What a group leaves. `None` if it has no limit.
fn room(root: &Path, mount: &str, group: &Path, files: &Files) -> Option<Room> {
    const MIB: u64 = 1024 * 1024;
    let folder = root.join(mount).join(group);
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    // Version 2 says "max" for no limit, version 1 a number beyond any memory.
    let limits = files.limits.iter();
    let limit: u64 = limits
        .filter_map(|name| read(name)?.trim().parse().ok())
        .min()?;
    let usage: u64 = read(files.usage)?.trim().parse().ok()?;
    // Page cache that the kernel takes back before it refuses memory.
    let stat = read("memory.stat").unwrap_or_default();
    let line = stat.lines().find_map(|l| l.strip_prefix(files.reclaimable));
    let reclaimable: u64 = line.and_then(|l| l.trim().parse().ok()).unwrap_or(0);
    let used = usage.saturating_sub(reclaimable);
    let path: PathBuf = Path::new("/").join(group);
    Some(Room {
        available: limit.saturating_sub(used) / MIB,
        total: limit / MIB,
        limit: format!("the control group {}", path.display()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    const MEMINFO: (&str, &str) = (
        "proc/meminfo",
        "MemTotal: 4096000 kB\nMemAvailable:    2048000 kB\n",
    );

    #[test]
    fn the_hosts_memory_limits() {
        let root = root(&[MEMINFO]);
        assert_eq!(check_memory_at(root.path(), 1744, 0), Ok(()));
        let error = check_memory_at(root.path(), 1745, 0)
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "the guest needs 2001 MiB (256 MiB of it for QEMU) and the host leaves 2000 MiB: \
             give the machine less memory, or run fewer guests at once"
        );
    }

    #[test]
    fn a_group_above_ours_limits_and_its_page_cache_does_not_count() {
        let root = root(&[
            MEMINFO,
            ("proc/self/cgroup", "0::/box/job\n"),
            ("sys/fs/cgroup/box/job/memory.max", "max\n"),
            ("sys/fs/cgroup/box/job/memory.current", "1\n"),
            ("sys/fs/cgroup/box/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/box/memory.current", "1048576000\n"),
            (
                "sys/fs/cgroup/box/memory.stat",
                "anon 5\ninactive_file 524288000\n",
            ),
        ]);
        assert_eq!(check_memory_at(root.path(), 268, 0), Ok(()));
        let error = check_memory_at(root.path(), 269, 0).unwrap_err();
        assert_eq!(
            error,
            MemoryError::Now {
                needed_mib: 525,
                available_mib: 524,
                limit: "the control group /box".into(),
            }
        );
    }

    #[test]
    fn what_is_reserved_for_others_does_not_count() {
        let root = root(&[MEMINFO]);
        assert_eq!(check_memory_at(root.path(), 744, 1000), Ok(()));
        let error = check_memory_at(root.path(), 745, 1000).unwrap_err();
        assert!(matches!(
            error,
            MemoryError::Now {
                available_mib: 1000,
                ..
            }
        ));
    }

    #[test]
    fn the_smaller_of_a_groups_limits_counts() {
        let root = root(&[
            MEMINFO,
            ("proc/self/cgroup", "0::/job\n"),
            ("sys/fs/cgroup/job/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/job/memory.high", "536870912\n"),
            ("sys/fs/cgroup/job/memory.current", "0\n"),
        ]);
        assert_eq!(check_memory_at(root.path(), 256, 0), Ok(()));
        let error = check_memory_at(root.path(), 257, 0)
            .unwrap_err()
            .to_string();
        assert!(error.contains("/job has 512 MiB in all"), "{error}");
    }

    #[test]
    fn version_one_limits_too() {
        let root = root(&[
            MEMINFO,
            ("proc/self/cgroup", "4:memory:/job\n3:cpu,cpuacct:/job\n"),
            (
                "sys/fs/cgroup/memory/job/memory.limit_in_bytes",
                "536870912\n",
            ),
            ("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "0\n"),
        ]);
        assert_eq!(
            check_memory_at(root.path(), 300, 0)
                .unwrap_err()
                .to_string(),
            "the guest needs 556 MiB (256 MiB of it for QEMU) and the control group /job has 512 \
             MiB in all: give the machine less memory"
        );
    }

    #[test]
    fn what_cannot_be_read_is_no_limit() {
        let root = root(&[]);
        assert_eq!(check_memory_at(root.path(), u64::MAX, 0), Ok(()));
    }

    #[test]
    fn this_host_has_room_for_a_small_guest() {
        assert_eq!(check_memory(64), Ok(()));
    }
}
