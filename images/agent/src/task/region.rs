//! Regions: anonymous memory that a task maps, protects and unmaps.

use std::ptr;

use numalab_protocol::plan::{self, Access, PageKind, Sharing};
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap,
};

use super::layout::Layout;
use super::{TaskError, refused};
use crate::plan_check::PAGE_SIZE;

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
    /// Maps a region with a protection, without touching it.
    pub(crate) fn map(
        asked: &plan::Region,
        layout: &mut Layout,
        access: Access,
    ) -> Result<Self, TaskError> {
        let too_large = || TaskError::NoAddress(asked.size);
        // A single VMA has no gap.
        let gap = if asked.count > 1 { asked.gap } else { 0 };
        let stride = asked.size.checked_add(gap).ok_or_else(too_large)?;
        let bytes = stride.checked_mul(u64::from(asked.count));
        let start = layout.place(bytes.ok_or_else(too_large)?)?;
        let fits = |number: u64| usize::try_from(number).map_err(|_| too_large());
        let region = Region {
            start: fits(start)?,
            size: fits(asked.size)?,
            count: asked.count as usize,
            stride: fits(stride)?,
            access,
        };
        for vma in 0..region.count {
            region.map_one(vma, asked)?;
        }
        Ok(region)
    }

    fn map_one(&self, vma: usize, asked: &plan::Region) -> Result<(), TaskError> {
        let address = self.vma(vma);
        let sharing = match asked.sharing {
            Sharing::Private => MapFlags::PRIVATE,
            Sharing::Shared => MapFlags::SHARED,
        };
        let pages = match asked.pages {
            PageKind::Base | PageKind::TransparentHuge => MapFlags::empty(),
            PageKind::Hugetlb => MapFlags::HUGETLB | MapFlags::HUGE_2MB,
        };
        let protection = match self.access {
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
            Access::Read => ProtFlags::READ,
            Access::None => ProtFlags::empty(),
        };
        let flags = sharing | pages | MapFlags::FIXED_NOREPLACE;
        let wanted = ptr::with_exposed_provenance_mut(address);
        #[expect(unsafe_code, reason = "mapping memory")]
        // SAFETY: FIXED_NOREPLACE replaces no mapping; a kernel that does not know the flag
        // uses the address as a hint, which replaces none either.
        let mapped = unsafe { mmap_anonymous(wanted, self.size, protection, flags) };
        let mapped = mapped.map_err(|errno| self.refused("mmap", vma, errno))?;
        let got = mapped.expose_provenance();
        if got != address {
            return Err(TaskError::Elsewhere {
                asked: address,
                got,
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
            // A kernel without huge pages rejects advice on them, and uses base pages.
            Err(rustix::io::Errno::INVAL) if asked.pages == PageKind::Base => Ok(()),
            result => result.map_err(|errno| self.refused("madvise", vma, errno)),
        }
    }

    fn refused(&self, call: &'static str, vma: usize, errno: rustix::io::Errno) -> TaskError {
        let (size, address) = (self.size, self.vma(vma));
        refused(
            format_args!("{call} of {size} bytes at {address:#x}"),
            errno,
        )
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
            // SAFETY: a VMA of this region, which is consumed here.
            unsafe { munmap(address, self.size) }
                .map_err(|errno| self.refused("munmap", vma, errno))?;
        }
        Ok(())
    }
}
