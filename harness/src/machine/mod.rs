//! The machine: QEMU guests with virtual NUMA nodes.
//!
//! A [`topology::Machine`] and a [`mode::Platform`] become QEMU's arguments in
//! [`argv`], the one module that knows them; [`guest::run`] runs such a guest to its end
//! and gives back its records. What a record means is not known here, and neither are run
//! folders: every path is the caller's.

pub mod topology;

pub mod mode;

pub mod qemu;

pub mod argv;

pub mod host;

pub mod process;

pub mod precedence;

pub mod qmp;

pub mod trouble;

pub mod console;

pub mod escape;

pub mod follow;

pub mod records;

pub mod deadline;

pub mod allowance;

pub mod outcome;

mod output;

pub mod guest;

pub mod kvm;

pub mod qcow2;
