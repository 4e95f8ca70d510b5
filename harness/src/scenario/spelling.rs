//! Counters whose names may be misspelt, found before a guest is booted for nothing.
//!
//! A kernel may have counters that are not known here, so this is a warning and no error.

use super::assertion::{Assertion, Observable};

/// Names of `/proc/vmstat` and `memory.stat` that NUMA balancing and migration have had from
/// Linux 6.1 on (`mm/vmstat.c`, `Documentation/admin-guide/cgroup-v2.rst`).
const COUNTED: [&str; 24] = [
    "numa_foreign",
    "numa_hint_faults",
    "numa_hint_faults_local",
    "numa_hit",
    "numa_huge_pte_updates",
    "numa_interleave",
    "numa_local",
    "numa_miss",
    "numa_other",
    "numa_pages_migrated",
    "numa_pte_updates",
    "numa_task_migrated",
    "numa_task_swapped",
    "pgdemote_direct",
    "pgdemote_khugepaged",
    "pgdemote_kswapd",
    "pgdemote_proactive",
    "pgmigrate_fail",
    "pgmigrate_success",
    "pgpromote_candidate",
    "pgpromote_success",
    "thp_migration_fail",
    "thp_migration_split",
    "thp_migration_success",
];

/// Names of `/proc/PID/sched` that NUMA balancing has (`kernel/sched/debug.c`).
const OF_A_TASK: [&str; 5] = [
    "numa_group_id",
    "numa_pages_migrated",
    "numa_preferred_nid",
    "numa_scan_seq",
    "total_numa_faults",
];

/// The most letters of a typing error.
const SLIP: usize = 2;

/// Whether a counter of `/proc/vmstat` or `memory.stat` counts events, so that it never
/// decreases.
pub(super) fn counts_events(name: &str) -> bool {
    COUNTED.contains(&name)
}

/// Whether a name is one of NUMA balancing or of migration.
pub(crate) fn is_known_counter(name: &str) -> bool {
    COUNTED.contains(&name) || OF_A_TASK.contains(&name)
}

/// The counter that a name nearly spells: the key that holds the name, the name, and that
/// counter.
pub(super) fn doubt(assertion: &Assertion) -> Option<(&'static str, &str, &'static str)> {
    let (key, name, known): (_, _, &[&'static str]) = match &assertion.observable {
        Observable::Counter { name, .. } => ("counter", name, &COUNTED),
        Observable::MemoryStat { name, .. } => ("memory-stat", name, &COUNTED),
        Observable::Sched { name, .. } => ("sched", name, &OF_A_TASK),
        Observable::SchedChange { name, .. } => ("sched-change", name, &OF_A_TASK),
        _ => return None,
    };
    if known.contains(&name.as_str()) {
        return None;
    }
    let (distance, meant) = numalab_kernels::spelling::closest(name, known.iter().copied())?;
    (distance <= SLIP).then_some((key, name, meant))
}
