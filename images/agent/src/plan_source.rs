//! Reads the plan: from pages of fw_cfg, or else from a file of the image.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use numalab_protocol::pages::{self, PAGE, PagesError};
use numalab_protocol::{CONTRACT, Plan};

use crate::errno::{CallError, failed};

const FW_CFG: &str = "/sys/firmware/qemu_fw_cfg/by_name";
const IN_IMAGE: &str = "/plan";

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanSourceError {
    #[error(
        "there is neither {FW_CFG}/{} (the kernel needs CONFIG_FW_CFG_SYSFS) nor {IN_IMAGE} in \
         the image",
        pages::name(0)
    )]
    Nowhere,
    #[error(transparent)]
    Read(#[from] CallError),
    #[error("{path} has {length} bytes instead of a page of {PAGE}")]
    Short { path: String, length: usize },
    #[error(transparent)]
    Pages(#[from] PagesError),
    #[error("the plan is of contract {0}, but the agent is of contract {CONTRACT}")]
    Contract(u32),
}

/// Reads the plan: only the pages that contain it, each with one `read(2)` from its start.
pub(crate) fn read() -> Result<Plan, PlanSourceError> {
    let first = fw_cfg_path(0);
    let plan = if Path::new(&first).exists() {
        pages::decode(|index| page(&fw_cfg_path(index), 0))?
    } else if Path::new(IN_IMAGE).exists() {
        pages::decode(|index| page(IN_IMAGE, index))?
    } else {
        return Err(PlanSourceError::Nowhere);
    };
    if plan.contract != CONTRACT {
        return Err(PlanSourceError::Contract(plan.contract));
    }
    Ok(plan)
}

fn fw_cfg_path(index: usize) -> String {
    format!("{FW_CFG}/{}/raw", pages::name(index))
}

/// Page `index` of a file, with one `read(2)`.
fn page(path: &str, index: usize) -> Result<Vec<u8>, PlanSourceError> {
    let read = || {
        let mut file = File::open(path)?;
        if index > 0 {
            file.seek(SeekFrom::Start((index * PAGE) as u64))?;
        }
        let mut bytes = vec![0; PAGE];
        let length = file.read(&mut bytes)?;
        bytes.truncate(length);
        Ok(bytes)
    };
    let bytes = read().map_err(failed::<std::io::Error>(format!("{path} cannot be read")))?;
    if bytes.len() == PAGE {
        return Ok(bytes);
    }
    Err(PlanSourceError::Short {
        path: path.into(),
        length: bytes.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_fw_cfg_and_file_the_error_says_what_is_needed() {
        let text = PlanSourceError::Nowhere.to_string();
        assert!(text.contains("opt/org.numalab/plan"), "{text}");
        assert!(text.contains("CONFIG_FW_CFG_SYSFS"), "{text}");
    }

    #[test]
    fn a_short_page_is_refused() {
        let error = page("/proc/version", 0).unwrap_err();
        assert!(matches!(error, PlanSourceError::Short { .. }), "{error}");
        assert!(matches!(
            page("/nonexistent", 0),
            Err(PlanSourceError::Read(_))
        ));
    }
}
