//! How many compilers this machine can run at once.

use std::fs;

/// Memory that one compiler may need, in bytes.
const MEMORY_PER_JOB: u64 = 512 * 1024 * 1024;

/// As many compilers as there are CPUs, and memory for.
pub(crate) fn by_default() -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = available_memory().unwrap_or(u64::MAX) / MEMORY_PER_JOB;
    cpus.min(usize::try_from(memory).unwrap_or(usize::MAX))
        .max(1)
}

/// Memory that can be had, in bytes: the machine's, or this control group's.
fn available_memory() -> Option<u64> {
    let number = |path: &str| -> Option<u64> { fs::read_to_string(path).ok()?.trim().parse().ok() };
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let machine = text.lines().find_map(|line| {
        let rest = line.strip_prefix("MemAvailable:")?;
        rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    })? * 1024;
    let group = number("/sys/fs/cgroup/memory.max")
        .zip(number("/sys/fs/cgroup/memory.current"))
        .map(|(limit, used)| limit.saturating_sub(used));
    Some(group.map_or(machine, |group| group.min(machine)))
}
