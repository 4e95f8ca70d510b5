//! numalab tells whether a Linux kernel's automatic NUMA balancing does what a patch claims.
//!
//! Data flows one way: a [`scenario`] and a kernel give a plan; a [`machine`] runs it and
//! gives records; [`observe`] reads measurements from them; [`verdict`] judges them;
//! [`compare`] sets two kernels side by side; [`report`] shows it.

pub mod scenario;

pub mod machine;

pub mod observe;

pub mod verdict;

pub mod fault;

pub mod compare;

pub mod run;

pub mod snapshot;

pub mod proof;

pub mod seats;

pub mod durations;

pub mod budget;

pub mod spent;

pub mod pool;

pub mod comparison;

pub mod coverage;

pub mod divergence;

pub mod bundle;

pub mod check;

pub mod bisect;

pub mod replay;

pub mod watch;

pub mod report;

pub mod lab;

pub mod project;

pub mod doctor;

pub mod ui;

pub mod signals;

pub mod cli;

mod content;
mod folder;
mod suggest;
mod turn;
mod unclean;
