//! The plan's steps, one after the other.

use std::collections::BTreeSet;

use numalab_protocol::plan::{Plan, Step};
use numalab_protocol::record::{Edge, Record};
use rustix::process::{WaitOptions, wait};

use crate::child::Child;
use crate::clock;
use crate::lanes::{self, Scene, stage};
use crate::message::Birth;
use crate::seed::Stream;
use crate::snapshot;
use crate::stop::{Stage, Stop};
use crate::topology;

/// Carries out all steps.
pub(crate) fn run(plan: &Plan, scene: &mut Scene<'_>) -> Result<(), Stop> {
    let mut pauses = Stream::new(plan.seed, "steps");
    let mut started = BTreeSet::new();
    for (index, step) in plan.steps.iter().enumerate() {
        pauses.jitter();
        scene.records.send(Record::Step {
            index,
            uptime_ns: clock::uptime_ns(),
        })?;
        start(plan, index, step, &mut started, scene)?;
        lanes::run(scene, index, &step.prepare)?;
        edge(step, index, Edge::Begin, scene)?;
        lanes::run(scene, index, &step.lanes)?;
        edge(step, index, Edge::End, scene)?;
        end(plan, index, scene)?;
        scene.records.send(Record::StepEnd {
            index,
            uptime_ns: clock::uptime_ns(),
        })?;
    }
    Ok(())
}

/// The names of a step's tasks.
fn tasks(step: &Step) -> impl Iterator<Item = &str> {
    let lanes = step.prepare.iter().chain(&step.lanes);
    lanes.filter_map(|lane| lane.task.as_deref())
}

/// Starts the tasks that no step before has named, one after the other.
fn start<'p>(
    plan: &'p Plan,
    index: usize,
    step: &'p Step,
    started: &mut BTreeSet<&'p str>,
    scene: &mut Scene<'_>,
) -> Result<(), Stop> {
    for name in tasks(step) {
        if !started.insert(name) {
            continue;
        }
        // The plan's coherence was checked: the task exists.
        let Some(task) = plan.tasks.get(name) else {
            continue;
        };
        let birth = Birth {
            name: name.into(),
            task: task.clone(),
            procs: task.cgroup.as_ref().map(|path| scene.hierarchy.procs(path)),
            cpus: topology::cpus(&plan.topology),
            seed: plan.seed,
        };
        let child = Child::start(&birth).stage(&stage(index))?;
        scene.records.send(Record::Started {
            task: name.into(),
            pid: child.pid(),
        })?;
        scene.children.insert(name.into(), child);
    }
    Ok(())
}

/// Reads the counters, if the step is measured.
fn edge(step: &Step, index: usize, edge: Edge, scene: &mut Scene<'_>) -> Result<(), Stop> {
    if let Some(measure) = &step.measure {
        if edge == Edge::End {
            scene.trace.end(measure).stage(&stage(index))?;
        }
        let snapshot = snapshot::take(measure, edge, &scene.hierarchy, &scene.children)
            .stage(&stage(index))?;
        scene.records.send(snapshot)?;
    }
    // Nothing of what was sent so far shall still be leaving while tasks run.
    scene.records.drain()?;
    match (&step.measure, edge) {
        (Some(measure), Edge::Begin) => scene.trace.begin(measure).stage(&stage(index)),
        _ => Ok(()),
    }
}

/// Ends the tasks that no later step names.
fn end(plan: &Plan, index: usize, scene: &mut Scene<'_>) -> Result<(), Stop> {
    let later: BTreeSet<&str> = plan.steps[index + 1..].iter().flat_map(tasks).collect();
    let over: Vec<String> = scene
        .children
        .keys()
        .filter(|name| !later.contains(name.as_str()))
        .cloned()
        .collect();
    for name in over {
        if let Some(child) = scene.children.remove(&name) {
            child.end().stage(&stage(index))?;
        }
    }
    reap_orphans(scene);
    Ok(())
}

/// Reaps what is left without a parent. Tasks do not fork, so this is for what the kernel
/// may start by itself; a task that lives is left to those who wait for it.
fn reap_orphans(scene: &Scene<'_>) {
    if scene.children.is_empty() {
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
    }
}

/// Kills all tasks, at the end of a run that stopped early.
pub(crate) fn abandon(scene: &mut Scene<'_>) {
    for (_, child) in std::mem::take(&mut scene.children) {
        let name = child.name().to_owned();
        if let Err(error) = child.end() {
            eprintln!("numalab-agent: {name}: {error}");
        }
    }
}
