//! The tunables of NUMA balancing, by the names that a scenario uses.

use numalab_protocol::plan::{Setting, Tunable};

use super::problems::Problems;
use super::quantity;
use super::raw::RawBalancing;

/// The tunables by the names that a scenario uses, with the kernel's units.
const TUNABLES: [(&str, Tunable, &str); 8] = [
    (
        "mode",
        Tunable::NumaBalancing,
        "0 to 3, as under `balancing`",
    ),
    ("scan-delay", Tunable::ScanDelayMs, "milliseconds"),
    ("scan-period-min", Tunable::ScanPeriodMinMs, "milliseconds"),
    ("scan-period-max", Tunable::ScanPeriodMaxMs, "milliseconds"),
    ("scan-size", Tunable::ScanSizeMb, "MiB"),
    ("hot-threshold", Tunable::HotThresholdMs, "milliseconds"),
    (
        "promote-rate-limit",
        Tunable::PromoteRateLimitMbps,
        "MB per second",
    ),
    ("demotion", Tunable::DemotionEnabled, "0 or 1"),
];

/// The tunable of a name.
pub(super) fn named(name: &str) -> Option<Tunable> {
    let found = TUNABLES.iter().find(|(known, ..)| *known == name);
    found.map(|(_, tunable, _)| *tunable)
}

/// The names of all tunables, with the kernel's units.
pub(super) fn units() -> impl Iterator<Item = (&'static str, &'static str)> {
    TUNABLES.iter().map(|(name, _, unit)| (*name, *unit))
}

/// The settings of the key `balancing`.
pub(super) fn balancing(raw: &RawBalancing, problems: &mut Problems) -> Vec<Setting> {
    let mut time = |key: &str, text: &Option<String>| {
        let text = text.as_ref()?;
        let ms = problems.take(&format!("balancing.{key}"), quantity::milliseconds(text))?;
        i64::try_from(ms).ok()
    };
    let delay = time("scan-delay", &raw.scan_delay);
    let min = time("scan-period-min", &raw.scan_period_min);
    let max = time("scan-period-max", &raw.scan_period_max);
    let hot = time("hot-threshold", &raw.hot_threshold);
    let size = raw.scan_size.as_ref().and_then(|text| {
        let mib = problems.take("balancing.scan-size", quantity::mebibytes(text))?;
        i64::try_from(mib).ok()
    });
    if let (Some(min), Some(max)) = (min, max)
        && min > max
    {
        problems.add("balancing.scan-period-max", "less than `scan-period-min`");
    }
    let values = [
        (Tunable::ScanPeriodMaxMs, max),
        (Tunable::ScanPeriodMinMs, min),
        (Tunable::ScanDelayMs, delay),
        (Tunable::ScanSizeMb, size),
        (Tunable::HotThresholdMs, hot),
        (Tunable::PromoteRateLimitMbps, raw.promote_rate_limit),
        (Tunable::DemotionEnabled, raw.demotion.map(i64::from)),
        (Tunable::NumaBalancing, raw.mode),
    ];
    let given = values.into_iter().filter_map(|(tunable, value)| {
        Some(Setting {
            tunable,
            value: value?,
        })
    });
    given.collect()
}
