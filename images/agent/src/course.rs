//! The guest's course, from the first mount to powering off.
//!
//! Until the window closes nothing depends on the plan, and only CPU 0 runs: that is what
//! makes a guest that is restored from a snapshot give what a cold one gives.

use std::collections::BTreeMap;

use numalab_protocol::{CONTRACT, Record, WINDOW_NS};

use crate::cgroup::Hierarchy;
use crate::file;
use crate::lanes::Scene;
use crate::records::Records;
use crate::stop::{Stage, Stop};
use crate::trace::Trace;
use crate::{
    clock, coherence, coverage, knob, leaks, modules, mounts, orders, power, scheduling, seed,
    steps, topology,
};

/// Runs the guest.
pub(crate) fn run() -> ! {
    // Without file systems there may still be the image's own devices to speak through.
    let mounted = mounts::all();
    let loaded = modules::load();
    let settled = scheduling::settle();
    match Records::open() {
        Ok(mut records) => {
            let outcome = mounted
                .stage("mounts")
                .and_then(|()| loaded.stage("modules"))
                .and_then(|()| settled.stage("scheduling"))
                .and_then(|()| follow(&mut records));
            finish(records, outcome);
        }
        Err(error) => {
            if let Err(error) = mounted {
                eprintln!("numalab-agent: {error}");
            }
            if let Err(error) = loaded {
                eprintln!("numalab-agent: {error}");
            }
            eprintln!("numalab-agent: {error}");
        }
    }
    power::off()
}

/// Everything between the first record and the last.
fn follow(records: &mut Records) -> Result<(), Stop> {
    window(records)?;
    let plan = orders::read().stage("plan")?;
    coherence::check(&plan).stage("plan")?;
    clock::rest();

    topology::bring_online(&plan.topology).stage("topology")?;
    let seen = topology::read().stage("topology")?;
    let checks_itself = leaks::are_looked_for();
    topology::check(&plan.topology, &seen, checks_itself).stage("topology")?;
    let facts = topology::facts(&seen).stage("topology")?;
    seed::mix(plan.seed).stage("seed")?;
    records.send(Record::Start {
        seed: plan.seed,
        facts,
        uptime_ns: clock::uptime_ns(),
    })?;

    for setting in &plan.settings {
        knob::set(setting).stage("settings")?;
    }
    let mut scene = Scene {
        nodes: plan.topology.nodes.len(),
        hierarchy: Hierarchy::make(&plan).stage("control groups")?,
        children: BTreeMap::new(),
        trace: Trace::set_up(&plan.watch.events).stage("trace")?,
        records,
    };
    if plan.watch.coverage {
        coverage::begin(scene.records)?;
    }
    let outcome = steps::run(&plan, &mut scene);
    steps::abandon(&mut scene);
    let watched = outcome.and_then(|()| {
        if plan.watch.coverage {
            coverage::end(scene.records)?;
        }
        scene.trace.send(scene.records)
    });
    // Whatever came of the steps: a task that is gone has left its leaks behind.
    let leaks = leaks::tell().stage("kmemleak");
    watched.and(leaks)
}

/// Says that the guest is ready, and spins while the host may take a snapshot.
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

/// Sends the last records. What cannot be sent is told on the console, and the missing last
/// record tells the host that the guest has failed.
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
    let tainted = match file::read("/proc/sys/kernel/tainted") {
        Ok(text) => text.trim_end().parse().ok(),
        Err(_) => None,
    };
    let Some(tainted) = tainted else {
        eprintln!("numalab-agent: /proc/sys/kernel/tainted shows no number");
        return;
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
