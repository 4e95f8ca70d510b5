//! Guests: QEMU machines with virtual NUMA nodes.
//!
//! A [`topology::Machine`] and a [`mode::Platform`] become QEMU's arguments in
//! [`argv`], the one module that knows them; [`lifecycle::run`] runs such a guest to its end
//! and gives back its records. What a record means is not known here, and neither are run
//! folders: every path is the caller's.

pub mod argv;
pub mod console;
pub mod deadline;
pub mod durations;
pub mod escape;
pub mod estimate;
pub mod fault_kind;
pub mod follow;
pub mod host;
pub mod kvm;
pub mod lifecycle;
pub mod mode;
pub mod outcome;
pub mod process;
pub mod qcow2;
pub mod qemu;
pub mod qemu_priority;
pub mod qmp;
pub mod records;
pub mod slots;
pub mod snapshot;
pub mod topology;

mod output;
