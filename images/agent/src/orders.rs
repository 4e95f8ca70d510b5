//! Where the plan comes from: pages of fw_cfg, or else a file of the image.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use numalab_protocol::pages::{self, PAGE, PagesError};
use numalab_protocol::{CONTRACT, Plan};

use crate::errno;

const FW_CFG: &str = "/sys/firmware/qemu_fw_cfg/by_name";
const IN_IMAGE: &str = "/plan";

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OrdersError {
    #[error(
        "there is neither {FW_CFG}/{} (the kernel needs CONFIG_FW_CFG_SYSFS) nor {IN_IMAGE} in \
         the image",
        pages::name(0)
    )]
    Nowhere,
    #[error("{path} cannot be read: {}", errno::text(.cause))]
    Read { path: String, cause: io::Error },
    #[error("{path} gives {length} bytes of a page of {PAGE}")]
    Short { path: String, length: usize },
    #[error(transparent)]
    Pages(#[from] PagesError),
    #[error("the plan is one of contract {0}, and this agent's is {CONTRACT}")]
    Contract(u32),
}

/// Reads the plan: only the pages that hold it, each with one `read(2)` from its start.
pub(crate) fn read() -> Result<Plan, OrdersError> {
    let first = fw_cfg_path(0);
    let plan = if Path::new(&first).exists() {
        pages::decode(|index| page(&fw_cfg_path(index), 0))?
    } else if Path::new(IN_IMAGE).exists() {
        pages::decode(|index| page(IN_IMAGE, index))?
    } else {
        return Err(OrdersError::Nowhere);
    };
    if plan.contract != CONTRACT {
        return Err(OrdersError::Contract(plan.contract));
    }
    Ok(plan)
}

fn fw_cfg_path(index: usize) -> String {
    format!("{FW_CFG}/{}/raw", pages::name(index))
}

/// Page `index` of a file, with one `read(2)`.
fn page(path: &str, index: usize) -> Result<Vec<u8>, OrdersError> {
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
    let bytes = read().map_err(|cause| OrdersError::Read {
        path: path.into(),
        cause,
    })?;
    if bytes.len() == PAGE {
        return Ok(bytes);
    }
    Err(OrdersError::Short {
        path: path.into(),
        length: bytes.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_fw_cfg_and_file_the_error_says_what_is_needed() {
        let text = OrdersError::Nowhere.to_string();
        assert!(text.contains("opt/org.numalab/plan"), "{text}");
        assert!(text.contains("CONFIG_FW_CFG_SYSFS"), "{text}");
    }

    #[test]
    fn a_short_page_is_refused() {
        let error = page("/proc/version", 0).unwrap_err();
        assert!(matches!(error, OrdersError::Short { .. }), "{error}");
        assert!(matches!(
            page("/nonexistent", 0),
            Err(OrdersError::Read { .. })
        ));
    }
}
