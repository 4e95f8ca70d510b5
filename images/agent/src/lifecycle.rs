//! The lifecycle of a guest, from the first mount to powering off.
//!
//! Until the window closes nothing depends on the plan, and only CPU 0 runs. Therefore a
//! guest restored from a snapshot behaves exactly as one that booted.

use std::collections::BTreeMap;

use numalab_protocol::{CONTRACT, Record, WINDOW_NS};

use crate::actors::Context;
use crate::cgroup::Hierarchy;
use crate::file;
use crate::records::Records;
use crate::stop::{Stage, Stop};
use crate::trace::Trace;
use crate::{
    clock, coverage, leaks, modules, mounts, plan_check, plan_source, power, scheduling, seed,
    steps, topology, tunable,
};

pub(crate) fn run() -> ! {
    // Continue without file systems: the devices of the image may suffice to report the error.
    let mounted = mounts::all();
    let loaded = modules::load();
    let scheduled = scheduling::set_up();
    match Records::open() {
        Ok(mut records) => {
            let outcome = mounted
                .stage("mounts")
                .and_then(|()| loaded.stage("modules"))
                .and_then(|()| scheduled.stage("scheduling"))
                .and_then(|()| run_plan(&mut records));
            finish(records, outcome);
        }
        Err(error) => {
            for error in [mounted.err(), loaded.err()].into_iter().flatten() {
                eprintln!("numalab-agent: {error}");
            }
            eprintln!("numalab-agent: {error}");
        }
    }
    power::off()
}

/// Everything between the first record and the last.
fn run_plan(records: &mut Records) -> Result<(), Stop> {
    window(records)?;
    let plan = plan_source::read().stage("plan")?;
    plan_check::check(&plan).stage("plan")?;
    clock::rest();

    topology::bring_online(&plan.topology).stage("topology")?;
    let seen = topology::read().stage("topology")?;
    let checks_itself = leaks::are_detected();
    topology::check(&plan.topology, &seen, checks_itself).stage("topology")?;
    let facts = topology::facts(&seen).stage("topology")?;
    seed::mix(plan.seed).stage("seed")?;
    records.send(Record::Start {
        seed: plan.seed,
        facts,
        uptime_ns: clock::uptime_ns(),
    })?;

    for setting in &plan.settings {
        tunable::set(setting).stage("settings")?;
    }
    let mut context = Context {
        nodes: plan.topology.nodes.len(),
        hierarchy: Hierarchy::make(&plan).stage("control groups")?,
        children: BTreeMap::new(),
        trace: Trace::set_up(&plan.watch.events).stage("trace")?,
        records,
    };
    if plan.watch.coverage {
        coverage::begin(context.records)?;
    }
    let outcome = steps::run(&plan, &mut context);
    steps::abandon(&mut context);
    let watched = outcome.and_then(|()| {
        if plan.watch.coverage {
            coverage::end(context.records)?;
        }
        context.trace.send(context.records)
    });
    // Also after a failed step: the leaks of a task outlive it.
    let leaks = leaks::report().stage("kmemleak");
    watched.and(leaks)
}

/// Reports that the guest is ready, and spins while the host may take a snapshot.
fn window(records: &mut Records) -> Result<(), Stop> {
    let release = file::read("/proc/sys/kernel/osrelease").stage("ready")?;
    let ready_ns = clock::uptime_ns();
    records.send(Record::Ready {
        contract: CONTRACT,
        release: release.trim_end().into(),
        uptime_ns: ready_ns,
    })?;
    records.drain()?;
    scheduling::unthrottled(|| clock::spin_until(ready_ns + WINDOW_NS, clock::COARSE));
    records.send(Record::Window {
        uptime_ns: clock::uptime_ns(),
    })?;
    Ok(())
}

/// Sends the last records. An error in sending is printed on the console; the host sees a
/// missing last record as a failed guest.
fn finish(mut records: Records, outcome: Result<(), Stop>) {
    let complete = outcome.is_ok();
    match outcome {
        Ok(()) | Err(Stop::GaveUp) => {}
        Err(Stop::Failed { stage, message }) => {
            eprintln!("numalab-agent: {stage}: {message}");
            report(records.send(Record::Error { stage, message }));
        }
        Err(Stop::Mute(error)) => {
            report(Err(error));
            return;
        }
    }
    let tainted = match file::read_number("/proc/sys/kernel/tainted") {
        Ok(tainted) => tainted,
        Err(error) => {
            eprintln!("numalab-agent: {error}");
            return;
        }
    };
    report(records.send(Record::End {
        complete,
        tainted,
        uptime_ns: clock::uptime_ns(),
    }));
    report(records.drain());
}

fn report(sent: Result<(), crate::records::RecordsError>) {
    if let Err(error) = sent {
        eprintln!("numalab-agent: {}", crate::stop::chain(&error));
    }
}
