//! How the plan gets into the guest: as files of fw_cfg, one page each.
//!
//! Each file is read once, from its start: reading from an offset costs one port read for
//! each skipped byte, and such loops make a restored guest differ from one that booted. The
//! number and size of the files are fixed, so that all guests boot alike, whatever their plan.

use crate::plan::Plan;

/// Bytes of one file.
pub const PAGE: usize = 4096;

/// Number of files.
pub const COUNT: usize = 8;

const HEADER: usize = 64;
const MAGIC: &str = "numalab-plan";

/// The maximum size of a plan as JSON, in bytes.
pub const CAPACITY: usize = COUNT * PAGE - HEADER;

/// The name of file `index` in fw_cfg.
pub fn name(index: usize) -> String {
    if index == 0 {
        "opt/org.numalab/plan".into()
    } else {
        format!("opt/org.numalab/plan.{index}")
    }
}

/// Why a plan cannot be encoded or decoded.
#[derive(Debug, thiserror::Error)]
pub enum PagesError {
    /// More than [`CAPACITY`].
    #[error("the plan has {length} bytes, but at most {CAPACITY} can be sent to a guest")]
    TooLong {
        /// Its length.
        length: usize,
    },
    /// The first page does not begin with a header.
    #[error("the plan's first page has no valid header")]
    Header,
    /// The bytes are not those that were sent.
    #[error("the plan is corrupt: its checksum is {found:08x} instead of {expected:08x}")]
    Check {
        /// In the header.
        expected: u32,
        /// Of the bytes.
        found: u32,
    },
    /// The JSON is not a plan.
    #[error("the plan is not valid in contract {}", crate::CONTRACT)]
    Json(#[from] serde_json::Error),
}

/// Encodes a plan as [`COUNT`] pages.
pub fn encode(plan: &Plan) -> Result<Vec<Vec<u8>>, PagesError> {
    let json = serde_json::to_vec(plan)?;
    if json.len() > CAPACITY {
        return Err(PagesError::TooLong { length: json.len() });
    }
    let mut bytes = format!("{MAGIC} {} {:08x}\n", json.len(), crc32fast::hash(&json)).into_bytes();
    bytes.resize(HEADER, b' ');
    bytes.extend_from_slice(&json);
    bytes.resize(COUNT * PAGE, 0);
    Ok(bytes.chunks(PAGE).map(<[u8]>::to_vec).collect())
}

/// Decodes a plan; calls `page` for the pages that contain it, each once, in order.
pub fn decode<E: From<PagesError>>(
    mut page: impl FnMut(usize) -> Result<Vec<u8>, E>,
) -> Result<Plan, E> {
    let first = page(0)?;
    let (length, expected) = header(&first).ok_or(PagesError::Header)?;
    let mut bytes = first;
    for index in 1..(HEADER + length).div_ceil(PAGE) {
        bytes.extend(page(index)?);
    }
    let json = bytes
        .get(HEADER..HEADER + length)
        .ok_or(PagesError::Header)?;
    let found = crc32fast::hash(json);
    if found != expected {
        return Err(PagesError::Check { expected, found }.into());
    }
    Ok(serde_json::from_slice(json).map_err(PagesError::Json)?)
}

fn header(page: &[u8]) -> Option<(usize, u32)> {
    let text = std::str::from_utf8(page.get(..HEADER)?).ok()?;
    let mut words = text.split_ascii_whitespace();
    if words.next() != Some(MAGIC) {
        return None;
    }
    let length = words
        .next()?
        .parse()
        .ok()
        .filter(|length| *length <= CAPACITY)?;
    let check = u32::from_str_radix(words.next()?, 16).ok()?;
    Some((length, check))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::plan::*;

    fn plan(tasks: usize) -> Plan {
        let task = Task {
            cpus: vec![1],
            cgroup: None,
            threads: 1,
            policy: None,
        };
        Plan {
            contract: crate::CONTRACT,
            seed: 1,
            topology: Topology { nodes: vec![] },
            cgroup_version: CgroupVersion::V2,
            settings: vec![],
            cgroups: vec![],
            tasks: (0..tasks)
                .map(|i| (format!("task-{i}"), task.clone()))
                .collect::<BTreeMap<_, _>>(),
            steps: vec![],
            watch: Watch::default(),
        }
    }

    fn back(pages: &[Vec<u8>]) -> Result<Plan, PagesError> {
        decode(|index| Ok(pages[index].clone()))
    }

    #[test]
    fn a_plan_of_any_length_comes_back() {
        for tasks in [0, 10, 100, 400] {
            let pages = encode(&plan(tasks)).unwrap();
            assert_eq!(pages.len(), COUNT);
            assert!(pages.iter().all(|page| page.len() == PAGE));
            assert_eq!(back(&pages).unwrap(), plan(tasks));
        }
    }

    #[test]
    fn a_plan_that_is_too_long_is_refused() {
        assert!(matches!(
            encode(&plan(2000)),
            Err(PagesError::TooLong { .. })
        ));
    }

    #[test]
    fn a_corrupt_page_is_refused() {
        let mut pages = encode(&plan(100)).unwrap();
        pages[1][17] ^= 1;
        assert!(matches!(back(&pages), Err(PagesError::Check { .. })));
        pages[0][0] = b'x';
        assert!(matches!(back(&pages), Err(PagesError::Header)));
    }
}
