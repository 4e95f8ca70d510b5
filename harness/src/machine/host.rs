//! The host's memory: whether a guest of a size can be started now.
//!
//! Looks at what the kernel says is available and at the limits of our own control groups.
//! It reserves nothing: guests started at the same moment can still exceed it together, and
//! `oom_score_adj` then makes the host end a guest rather than anything else.

use std::fs;
use std::path::{Path, PathBuf};

/// What QEMU needs besides its guest's memory, in MiB: about 60 MiB for itself and what a
/// guest under TCG was seen to use for translated code.
pub const OVERHEAD_MIB: u64 = 256;

/// Too little memory for a guest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the guest needs {needed_mib} MiB ({OVERHEAD_MIB} MiB of it for QEMU) and {limit} leaves \
     {available_mib} MiB: give the machine less memory, or run fewer guests at once"
)]
pub struct MemoryError {
    /// What the guest needs.
    pub needed_mib: u64,
    /// What there is.
    pub available_mib: u64,
    /// What limits it: the host, or a control group.
    pub limit: String,
}

/// Checks that the host can bear a guest with `guest_mib` of memory.
pub fn check_memory(guest_mib: u64) -> Result<(), MemoryError> {
    check(Path::new("/"), guest_mib)
}

fn check(root: &Path, guest_mib: u64) -> Result<(), MemoryError> {
    let needed_mib = guest_mib.saturating_add(OVERHEAD_MIB);
    // What cannot be read is no limit: a wrong refusal would be worse.
    let host = host_available(root).map(|mib| (mib, "the host".to_owned()));
    let group = group_available(root)
        .map(|(mib, path)| (mib, format!("the control group {}", path.display())));
    let least = host.into_iter().chain(group).min();
    match least {
        Some((available_mib, limit)) if available_mib < needed_mib => Err(MemoryError {
            needed_mib,
            available_mib,
            limit,
        }),
        _ => Ok(()),
    }
}

fn host_available(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024)
}

/// The least that a control group of ours, or one above it, leaves, with that group.
fn group_available(root: &Path) -> Option<(u64, PathBuf)> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mut least: Option<(u64, PathBuf)> = None;
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
            let folder = root.join(mount).join(group);
            if let Some(mib) = left(&folder, files)
                && least.as_ref().is_none_or(|(known, _)| mib < *known)
            {
                least = Some((mib, Path::new("/").join(group)));
            }
        }
    }
    least
}

struct Files {
    limit: &'static str,
    usage: &'static str,
    reclaimable: &'static str,
}

const V2: Files = Files {
    limit: "memory.max",
    usage: "memory.current",
    reclaimable: "inactive_file ",
};

const V1: Files = Files {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    reclaimable: "total_inactive_file ",
};

/// What a group leaves in MiB. `None` if it has no limit.
fn left(folder: &Path, files: &Files) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    // Version 2 says "max" for no limit, version 1 a number beyond any memory.
    let limit: u64 = read(files.limit)?.trim().parse().ok()?;
    let usage: u64 = read(files.usage)?.trim().parse().ok()?;
    // Page cache that the kernel takes back before it refuses memory.
    let stat = read("memory.stat").unwrap_or_default();
    let line = stat.lines().find_map(|l| l.strip_prefix(files.reclaimable));
    let reclaimable: u64 = line.and_then(|l| l.trim().parse().ok()).unwrap_or(0);
    let used = usage.saturating_sub(reclaimable);
    Some(limit.saturating_sub(used) / (1024 * 1024))
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
        assert_eq!(check(root.path(), 1744), Ok(()));
        let error = check(root.path(), 1745).unwrap_err().to_string();
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
        assert_eq!(check(root.path(), 268), Ok(()));
        let error = check(root.path(), 269).unwrap_err();
        assert_eq!(error.available_mib, 524);
        assert_eq!(error.limit, "the control group /box");
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
        assert_eq!(check(root.path(), 300).unwrap_err().available_mib, 512);
    }

    #[test]
    fn what_cannot_be_read_is_no_limit() {
        let root = root(&[]);
        assert_eq!(check(root.path(), u64::MAX), Ok(()));
    }

    #[test]
    fn this_host_bears_a_small_guest() {
        assert_eq!(check_memory(64), Ok(()));
    }
}
