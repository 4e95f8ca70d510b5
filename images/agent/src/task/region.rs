//! Regions: anonymous memory that a task maps, protects and unmaps.

use std::ptr;

use numalab_protocol::plan::{self, Access, PageKind, Policy, Populate, Sharing};
use numalab_protocol::procfs;
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap,
};
use rustix::thread::sched_getcpu;

use super::layout::Layout;
use super::{TaskError, policy, touch};
use crate::coherence::{HUGE_PAGE_SIZE, PAGE_SIZE};
use crate::file;

/// A mapped region.
#[derive(Debug)]
pub(crate) struct Region {
    start: usize,
    size: usize,
    count: usize,
    stride: usize,
    access: Access,
}

impl Region {
    /// Maps a region and, if asked, populates it; `task_policy` is what the task's memory
    /// policy is otherwise.
    pub(crate) fn map(
        asked: &plan::Region,
        layout: &mut Layout,
        task_policy: Option<&Policy>,
    ) -> Result<Self, TaskError> {
        // One VMA has no gap.
        let gap = if asked.count > 1 { asked.gap } else { 0 };
        let stride = asked
            .size
            .checked_add(gap)
            .ok_or(TaskError::NoAddress(asked.size))?;
        let bytes = stride
            .checked_mul(u64::from(asked.count))
            .ok_or(TaskError::NoAddress(stride))?;
        let start = layout.place(bytes)?;
        let fits = |number: u64| usize::try_from(number).map_err(|_| TaskError::NoAddress(number));
        let mut region = Region {
            start: fits(start)?,
            size: fits(asked.size)?,
            count: asked.count as usize,
            stride: fits(stride)?,
            access: asked.access,
        };
        if asked.pages == PageKind::Hugetlb {
            reserve(asked)?;
        }
        let first = match asked.populate {
            Populate::No => asked.access,
            Populate::Yes | Populate::Node(_) => Access::ReadWrite,
        };
        for vma in 0..region.count {
            region.map_one(vma, asked, first)?;
        }
        if asked.populate == Populate::No {
            return Ok(region);
        }
        let huge_before = huge_kib(asked)?;
        if let Populate::Node(node) = asked.populate {
            policy::bind(node)?;
            touch::write_once(&region);
            policy::restore(task_policy)?;
        } else {
            touch::write_once(&region);
        }
        check_huge(asked, huge_before)?;
        if asked.access != first {
            region.protect(asked.access)?;
        }
        Ok(region)
    }

    fn map_one(&self, vma: usize, asked: &plan::Region, access: Access) -> Result<(), TaskError> {
        let address = self.vma(vma);
        let sharing = match asked.sharing {
            Sharing::Private => MapFlags::PRIVATE,
            Sharing::Shared => MapFlags::SHARED,
        };
        let pages = match asked.pages {
            PageKind::Base | PageKind::TransparentHuge => MapFlags::empty(),
            PageKind::Hugetlb => MapFlags::HUGETLB | MapFlags::HUGE_2MB,
        };
        let protection = match access {
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
            Access::Read => ProtFlags::READ,
            Access::None => ProtFlags::empty(),
        };
        let flags = sharing | pages | MapFlags::FIXED_NOREPLACE;
        let wanted = ptr::with_exposed_provenance_mut(address);
        #[expect(unsafe_code, reason = "mapping memory")]
        // SAFETY: FIXED_NOREPLACE replaces no mapping; a kernel that does not know it takes
        // the address as a hint, which replaces none either.
        let mapped = unsafe { mmap_anonymous(wanted, self.size, protection, flags) };
        let mapped = mapped.map_err(|errno| self.refused("mmap", vma, errno))?;
        let came = mapped.expose_provenance();
        if came != address {
            return Err(TaskError::Elsewhere {
                asked: address,
                came,
            });
        }
        let advice = match asked.pages {
            PageKind::Base => Advice::LinuxNoHugepage,
            PageKind::TransparentHuge => Advice::LinuxHugepage,
            PageKind::Hugetlb => return Ok(()),
        };
        #[expect(unsafe_code, reason = "advice on mapped memory")]
        // SAFETY: the VMA mapped above; this advice keeps its contents.
        match unsafe { madvise(mapped, self.size, advice) } {
            // A kernel without huge pages knows no advice on them, and gives base pages.
            Err(rustix::io::Errno::INVAL) if asked.pages == PageKind::Base => Ok(()),
            result => result.map_err(|errno| self.refused("madvise", vma, errno)),
        }
    }

    fn refused(&self, call: &'static str, vma: usize, errno: rustix::io::Errno) -> TaskError {
        let (size, address) = (self.size, self.vma(vma));
        TaskError::call(call, format!(" of {size} bytes at {address:#x}"), errno)
    }

    /// The number of VMAs.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Base pages of each VMA.
    pub(crate) fn pages(&self) -> usize {
        self.size / PAGE_SIZE as usize
    }

    /// The address of a VMA.
    pub(crate) fn vma(&self, index: usize) -> usize {
        self.start + index * self.stride
    }

    pub(crate) fn access(&self) -> Access {
        self.access
    }

    /// Changes the protection of all VMAs.
    pub(crate) fn protect(&mut self, access: Access) -> Result<(), TaskError> {
        let flags = match access {
            Access::ReadWrite => MprotectFlags::READ | MprotectFlags::WRITE,
            Access::Read => MprotectFlags::READ,
            Access::None => MprotectFlags::empty(),
        };
        for vma in 0..self.count {
            let address = ptr::with_exposed_provenance_mut(self.vma(vma));
            #[expect(unsafe_code, reason = "protecting mapped memory")]
            // SAFETY: a VMA of this region, whose memory no reference points to.
            unsafe { mprotect(address, self.size, flags) }
                .map_err(|errno| self.refused("mprotect", vma, errno))?;
        }
        self.access = access;
        Ok(())
    }

    /// Unmaps the region. Its addresses are not used again.
    pub(crate) fn unmap(self) -> Result<(), TaskError> {
        for vma in 0..self.count {
            let address = ptr::with_exposed_provenance_mut(self.vma(vma));
            #[expect(unsafe_code, reason = "unmapping mapped memory")]
            // SAFETY: a VMA of this region, which is given up here.
            unsafe { munmap(address, self.size) }
                .map_err(|errno| self.refused("munmap", vma, errno))?;
        }
        Ok(())
    }
}

/// Memory of the task that is mapped by transparent huge pages, if that matters.
fn huge_kib(asked: &plan::Region) -> Result<u64, TaskError> {
    if asked.pages != PageKind::TransparentHuge {
        return Ok(0);
    }
    let path = "/proc/self/smaps_rollup";
    let text = file::read(path)?;
    procfs::smaps_huge_kib(&text)
        .ok_or_else(|| file::FileError::form(path, &text, "a process's smaps_rollup").into())
}

/// Checks that a populated region is made of the huge pages that were asked for. The kernel
/// falls back to base pages in silence, and what is measured then is something else.
fn check_huge(asked: &plan::Region, before: u64) -> Result<(), TaskError> {
    if asked.pages != PageKind::TransparentHuge {
        return Ok(());
    }
    let wanted = asked.size / 1024 * u64::from(asked.count);
    let came = huge_kib(asked)?.saturating_sub(before);
    if came == wanted {
        return Ok(());
    }
    Err(TaskError::NotHuge { came, wanted })
}

/// Adds the huge pages that a region needs to the kernel's pool: on the node that the region
/// is populated on, or else on the one that the task runs on.
fn reserve(asked: &plan::Region) -> Result<(), TaskError> {
    let node = match asked.populate {
        Populate::Node(node) => node,
        Populate::No | Populate::Yes => own_node()?,
    };
    let needed = (asked.size / HUGE_PAGE_SIZE).saturating_mul(u64::from(asked.count));
    let directory = format!("/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB");
    let number = |name: &str| {
        let path = format!("{directory}/{name}");
        let text = file::read(&path)?;
        text.trim_end()
            .parse::<u64>()
            .map_err(|_| file::FileError::form(&path, &text, "a number"))
    };
    let total = number("nr_hugepages")?.saturating_add(needed);
    file::write(&format!("{directory}/nr_hugepages"), &total.to_string())?;
    let free = number("free_hugepages")?;
    if free < needed {
        return Err(TaskError::HugePages { node, free, needed });
    }
    Ok(())
}

/// The node of the CPU that the task runs on.
fn own_node() -> Result<u32, TaskError> {
    let path = format!("/sys/devices/system/cpu/cpu{}", sched_getcpu());
    let entries = std::fs::read_dir(&path).map_err(|cause| file::FileError::Read {
        path: path.clone(),
        cause,
    })?;
    let node = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .find_map(|name| name.strip_prefix("node")?.parse().ok());
    Ok(node.ok_or_else(|| file::FileError::form(&path, "", "a CPU of a node"))?)
}
