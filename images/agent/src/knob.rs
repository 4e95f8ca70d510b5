//! Writing the knobs of NUMA balancing.

use std::path::Path;

use numalab_protocol::plan::{Knob, Setting};
use numalab_protocol::procfs;

use crate::file::{self, FileError};

/// Why a knob does not have the value asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KnobError {
    #[error(
        "this kernel has no knob {}: none of {} exists",
        name(*.knob),
        procfs::knob_paths(*.knob).join(", ")
    )]
    Absent { knob: Knob },
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{path} was set to {asked}, but the kernel keeps {kept:?}")]
    Kept {
        path: &'static str,
        asked: i64,
        kept: String,
    },
}

/// The knob's name, as a plan spells it.
fn name(knob: Knob) -> String {
    match serde_json::to_value(knob) {
        Ok(serde_json::Value::String(name)) => name,
        _ => format!("{knob:?}"),
    }
}

/// Writes a knob, and reads it back: a value that the kernel has changed in silence would
/// make the run one of another plan.
pub(crate) fn set(setting: &Setting) -> Result<(), KnobError> {
    let knob = setting.knob;
    let path = procfs::knob_paths(knob)
        .iter()
        .find(|path| Path::new(path).exists())
        .ok_or(KnobError::Absent { knob })?;
    file::write(path, &setting.value.to_string())?;
    let kept = file::read(path)?;
    if means(&kept, setting.value) {
        return Ok(());
    }
    Err(KnobError::Kept {
        path,
        asked: setting.value,
        kept: kept.trim_end().into(),
    })
}

/// Whether a knob's text stands for a value. `demotion_enabled` prints words
/// (`demotion_enabled_show`).
fn means(text: &str, value: i64) -> bool {
    match text.trim_end() {
        "true" => value == 1,
        "false" => value == 0,
        number => number.parse() == Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knob_is_read_back_in_its_own_words() {
        assert!(means("100\n", 100));
        assert!(means("true\n", 1));
        assert!(means("false\n", 0));
        for (text, value) in [("250\n", 100), ("true\n", 0), ("\n", 0)] {
            assert!(!means(text, value), "{text:?} {value}");
        }
    }

    #[test]
    fn a_missing_knob_is_named_with_all_its_places() {
        let text = KnobError::Absent {
            knob: Knob::ScanDelayMs,
        }
        .to_string();
        assert_eq!(
            text,
            "this kernel has no knob scan-delay-ms: none of \
             /sys/kernel/debug/sched/numa_balancing/scan_delay_ms, \
             /proc/sys/kernel/numa_balancing_scan_delay_ms exists"
        );
    }
}
