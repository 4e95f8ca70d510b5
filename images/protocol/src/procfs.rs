//! The files of `/proc` and `/sys` that the agent reads or writes: their paths and formats.
//!
//! Pure functions of text; each names the function of the kernel that prints it.

use crate::plan::Tunable;
use crate::record::Values;

/// `name value` lines: `/proc/vmstat` (`vmstat_show`) and `memory.stat`
/// (`memory_stat_show`). Lines in another format are skipped, so a counter that the kernel
/// does not print is absent, and never zero.
pub fn name_value_lines(text: &str) -> Values {
    unambiguous(text.lines().filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        Some((name, value.trim().parse().ok()?))
    }))
}

/// Values by name. A name that appears twice has no value: nothing says which one counts.
fn unambiguous<'t>(pairs: impl Iterator<Item = (&'t str, i64)>) -> Values {
    let mut values = Values::new();
    let mut repeated = Vec::new();
    for (name, value) in pairs {
        if values.insert(name.to_owned(), value).is_some() {
            repeated.push(name);
        }
    }
    values.retain(|name, _| !repeated.contains(&name.as_str()));
    values
}

/// `/proc/PID/sched` (`proc_sched_show_task`): `name : value` lines, integers only.
/// `mm->numa_scan_seq` becomes `numa_scan_seq`; the line of `sched_show_numa`
/// (`current_node=0, numa_group_id=0`) is split into its pairs.
pub fn task_sched(text: &str) -> Values {
    let pairs = text.lines().flat_map(|line| {
        let separator = if line.starts_with("current_node=") {
            '='
        } else {
            ':'
        };
        let pairs = line.split(move |c| separator == '=' && c == ',');
        pairs.filter_map(move |pair| {
            let (name, value) = pair.rsplit_once(separator)?;
            let name = name.rsplit_once("->").map_or(name, |(_, last)| last);
            Some((name.trim(), value.trim().parse().ok()?))
        })
    });
    unambiguous(pairs)
}

/// `mm->numa_scan_seq` of `/proc/PID/sched`: the same as `numa_scan_seq` of [`task_sched`],
/// but cheaper.
pub fn scan_seq(text: &str) -> Option<i64> {
    let line = text
        .lines()
        .find(|line| line.starts_with("mm->numa_scan_seq"))?;
    line.rsplit_once(':')?.1.trim().parse().ok()
}

/// `/sys/kernel/mm/transparent_hugepage/enabled` (`enabled_show`): 0 for `never`, 1 for
/// `madvise`, 2 for `always`.
pub fn thp_enabled(text: &str) -> Option<i64> {
    let chosen = text.split_once('[')?.1.split_once(']')?.0;
    let choices = ["never", "madvise", "always"];
    (0..)
        .zip(choices)
        .find(|(_, c)| *c == chosen)
        .map(|(n, _)| n)
}

/// Memory mapped by transparent huge pages, private and shared, in KiB: `AnonHugePages`
/// and `ShmemPmdMapped` of `/proc/PID/smaps_rollup` (`__show_smap`).
pub fn smaps_huge_kib(text: &str) -> Option<u64> {
    let kib = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    Some(kib("AnonHugePages:")? + kib("ShmemPmdMapped:")?)
}

/// `/proc/PID/stat` (`do_task_stat`): `minflt`, `majflt`, and `utime`, `stime` in clock
/// ticks.
pub fn task_stat(text: &str) -> Values {
    // The second field is the name in parentheses, and may contain anything.
    let fields: Vec<&str> = match text.rsplit_once(')') {
        Some((_, rest)) => rest.split_ascii_whitespace().collect(),
        None => return Values::new(),
    };
    // Field 3 of proc(5) is fields[0].
    let pairs = [("minflt", 10), ("majflt", 12), ("utime", 14), ("stime", 15)];
    let values = pairs
        .into_iter()
        .filter_map(|(name, field)| Some((name.to_owned(), fields.get(field - 3)?.parse().ok()?)));
    values.collect()
}

/// `MemTotal` of `/sys/devices/system/node/nodeN/meminfo` (`node_read_meminfo`), in KiB.
pub fn node_memory_kib(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains("MemTotal:"))?;
    line.split_once("MemTotal:")?
        .1
        .trim()
        .strip_suffix("kB")?
        .trim()
        .parse()
        .ok()
}

/// `/sys/devices/system/node/nodeN/distance` (`node_read_distance`).
pub fn node_distances(text: &str) -> Option<Vec<u8>> {
    text.split_ascii_whitespace()
        .map(|word| word.parse().ok())
        .collect()
}

/// The paths of a tunable, that of the newest kernels first. Before Linux 5.13 the scan tunables were sysctls.
pub fn tunable_paths(tunable: Tunable) -> &'static [&'static str] {
    match tunable {
        Tunable::NumaBalancing => &["/proc/sys/kernel/numa_balancing"],
        Tunable::ScanDelayMs => &[
            "/sys/kernel/debug/sched/numa_balancing/scan_delay_ms",
            "/proc/sys/kernel/numa_balancing_scan_delay_ms",
        ],
        Tunable::ScanPeriodMinMs => &[
            "/sys/kernel/debug/sched/numa_balancing/scan_period_min_ms",
            "/proc/sys/kernel/numa_balancing_scan_period_min_ms",
        ],
        Tunable::ScanPeriodMaxMs => &[
            "/sys/kernel/debug/sched/numa_balancing/scan_period_max_ms",
            "/proc/sys/kernel/numa_balancing_scan_period_max_ms",
        ],
        Tunable::ScanSizeMb => &[
            "/sys/kernel/debug/sched/numa_balancing/scan_size_mb",
            "/proc/sys/kernel/numa_balancing_scan_size_mb",
        ],
        Tunable::HotThresholdMs => &["/sys/kernel/debug/sched/numa_balancing/hot_threshold_ms"],
        Tunable::PromoteRateLimitMbps => {
            &["/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps"]
        }
        Tunable::DemotionEnabled => &["/sys/kernel/mm/numa/demotion_enabled"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vmstat_lines_are_counters() {
        let values =
            name_value_lines("nr_free_pages 125412\nnuma_pte_updates 8225\nnot a counter\n");
        assert_eq!(values.len(), 2);
        assert_eq!(values["numa_pte_updates"], 8225);
        assert_eq!(values.get("numa_hint_faults"), None);
    }

    #[test]
    fn a_name_that_appears_twice_has_no_value() {
        let values = name_value_lines("a 1\nnuma_pte_updates 8225\nnuma_pte_updates 0\n");
        assert_eq!(values, [("a".to_owned(), 1)].into());
        let values = task_sched("nr_switches : 8\nnr_switches : 8\nmm->numa_scan_seq : 3\n");
        assert_eq!(values, [("numa_scan_seq".to_owned(), 3)].into());
    }

    #[test]
    fn the_scan_sequence_is_read() {
        let text = "busy (61, #threads: 2)\n\
            -------------------------------------------------------------------\n\
            se.exec_start                                :          3210.123456\n\
            nr_switches                                  :                  812\n\
            mm->numa_scan_seq                            :                    9\n\
            numa_pages_migrated                          :                    0\n\
            numa_preferred_nid                           :                   -1\n\
            total_numa_faults                            :                 1024\n\
            current_node=1, numa_group_id=0\n\
            numa_faults node=0 task_private=0 task_shared=12 group_private=0 group_shared=0\n";
        let values = task_sched(text);
        assert_eq!(values["numa_scan_seq"], 9);
        assert_eq!(values["numa_preferred_nid"], -1);
        assert_eq!(values["current_node"], 1);
        assert_eq!(values["numa_group_id"], 0);
        assert!(!values.contains_key("se.exec_start"));
        assert_eq!(scan_seq(text), Some(9));
        assert_eq!(scan_seq("nr_switches : 812\n"), None);
    }

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let text = "61 (a) b (c) R 1 61 61 0 -1 4194304 33 0 2 0 7 5 0 0 20 0 2 0 12 0 0";
        let values = task_stat(text);
        assert_eq!(values["minflt"], 33);
        assert_eq!(values["majflt"], 2);
        assert_eq!(values["utime"], 7);
        assert_eq!(values["stime"], 5);
        assert!(task_stat("nonsense").is_empty());
    }

    #[test]
    fn the_choice_of_huge_pages_is_read() {
        assert_eq!(thp_enabled("always [madvise] never\n"), Some(1));
        assert_eq!(thp_enabled("always madvise [never]\n"), Some(0));
        assert_eq!(thp_enabled("[always] madvise never\n"), Some(2));
        assert_eq!(thp_enabled("always madvise never\n"), None);
    }

    #[test]
    fn huge_mappings_are_counted() {
        let text = "10000000-7ffd0000 ---p 00000000 00:00 0    [rollup]\n\
            Rss:                9240 kB\n\
            AnonHugePages:      8192 kB\n\
            ShmemPmdMapped:     2048 kB\n\
            FilePmdMapped:         0 kB\n";
        assert_eq!(smaps_huge_kib(text), Some(10_240));
        assert_eq!(smaps_huge_kib("Rss: 9240 kB\n"), None);
    }

    #[test]
    fn node_files_are_read() {
        let text = "Node 0 MemTotal:         249604 kB\nNode 0 MemFree:          1 kB\n";
        assert_eq!(node_memory_kib(text), Some(249_604));
        assert_eq!(node_distances("10 20\n"), Some(vec![10, 20]));
        assert_eq!(node_distances("10 x"), None);
    }
}
