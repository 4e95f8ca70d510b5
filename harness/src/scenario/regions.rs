//! Regions: the verbs `map` and `touch`.

use std::collections::BTreeMap;

use numalab_protocol::plan::{Access, Command, PageKind, Populate, Region, Sharing, Until};

use super::extent::Extent;
use super::problems::Problems;
use super::raw::{RawAccess, RawAction, RawPages};
use super::{name, quantity};

/// The regions that are mapped, by task and name.
#[derive(Debug)]
pub(super) struct Regions<'a> {
    extent: &'a Extent,
    mapped: BTreeMap<(String, String), Region>,
}

impl<'a> Regions<'a> {
    pub(super) fn new(extent: &'a Extent) -> Regions<'a> {
        Regions {
            extent,
            mapped: BTreeMap::new(),
        }
    }

    /// The region of this name; an unknown one is a problem of the key `verb`.
    pub(super) fn get(
        &self,
        path: &str,
        verb: &str,
        task: &str,
        name: &str,
        problems: &mut Problems,
    ) -> Option<&Region> {
        let found = self.mapped.get(&(task.to_owned(), name.to_owned()));
        if found.is_none() {
            let own = self.mapped.keys().filter(|(owner, _)| owner == task);
            let known: Vec<&str> = own.map(|(_, region)| region.as_str()).collect();
            let what = format!("region of task {task:?}, mapped before this action,");
            problems.unknown(&format!("{path}.{verb}"), &what, name, known);
        }
        found
    }

    pub(super) fn unmap(&mut self, task: &str, name: &str) {
        self.mapped.remove(&(task.to_owned(), name.to_owned()));
    }

    /// The commands of `touch`: one to give before the measurement, if any, and its own.
    pub(super) fn touch(
        &mut self,
        path: &str,
        task: &str,
        raw: &RawAction,
        problems: &mut Problems,
    ) -> Option<(Option<Command>, Command)> {
        let name = raw.touch.as_deref()?;
        let mut before = None;
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            let region = self.sized(path, "touch", name, raw, problems)?;
            let key = (task.to_owned(), name.to_owned());
            match self.mapped.get(&key) {
                None => {
                    self.check_room(&format!("{path}.touch"), task, &region, problems);
                    self.mapped.insert(key, region.clone());
                    before = Some(Command::Map(region));
                }
                Some(known) if *known == region => {}
                Some(_) => problems.add(
                    format!("{path}.touch"),
                    format!("task {task:?} already has another region {name}: use `map`"),
                ),
            }
        } else {
            for (key, given) in [
                ("pages", raw.pages.is_some()),
                ("shared", raw.shared.is_some()),
                ("on-node", raw.on_node.is_some()),
            ] {
                if given {
                    let message = format!("`{key}` does not go with `touch` of a mapped region");
                    problems.add(format!("{path}.{key}"), message);
                }
            }
            let region = self.get(path, "touch", task, name, problems)?;
            if region.populate == Populate::No {
                let touched = Region {
                    populate: Populate::Yes,
                    ..region.clone()
                };
                self.check_room(&format!("{path}.touch"), task, &touched, problems);
            }
        }
        let until = until(path, raw, problems)?;
        let region = name.to_owned();
        Some((before, Command::Touch { region, until }))
    }

    pub(super) fn map(
        &mut self,
        path: &str,
        task: &str,
        raw: &RawAction,
        problems: &mut Problems,
    ) -> Option<Region> {
        let name = raw.map.clone()?;
        name::check(&format!("{path}.map"), "region", &name, problems);
        let Some(size) = &raw.size else {
            problems.add(path, "`map` needs a `size`");
            return None;
        };
        let mut region = self.sized(path, "size", size, raw, problems)?;
        region.name.clone_from(&name);
        region.count = raw.count.unwrap_or(1);
        if !(1..=65_536).contains(&region.count) {
            problems.add(format!("{path}.count"), "a region has 1 to 65536 VMAs");
        }
        if let Some(gap) = &raw.gap {
            let at = format!("{path}.gap");
            region.gap = problems.take(&at, quantity::bytes(gap))?;
            if region.gap == 0 && region.count > 1 {
                problems.add(&at, "without a gap the VMAs merge into one");
            }
            if region.gap % unit(region.pages) != 0 {
                problems.add(
                    &at,
                    "huge pages are aligned, so the gap is a multiple of 2MiB",
                );
            }
        }
        region.access = raw.access.map_or(Access::ReadWrite, access_of);
        if raw.populate == Some(false) {
            if raw.on_node.is_some() {
                let message = "`on-node` is where pages are populated, so it does not go with \
                               `populate: false`";
                problems.add(format!("{path}.on-node"), message);
            }
            region.populate = Populate::No;
        }
        if region.populate != Populate::No {
            self.check_room(&format!("{path}.size"), task, &region, problems);
        }
        let key = (task.to_owned(), name.clone());
        if self.mapped.insert(key, region.clone()).is_some() {
            let message = format!("task {task:?} already has a region {name:?}");
            problems.add(format!("{path}.map"), message);
        }
        Some(region)
    }

    /// A populated region of one VMA, named after its size.
    fn sized(
        &self,
        path: &str,
        key: &str,
        size: &str,
        raw: &RawAction,
        problems: &mut Problems,
    ) -> Option<Region> {
        let at = format!("{path}.{key}");
        let bytes = problems.take(&at, quantity::bytes(size))?;
        let pages = match raw.pages {
            None | Some(RawPages::Base) => PageKind::Base,
            Some(RawPages::TransparentHuge) => PageKind::TransparentHuge,
            Some(RawPages::Hugetlb) => PageKind::Hugetlb,
        };
        if bytes == 0 || bytes % unit(pages) != 0 {
            let message = format!("{size} is not a whole number of such pages, and at least one");
            problems.add(&at, message);
        }
        if let Some(node) = raw.on_node {
            self.extent.node(&format!("{path}.on-node"), node, problems);
        }
        Some(Region {
            name: size.to_owned(),
            size: bytes,
            count: 1,
            gap: (64 << 10).max(unit(pages)),
            pages,
            sharing: if raw.shared == Some(true) {
                Sharing::Shared
            } else {
                Sharing::Private
            },
            access: Access::ReadWrite,
            populate: raw.on_node.map_or(Populate::Yes, Populate::Node),
        })
    }

    /// Refuses a region whose pages cannot all be in memory, with the task's other ones.
    fn check_room(&self, at: &str, task: &str, region: &Region, problems: &mut Problems) {
        let populated = |region: &&Region| region.populate != Populate::No;
        let own = self.mapped.iter().filter(|((owner, _), _)| owner == task);
        let own: Vec<&Region> = own.map(|(_, region)| region).filter(populated).collect();
        let needed = |node: Option<u32>| -> u64 {
            let on_node =
                |other: &&&Region| node.is_none_or(|node| other.populate == Populate::Node(node));
            let sizes = own.iter().filter(on_node).map(|other| bytes(other));
            sizes.fold(bytes(region), u64::saturating_add)
        };
        let node = match region.populate {
            Populate::Node(node) => Some(node),
            Populate::Yes | Populate::No => None,
        };
        for node in [None].into_iter().chain(node.map(Some)) {
            let (Some(room), needed) = (self.extent.memory(node), needed(node)) else {
                continue;
            };
            if needed >= room {
                let what = node.map_or("the machine".to_owned(), |node| format!("node {node}"));
                let message = format!(
                    "task {task:?} would have {} MiB of memory in use here, but {what} has only \
                     {} MiB, part of which the kernel takes",
                    needed >> 20,
                    room >> 20
                );
                problems.add(at, message);
                return;
            }
        }
    }
}

fn bytes(region: &Region) -> u64 {
    region.size.saturating_mul(u64::from(region.count))
}

fn until(path: &str, raw: &RawAction, problems: &mut Problems) -> Option<Until> {
    if raw.within.is_some() && raw.until_scan_seq.is_none() {
        let message = "`within` does not go with `touch` without `until-scan-seq`";
        problems.add(format!("{path}.within"), message);
    }
    match (&raw.r#for, raw.passes, raw.until_scan_seq) {
        (Some(text), None, None) => {
            let at = format!("{path}.for");
            let ms = problems.take(&at, quantity::milliseconds(text))?;
            if ms == 0 {
                problems.add(at, "touching for no time does nothing");
            }
            Some(Until::Elapsed { ms })
        }
        (None, Some(count), None) => {
            if count == 0 {
                problems.add(format!("{path}.passes"), "touching zero times does nothing");
            }
            Some(Until::Passes { count })
        }
        (None, None, Some(at_least)) => {
            if at_least < 1 {
                let message = "the scan sequence starts at 0, so the value must be at least 1";
                problems.add(format!("{path}.until-scan-seq"), message);
            }
            let Some(within) = &raw.within else {
                problems.add(path, "`until-scan-seq` needs a time limit: `within`");
                return None;
            };
            let at = format!("{path}.within");
            let within_ms = problems.take(&at, quantity::milliseconds(within))?;
            Some(Until::ScanSeq {
                at_least,
                within_ms,
            })
        }
        _ => {
            let message = "`touch` needs exactly one of `for`, `passes`, `until-scan-seq`";
            problems.add(path, message);
            None
        }
    }
}

/// The size of the pages that a region consists of.
fn unit(pages: PageKind) -> u64 {
    match pages {
        PageKind::Base => 4 << 10,
        PageKind::TransparentHuge | PageKind::Hugetlb => 2 << 20,
    }
}

pub(super) fn access_of(raw: RawAccess) -> Access {
    match raw {
        RawAccess::ReadWrite => Access::ReadWrite,
        RawAccess::Read => Access::Read,
        RawAccess::None => Access::None,
    }
}
