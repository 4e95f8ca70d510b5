//! The guest's PID 1: takes the plan, runs it, sends records, powers off.
//!
//! One program in three parts, told apart by how it was executed:
//!
//! - as PID 1 it is the agent ([`course`]), one thread that sleeps in `poll(2)`;
//! - `launch` puts a fresh process into its control group, affinity and policy
//!   ([`task::launch`]) and executes
//! - `task`, the process that is measured ([`task::worker`]).
//!
//! It decides nothing by itself: what is done is the plan's, what it means is the host's.

mod cgroup;
mod child;
mod clock;
mod coherence;
mod course;
mod coverage;
mod cpuset;
mod errno;
mod file;
mod knob;
mod lanes;
mod leaks;
mod message;
mod modules;
mod mounts;
mod orders;
mod power;
mod records;
mod scheduling;
mod seed;
mod settled;
mod snapshot;
mod steps;
mod stop;
mod task;
mod topology;
mod trace;

use std::process::ExitCode;

fn main() -> ExitCode {
    // The kernel hands words of its command line that it does not know to PID 1, so its
    // arguments mean nothing.
    if std::process::id() == 1 {
        report_panics(true);
        course::run();
    }
    report_panics(false);
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (Some("launch"), Some(birth)) => task::launch::run(&birth),
        (Some("task"), Some(birth)) => task::worker::run(&birth),
        _ => {
            eprintln!("numalab-agent: this is PID 1 of a numalab guest; it does nothing elsewhere");
            ExitCode::from(2)
        }
    }
}

/// A panic is told on the console. One of PID 1 powers off, without the last record: a
/// kernel panic for want of an init would look like a kernel's fault.
fn report_panics(power_off: bool) {
    std::panic::set_hook(Box::new(move |panic| {
        eprintln!("numalab-agent: {panic}");
        if power_off {
            power::off();
        }
    }));
}
