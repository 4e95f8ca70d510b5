//! Counters of the task itself.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use numalab_protocol::procfs;

use super::{TaskError, refused};
use crate::file::FileError;

/// Minor faults of the calling thread since it began.
pub(crate) fn minor_faults() -> Result<u64, TaskError> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    #[expect(unsafe_code, reason = "getrusage(2) of a thread has no safe wrapper")]
    // SAFETY: the kernel fills in the whole structure, which is all zeroes before.
    let (result, usage) = unsafe {
        let result = libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        (result, usage.assume_init())
    };
    if result < 0 {
        return Err(refused("getrusage", io::Error::last_os_error()));
    }
    Ok(u64::try_from(usage.ru_minflt).unwrap_or(0))
}

const SCHED: &str = "/proc/self/sched";

/// `mm->numa_scan_seq` of the task, read again and again.
#[derive(Debug)]
pub(crate) struct ScanSeq {
    file: File,
    text: Vec<u8>,
}

impl ScanSeq {
    pub(crate) fn open() -> Result<Self, TaskError> {
        let file = File::open(SCHED).map_err(ScanSeq::failed)?;
        // The file has about 60 lines of 70 bytes, and more with SCHEDSTATS.
        let text = vec![0; 16 * 1024];
        Ok(ScanSeq { file, text })
    }

    fn failed(cause: io::Error) -> TaskError {
        TaskError::File(FileError::Read {
            path: SCHED.into(),
            cause,
        })
    }

    /// Reads the current value.
    pub(crate) fn read(&mut self) -> Result<i64, TaskError> {
        // The file is one record of a seq_file, so a buffer that is large enough receives all
        // of it.
        let length = self
            .file
            .read_at(&mut self.text, 0)
            .map_err(ScanSeq::failed)?;
        let text = String::from_utf8_lossy(&self.text[..length]);
        procfs::scan_seq(&text).ok_or(TaskError::NoScanSeq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_new_memory_is_counted() {
        let before = minor_faults().unwrap();
        let memory = vec![1_u8; 16 << 20];
        assert_eq!(std::hint::black_box(&memory)[0], 1);
        assert!(minor_faults().unwrap() > before);
    }
}
