//! Regions and touches, tested in the memory of the test process.

use numalab_protocol::plan::{self, Access, PageKind, Populate, Sharing, Until};

use super::layout::Layout;
use super::region::Region;
use super::touch::{Touched, probe, run};
use super::{TaskError, placement, populate};
use crate::clock::{self, MS};
use crate::plan_check::PAGE_SIZE;

/// Gives each test addresses of its own: the threads of a test run share a process.
fn map(name: &str, access: Access, populate: Populate) -> Region {
    let seed = name.bytes().map(u64::from).sum();
    let mut layout = Layout::new(seed, name);
    layout.place(1 << (31 + seed % 8)).unwrap();
    let asked = plan::Region {
        name: name.into(),
        size: 4 * PAGE_SIZE,
        count: 3,
        gap: PAGE_SIZE,
        pages: PageKind::Base,
        sharing: Sharing::Private,
        access,
        populate,
    };
    populate::map(&asked, &mut layout, None).unwrap()
}

#[test]
fn a_probe_counts_the_first_touch_of_each_page_once() {
    let region = map("fresh", Access::ReadWrite, Populate::No);
    // One fault per page: a touch starts with a write, never with a read of the zero page.
    assert_eq!(probe(&region).unwrap(), [4, 4, 4]);
    assert_eq!(probe(&region).unwrap(), [0, 0, 0]);
    region.unmap().unwrap();
}

#[test]
fn populated_pages_do_not_fault_and_have_a_node() {
    let region = map("populated", Access::ReadWrite, Populate::Yes);
    assert_eq!(probe(&region).unwrap(), [0, 0, 0]);
    let places = placement::find(&region).unwrap();
    assert_eq!(places.absent, 0);
    assert_eq!(places.nodes.iter().map(|(_, pages)| pages).sum::<u64>(), 12);
}

#[test]
fn untouched_pages_are_absent() {
    let region = map("absent", Access::ReadWrite, Populate::No);
    let places = placement::find(&region).unwrap();
    assert_eq!((places.absent, places.nodes), (12, vec![]));
}

#[test]
fn protections_decide_how_pages_are_touched() {
    let mut region = map("protected", Access::Read, Populate::Yes);
    assert_eq!(probe(&region).unwrap(), [0, 0, 0]);
    region.protect(Access::None).unwrap();
    assert!(matches!(probe(&region), Err(TaskError::Inaccessible)));
    region.protect(Access::ReadWrite).unwrap();
    let passes = Until::Passes { count: 3 };
    assert_eq!(run(&region, &passes).unwrap(), Touched::Done);
}

#[test]
fn touching_ends_after_its_time() {
    let region = map("timed", Access::ReadWrite, Populate::Yes);
    let before = clock::uptime_ns();
    run(&region, &Until::Elapsed { ms: 5 }).unwrap();
    assert!(clock::uptime_ns() - before >= 5 * MS);
}

#[test]
fn a_region_that_is_too_large_is_refused() {
    let asked = plan::Region {
        name: "large".into(),
        size: 1 << 40,
        count: u32::MAX,
        gap: PAGE_SIZE,
        pages: PageKind::Base,
        sharing: Sharing::Private,
        access: Access::ReadWrite,
        populate: Populate::No,
    };
    let mut layout = Layout::new(1, "large");
    let error = populate::map(&asked, &mut layout, None).unwrap_err();
    assert!(matches!(error, TaskError::NoAddress(_)), "{error}");
}
