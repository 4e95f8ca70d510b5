//! Regions and touching them: the verbs `map` and `touch`.

use numalab_protocol::plan::{Access, Command, PageKind, Populate, Region, Sharing, Until};

use super::raw::{RawAccess, RawAction, RawPages};
use super::steps::Resolver;
use super::{name, quantity};

impl Resolver<'_> {
    pub(super) fn touch(
        &mut self,
        path: &str,
        task: &str,
        raw: &RawAction,
    ) -> Option<(Vec<Command>, Vec<Command>)> {
        let name = raw.touch.as_deref()?;
        let mut before = Vec::new();
        if is_size(name) {
            let region = self.sized_region(path, name, raw)?;
            let key = (task.to_owned(), name.to_owned());
            match self.regions.get(&key) {
                None => {
                    self.regions.insert(key, region.clone());
                    before.push(Command::Map(region));
                }
                Some(known) if *known == region => {}
                Some(_) => self.problems.add(
                    format!("{path}.touch"),
                    format!("task {task:?} has another region of {name} already: use `map`"),
                ),
            }
        } else {
            self.region(path, "touch", task, name)?;
        }
        let until = self.until(path, raw)?;
        Some((
            before,
            vec![Command::Touch {
                region: name.to_owned(),
                until,
            }],
        ))
    }

    fn until(&mut self, path: &str, raw: &RawAction) -> Option<Until> {
        match (&raw.r#for, raw.passes, raw.until_scan_seq) {
            (Some(text), None, None) => {
                let ms = self
                    .problems
                    .take(&format!("{path}.for"), quantity::milliseconds(text))?;
                if ms == 0 {
                    self.problems
                        .add(format!("{path}.for"), "touching for no time does nothing");
                }
                Some(Until::Elapsed { ms })
            }
            (None, Some(count), None) => {
                if count == 0 {
                    self.problems
                        .add(format!("{path}.passes"), "no pass does nothing");
                }
                Some(Until::Passes { count })
            }
            (None, None, Some(at_least)) => {
                if at_least < 1 {
                    let message = "a sequence starts at 0: waiting for less than 1 is no wait";
                    self.problems.add(format!("{path}.until-scan-seq"), message);
                }
                let Some(within) = &raw.within else {
                    self.problems
                        .add(path, "`until-scan-seq` needs `within`: no endless wait");
                    return None;
                };
                let at = format!("{path}.within");
                let within_ms = self.problems.take(&at, quantity::milliseconds(within))?;
                Some(Until::ScanSeq {
                    at_least,
                    within_ms,
                })
            }
            _ => {
                self.problems.add(
                    path,
                    "`touch` needs exactly one of `for`, `passes`, `until-scan-seq`",
                );
                None
            }
        }
    }

    pub(super) fn map(&mut self, path: &str, task: &str, raw: &RawAction) -> Option<Region> {
        let name = raw.map.clone()?;
        if !name::is_name(&name) {
            let message = "a region's name is made of lower-case letters, digits and dashes";
            self.problems.add(format!("{path}.map"), message);
        }
        let Some(size) = &raw.size else {
            self.problems.add(path, "`map` needs a `size`");
            return None;
        };
        let mut region = self.sized_region(path, size, raw)?;
        region.name.clone_from(&name);
        region.count = raw.count.unwrap_or(1);
        if !(1..=65_536).contains(&region.count) {
            self.problems
                .add(format!("{path}.count"), "1 to 65536 VMAs");
        }
        if let Some(gap) = &raw.gap {
            region.gap = self
                .problems
                .take(&format!("{path}.gap"), quantity::bytes(gap))?;
            if region.gap == 0 && region.count > 1 {
                let message = "without a gap the VMAs merge into one";
                self.problems.add(format!("{path}.gap"), message);
            }
            if region.gap % unit(region.pages) != 0 {
                let message = "huge pages are aligned to 2MiB, so the gap is whole ones, too";
                self.problems.add(format!("{path}.gap"), message);
            }
        }
        region.access = raw.access.map_or(Access::ReadWrite, access_of);
        if raw.populate == Some(false) {
            if raw.on_node.is_some() {
                let message = "`on-node` is where pages are populated: not with `populate: false`";
                self.problems.add(format!("{path}.on-node"), message);
            }
            region.populate = Populate::No;
        }
        if self
            .regions
            .insert((task.to_owned(), name.clone()), region.clone())
            .is_some()
        {
            let message = format!("task {task:?} has a region {name:?} already");
            self.problems.add(format!("{path}.map"), message);
        }
        Some(region)
    }

    // A populated region of one VMA, named by its size.
    fn sized_region(&mut self, path: &str, size: &str, raw: &RawAction) -> Option<Region> {
        let verb = if raw.map.is_some() { "size" } else { "touch" };
        let bytes = self
            .problems
            .take(&format!("{path}.{verb}"), quantity::bytes(size))?;
        let pages = match raw.pages {
            None | Some(RawPages::Base) => PageKind::Base,
            Some(RawPages::TransparentHuge) => PageKind::TransparentHuge,
            Some(RawPages::Hugetlb) => PageKind::Hugetlb,
        };
        if bytes == 0 || bytes % unit(pages) != 0 {
            let message = format!("{size} is not a whole number of such pages, and at least one");
            self.problems.add(format!("{path}.{verb}"), message);
        }
        if let Some(node) = raw.on_node {
            self.extent
                .node(&format!("{path}.on-node"), node, self.problems);
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
}

// Bytes that a region of such pages is made of.
fn unit(pages: PageKind) -> u64 {
    match pages {
        PageKind::Base => 4 << 10,
        PageKind::TransparentHuge | PageKind::Hugetlb => 2 << 20,
    }
}

/// Whether a word of `touch` is a size, and not a region's name.
pub(super) fn is_size(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

/// The protection that a word means.
pub(super) fn access_of(raw: RawAccess) -> Access {
    match raw {
        RawAccess::ReadWrite => Access::ReadWrite,
        RawAccess::Read => Access::Read,
        RawAccess::None => Access::None,
    }
}
