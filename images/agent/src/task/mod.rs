//! The task: the process that is measured.
//!
//! It never forks (that would set its own `mm->numa_scan_seq` back), takes its commands
//! from standard input and answers on standard output; its standard error is the console.

pub(crate) mod counters;
pub(crate) mod launch;
pub(crate) mod layout;
pub(crate) mod placement;
pub(crate) mod policy;
pub(crate) mod region;
pub(crate) mod sleepers;
pub(crate) mod touch;
pub(crate) mod worker;

use std::io::{self, Write};

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::errno;
use crate::message::Reply;

/// Why a command cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TaskError {
    #[error("the kernel refuses {call}{detail}: {}", errno::text(.cause))]
    Call {
        call: &'static str,
        detail: String,
        cause: io::Error,
    },
    #[error(transparent)]
    File(#[from] crate::file::FileError),
    #[error("it has no region {0:?}")]
    NoRegion(String),
    #[error("it has a region {0:?} already")]
    Doubled(String),
    #[error("no address is left for {0} bytes")]
    NoAddress(u64),
    #[error("the mapping came at {came:#x} instead of {asked:#x}")]
    Elsewhere { asked: usize, came: usize },
    #[error("its pages are not accessible")]
    Inaccessible,
    #[error("CPU or node {0} is above what this agent knows")]
    Number(u32),
    #[error("this kernel does not show numa_scan_seq in /proc/self/sched")]
    NoScanSeq,
    #[error(
        "{came} of {wanted} KiB came as transparent huge pages; is \
         /sys/kernel/mm/transparent_hugepage/enabled \"never\", as it is by itself in a guest \
         of less than 512 MiB?"
    )]
    NotHuge { came: u64, wanted: u64 },
    #[error("node {node} has only {free} free huge pages of the {needed} that are needed")]
    HugePages { node: u32, free: u64, needed: u64 },
}

impl TaskError {
    /// The error that a system call has just returned.
    fn call(call: &'static str, detail: impl Into<String>, cause: impl Into<io::Error>) -> Self {
        TaskError::Call {
            call,
            detail: detail.into(),
            cause: cause.into(),
        }
    }
}

/// Answers the agent. A task whose agent does not listen has nothing left to do.
fn answer(reply: &Reply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line)?;
    out.flush()
}

/// The affinity of one thread.
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
        TaskError::call("sched_setaffinity", format!(" of CPUs {cpus}"), errno)
    })
}
