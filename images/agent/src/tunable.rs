//! Writes the tunables of NUMA balancing.

use std::path::Path;

use numalab_protocol::plan::{Setting, Tunable};
use numalab_protocol::procfs;

use crate::file::{self, FileError};

/// Why a tunable does not have the value of the plan.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TunableError {
    #[error(
        "this kernel has no tunable {}: none of {} exists",
        name(*.tunable),
        procfs::tunable_paths(*.tunable).join(", ")
    )]
    Absent { tunable: Tunable },
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{path} was set to {asked}, but the kernel keeps {kept:?}")]
    Kept {
        path: &'static str,
        asked: i64,
        kept: String,
    },
}

/// The tunable's name, as a plan spells it.
fn name(tunable: Tunable) -> String {
    match serde_json::to_value(tunable) {
        Ok(serde_json::Value::String(name)) => name,
        _ => format!("{tunable:?}"),
    }
}

/// Writes a tunable, and reads it back: if the kernel silently changed the value, the run
/// would be a run of another plan.
pub(crate) fn set(setting: &Setting) -> Result<(), TunableError> {
    let tunable = setting.tunable;
    let path = procfs::tunable_paths(tunable)
        .iter()
        .find(|path| Path::new(path).exists())
        .ok_or(TunableError::Absent { tunable })?;
    file::write(path, &setting.value.to_string())?;
    let kept = file::read(path)?;
    if means(&kept, setting.value) {
        return Ok(());
    }
    Err(TunableError::Kept {
        path,
        asked: setting.value,
        kept: kept.trim_end().into(),
    })
}

/// Whether a text means a value. `demotion_enabled` prints words (`demotion_enabled_show`).
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
    fn numbers_and_words_are_read_back() {
        assert!(means("100\n", 100));
        assert!(means("true\n", 1));
        assert!(means("false\n", 0));
        for (text, value) in [("250\n", 100), ("true\n", 0), ("\n", 0)] {
            assert!(!means(text, value), "{text:?} {value}");
        }
    }

    #[test]
    fn the_error_of_a_missing_tunable_lists_its_paths() {
        let text = TunableError::Absent {
            tunable: Tunable::ScanDelayMs,
        }
        .to_string();
        assert_eq!(
            text,
            "this kernel has no tunable scan-delay-ms: none of \
             /sys/kernel/debug/sched/numa_balancing/scan_delay_ms, \
             /proc/sys/kernel/numa_balancing_scan_delay_ms exists"
        );
    }
}
