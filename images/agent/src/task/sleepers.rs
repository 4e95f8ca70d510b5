//! Threads that only sleep.
//!
//! All stacks are in one mapping: each stack of its own would be a VMA that the working
//! thread never faults in, and each such VMA costs a whole forced pass, during which
//! `numa_scan_seq` does not advance. A sleeping thread allocates nothing, so the C library
//! creates no heap for it.

use std::io;
use std::ptr;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

use super::{TaskError, refused};

/// Bytes of one stack. The minimum of glibc depends on the size of the CPU's register state,
/// and is well below this.
const STACK: usize = 64 * 1024;

extern "C" fn sleep_for_ever(_: *mut libc::c_void) -> *mut libc::c_void {
    loop {
        #[expect(
            unsafe_code,
            reason = "pause(2) has no safe wrapper, and must not allocate"
        )]
        // SAFETY: it takes no argument and touches no memory.
        unsafe {
            libc::pause();
        }
    }
}

/// Starts `count` threads.
pub(crate) fn start(count: u32) -> Result<(), TaskError> {
    if count == 0 {
        return Ok(());
    }
    let length = count as usize * STACK;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    #[expect(unsafe_code, reason = "the stacks' one mapping")]
    // SAFETY: a new private mapping at an address of the kernel's choice.
    let mapped = unsafe { mmap_anonymous(ptr::null_mut(), length, protection, MapFlags::PRIVATE) };
    let stacks = mapped
        .map_err(|errno| refused(format_args!("mmap of {length} bytes for stacks"), errno))?;
    #[expect(unsafe_code, reason = "the stacks' one mapping")]
    // SAFETY: the whole mapping made above. A kernel without huge pages refuses, and has
    // none to avoid.
    let _ = unsafe { madvise(stacks, length, Advice::LinuxNoHugepage) };
    for index in 0..count as usize {
        start_one(stacks.cast::<u8>().wrapping_add(index * STACK).cast())?;
    }
    Ok(())
}

#[expect(
    unsafe_code,
    reason = "the standard library cannot start a thread on a given stack"
)]
fn start_one(stack: *mut libc::c_void) -> Result<(), TaskError> {
    let check = |call, result: libc::c_int| match result {
        0 => Ok(()),
        number => Err(refused(call, io::Error::from_raw_os_error(number))),
    };
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: it initializes the attributes.
    check("pthread_attr_init", unsafe {
        libc::pthread_attr_init(attributes.as_mut_ptr())
    })?;
    // SAFETY: initialized by the call above.
    let mut attributes = unsafe { attributes.assume_init() };
    // SAFETY: `stack` points to `STACK` bytes of the stacks' mapping, which is never
    // unmapped and which no other thread uses.
    check("pthread_attr_setstack", unsafe {
        libc::pthread_attr_setstack(&raw mut attributes, stack, STACK)
    })?;
    let mut thread = std::mem::MaybeUninit::<libc::pthread_t>::uninit();
    // SAFETY: the attributes are initialized, and the function ignores its argument and never
    // returns; the thread is never joined.
    check("pthread_create", unsafe {
        libc::pthread_create(
            thread.as_mut_ptr(),
            &raw const attributes,
            sleep_for_ever,
            ptr::null_mut(),
        )
    })?;
    // SAFETY: initialized above, and not used any more.
    check("pthread_attr_destroy", unsafe {
        libc::pthread_attr_destroy(&raw mut attributes)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_threads_are_started() {
        let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
        let before = threads();
        super::start(3).unwrap();
        assert!(threads() >= before + 3);
    }
}
