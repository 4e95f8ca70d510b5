//! PID 1 of the guest: reads the plan, executes it, sends records, powers off.
//!
//! One program with three roles:
//!
//! - PID 1 is the agent ([`lifecycle`]), one thread that sleeps in `poll(2)`;
//! - `launch` sets the control group, affinity and memory policy of a new process
//!   ([`task::launch`]) and executes
//! - `task`, the process that is measured ([`task::worker`]).
//!
//! The agent decides nothing: the plan says what to do, and the host judges the results.

mod actors;
mod cgroup;
mod child;
mod clock;
mod coverage;
mod cpuset;
mod errno;
mod file;
mod leaks;
mod lifecycle;
mod memcg_flush;
mod message;
mod modules;
mod mounts;
mod plan_check;
mod plan_source;
mod power;
mod records;
mod scheduling;
mod seed;
mod snapshot;
mod steps;
mod stop;
mod task;
mod topology;
mod trace;
mod tunable;

use std::process::ExitCode;

fn main() -> ExitCode {
    // The kernel passes unknown words of its command line to PID 1, so its arguments mean
    // nothing.
    if std::process::id() == 1 {
        report_panics(true);
        lifecycle::run();
    }
    report_panics(false);
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (Some("launch"), Some(args)) => task::launch::run(&args),
        (Some("task"), Some(args)) => task::worker::run(&args),
        _ => {
            eprintln!(
                "numalab-agent: this is PID 1 of a numalab guest; it does nothing outside of one"
            );
            ExitCode::from(2)
        }
    }
}

/// Prints panics on the console. If PID 1 panics, the guest powers off without the last
/// record: a kernel panic because init died would look like a fault of the kernel.
fn report_panics(power_off: bool) {
    std::panic::set_hook(Box::new(move |panic| {
        eprintln!("numalab-agent: {panic}");
        if power_off {
            power::off();
        }
    }));
}
