//! The tunables of NUMA balancing, by the names that a scenario uses.

use numalab_protocol::plan::{Setting, Tunable};

use super::problems::Problems;
use super::quantity;
use super::raw::RawBalancing;

/// The tunables by the names that a scenario uses, with their units.
const KNOBS: [(&str, Tunable); 8] = [
    ("mode", Tunable::NumaBalancing),
    ("scan-delay", Tunable::ScanDelayMs),
    ("scan-period-min", Tunable::ScanPeriodMinMs),
    ("scan-period-max", Tunable::ScanPeriodMaxMs),
    ("scan-size", Tunable::ScanSizeMb),
    ("hot-threshold", Tunable::HotThresholdMs),
    ("promote-rate-limit", Tunable::PromoteRateLimitMbps),
    ("demotion", Tunable::DemotionEnabled),
];

/// The knob of a name.
pub(super) fn knob(name: &str) -> Option<Tunable> {
    KNOBS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, knob)| *knob)
}

/// The names of all tunables.
pub(super) fn knob_names() -> impl Iterator<Item = &'static str> {
    KNOBS.iter().map(|(name, _)| *name)
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
    let given = values.into_iter().filter_map(|(knob, value)| {
        Some(Setting {
            tunable: knob,
            value: value?,
        })
    });
    given.collect()
}
