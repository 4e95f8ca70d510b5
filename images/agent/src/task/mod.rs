//! The task: the process that is measured.
//!
//! It never forks (that would reset its own `mm->numa_scan_seq`), reads commands from
//! standard input and replies on standard output; its standard error is the console.

pub(crate) mod counters;
pub(crate) mod launch;
pub(crate) mod layout;
pub(crate) mod placement;
pub(crate) mod policy;
pub(crate) mod populate;
pub(crate) mod region;
pub(crate) mod sleepers;
pub(crate) mod touch;
pub(crate) mod worker;

#[cfg(test)]
mod memory_tests;

use std::io::{self, Write};

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::errno::{CallError, failed};
use crate::message::Reply;

/// Why a command cannot be executed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TaskError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    File(#[from] crate::file::FileError),
    #[error("it has no region {0:?}")]
    NoRegion(String),
    #[error("it already has a region {0:?}")]
    Duplicate(String),
    #[error("no address is left for {0} bytes")]
    NoAddress(u64),
    #[error("the kernel mapped it at {got:#x} instead of {asked:#x}")]
    Elsewhere { asked: usize, got: usize },
    #[error("its pages are not accessible")]
    Inaccessible,
    #[error("CPU or node {0} is beyond the limits of this agent")]
    Number(u32),
    #[error("this kernel does not show numa_scan_seq in /proc/self/sched")]
    NoScanSeq,
    #[error(
        "only {got} of {wanted} KiB are in transparent huge pages; is \
         /sys/kernel/mm/transparent_hugepage/enabled \"never\", the default in a guest of less \
         than 512 MiB?"
    )]
    NotHuge { got: u64, wanted: u64 },
    #[error("node {node} has only {free} free huge pages, but {needed} are needed")]
    HugePages { node: u32, free: u64, needed: u64 },
}

/// The error that a system call has just returned.
fn refused(call: impl std::fmt::Display, cause: impl Into<io::Error>) -> TaskError {
    failed(format!("the kernel refuses {call}"))(cause).into()
}

/// Sends a reply to the agent.
fn reply(reply: &Reply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line)?;
    out.flush()
}

/// Sets the affinity of one thread.
fn set_affinity(thread: Option<rustix::thread::Pid>, cpus: &[u32]) -> Result<(), TaskError> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu as usize >= CpuSet::MAX_CPU {
            return Err(TaskError::Number(cpu));
        }
        set.set(cpu as usize);
    }
    sched_setaffinity(thread, &set).map_err(|errno| {
        let cpus = numalab_protocol::list::format(cpus);
        refused(format_args!("sched_setaffinity of CPUs {cpus}"), errno)
    })
}
