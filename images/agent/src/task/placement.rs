//! Where pages are: `move_pages(2)` without nodes, which only asks.

use std::collections::BTreeMap;
use std::io;
use std::ptr;

use super::TaskError;
use super::region::Region;
use crate::coherence::PAGE_SIZE;

/// Pages asked about in one call.
const BATCH: usize = 1024;

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    /// Node and count, ascending.
    pub(crate) nodes: Vec<(u32, u64)>,
    /// Pages that are nowhere.
    pub(crate) absent: u64,
}

/// Asks about each page of a region.
pub(crate) fn ask(region: &Region) -> Result<Placement, TaskError> {
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
                    Err(_) => absent += nowhere(status)?,
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

/// A page without a node: one that is not there, or the zero page, which is not the task's
/// (`do_pages_stat_array` of mm/migrate.c). Anything else is an error.
fn nowhere(status: i32) -> Result<u64, TaskError> {
    let cause = io::Error::from_raw_os_error(-status);
    match -status {
        libc::ENOENT | libc::EFAULT => Ok(1),
        _ => Err(TaskError::call("move_pages", " of a page", cause)),
    }
}

fn statuses(pages: &[usize]) -> Result<Vec<i32>, TaskError> {
    let mut statuses = vec![-libc::ENOENT; pages.len()];
    #[expect(unsafe_code, reason = "move_pages(2) has no safe wrapper")]
    // SAFETY: `pages` are addresses, which the kernel does not follow; it writes
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
        return Err(TaskError::call("move_pages", "", cause));
    }
    Ok(statuses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_nowhere_is_absent() {
        assert_eq!(nowhere(-libc::ENOENT).unwrap(), 1);
        assert_eq!(nowhere(-libc::EFAULT).unwrap(), 1);
        let error = nowhere(-libc::EBUSY).unwrap_err().to_string();
        assert!(error.contains("EBUSY"), "{error}");
    }
}
