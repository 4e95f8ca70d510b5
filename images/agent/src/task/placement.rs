//! Where pages are: `move_pages(2)` without target nodes only reports that.

use std::collections::BTreeMap;
use std::io;
use std::ptr;

use super::region::Region;
use super::{TaskError, refused};
use crate::plan_check::PAGE_SIZE;

/// Pages per call.
const BATCH: usize = 1024;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    /// Node and number of pages, ascending.
    pub(crate) nodes: Vec<(u32, u64)>,
    /// Pages that are on no node.
    pub(crate) absent: u64,
}

/// Finds the node of each page of a region.
pub(crate) fn find(region: &Region) -> Result<Placement, TaskError> {
    let mut nodes = BTreeMap::new();
    let mut absent = 0;
    let mut pages = Vec::with_capacity(BATCH);
    for vma in 0..region.count() {
        let mut page = 0;
        while page < region.pages() {
            let end = region.pages().min(page + BATCH);
            pages.clear();
            pages.extend((page..end).map(|page| region.vma(vma) + page * PAGE_SIZE as usize));
            for status in statuses(&pages)? {
                match u32::try_from(status) {
                    Ok(node) => *nodes.entry(node).or_insert(0) += 1,
                    Err(_) => absent += count_absent(status)?,
                }
            }
            page = end;
        }
    }
    Ok(Placement {
        nodes: nodes.into_iter().collect(),
        absent,
    })
}

/// Counts a page without a node: one that is not present, or the zero page, which does not
/// belong to the task (`do_pages_stat_array` of mm/migrate.c). Any other status is an error.
fn count_absent(status: i32) -> Result<u64, TaskError> {
    let cause = io::Error::from_raw_os_error(-status);
    match -status {
        libc::ENOENT | libc::EFAULT => Ok(1),
        _ => Err(refused("move_pages of a page", cause)),
    }
}

fn statuses(pages: &[usize]) -> Result<Vec<i32>, TaskError> {
    let mut statuses = vec![-libc::ENOENT; pages.len()];
    #[expect(unsafe_code, reason = "move_pages(2) has no safe wrapper")]
    // SAFETY: `pages` are addresses that the kernel does not dereference; it writes
    // `pages.len()` numbers to `statuses`, which has as many. 0 is the calling process.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0,
            pages.len(),
            pages.as_ptr(),
            ptr::null::<libc::c_int>(),
            statuses.as_mut_ptr(),
            0,
        )
    };
    if result < 0 {
        let cause = io::Error::last_os_error();
        return Err(refused("move_pages", cause));
    }
    Ok(statuses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_missing_pages_and_the_zero_page_are_absent() {
        assert_eq!(count_absent(-libc::ENOENT).unwrap(), 1);
        assert_eq!(count_absent(-libc::EFAULT).unwrap(), 1);
        let error = count_absent(-libc::EBUSY).unwrap_err().to_string();
        assert!(error.contains("EBUSY"), "{error}");
    }
}
