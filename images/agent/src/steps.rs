//! Executes the steps of the plan, one after the other.

use std::collections::BTreeSet;

use numalab_protocol::plan::{Plan, Step};
use numalab_protocol::record::{Edge, Record};
use rustix::process::{WaitOptions, wait};

use crate::actors::{self, Context, stage};
use crate::child::Child;
use crate::clock;
use crate::message::SpawnArgs;
use crate::seed::Stream;
use crate::snapshot;
use crate::stop::{Stage, Stop};
use crate::topology;

pub(crate) fn run(plan: &Plan, context: &mut Context<'_>) -> Result<(), Stop> {
    let mut pauses = Stream::new(plan.seed, "steps");
    let mut started = BTreeSet::new();
    for (index, step) in plan.steps.iter().enumerate() {
        pauses.jitter();
        context.records.send(Record::Step {
            index,
            uptime_ns: clock::uptime_ns(),
        })?;
        start(plan, index, step, &mut started, context)?;
        actors::run(context, index, &step.prepare)?;
        edge(step, index, Edge::Begin, context)?;
        actors::run(context, index, &step.actors)?;
        edge(step, index, Edge::End, context)?;
        end(plan, index, context)?;
        context.records.send(Record::StepEnd {
            index,
            uptime_ns: clock::uptime_ns(),
        })?;
    }
    Ok(())
}

/// The names of a step's tasks.
fn tasks(step: &Step) -> impl Iterator<Item = &str> {
    let actors = step.prepare.iter().chain(&step.actors);
    actors.filter_map(|actor| actor.task.as_deref())
}

/// Starts the tasks that no earlier step names, one after the other.
fn start<'p>(
    plan: &'p Plan,
    index: usize,
    step: &'p Step,
    started: &mut BTreeSet<&'p str>,
    context: &mut Context<'_>,
) -> Result<(), Stop> {
    for name in tasks(step) {
        if !started.insert(name) {
            continue;
        }
        // `plan_check` has made sure that the task exists.
        let Some(task) = plan.tasks.get(name) else {
            continue;
        };
        let args = SpawnArgs {
            name: name.into(),
            task: task.clone(),
            procs: task
                .cgroup
                .as_ref()
                .map(|path| context.hierarchy.procs(path)),
            cpus: topology::cpus(&plan.topology),
            seed: plan.seed,
        };
        let child = Child::start(&args).stage(&stage(index))?;
        context.records.send(Record::Started {
            task: name.into(),
            pid: child.pid(),
        })?;
        context.children.insert(name.into(), child);
    }
    Ok(())
}

/// Reads the counters if the step is measured.
fn edge(step: &Step, index: usize, edge: Edge, context: &mut Context<'_>) -> Result<(), Stop> {
    if let Some(measure) = &step.measure {
        if edge == Edge::End {
            context.trace.end(measure).stage(&stage(index))?;
        }
        let snapshot = snapshot::take(measure, edge, &context.hierarchy, &context.children)
            .stage(&stage(index))?;
        context.records.send(snapshot)?;
    }
    // No record may still be in transmission while tasks run.
    context.records.drain()?;
    match (&step.measure, edge) {
        (Some(measure), Edge::Begin) => context.trace.begin(measure).stage(&stage(index)),
        _ => Ok(()),
    }
}

/// Ends the tasks that no later step names.
fn end(plan: &Plan, index: usize, context: &mut Context<'_>) -> Result<(), Stop> {
    let later: BTreeSet<&str> = plan.steps[index + 1..].iter().flat_map(tasks).collect();
    let over: Vec<String> = context
        .children
        .keys()
        .filter(|name| !later.contains(name.as_str()))
        .cloned()
        .collect();
    for name in over {
        if let Some(child) = context.children.remove(&name) {
            child.end().stage(&stage(index))?;
        }
    }
    reap_orphans(context);
    Ok(())
}

/// Reaps orphans. Tasks do not fork, so these are processes that the kernel started itself
/// (usermode helpers). Only without live tasks, whose exit status is needed elsewhere.
fn reap_orphans(context: &Context<'_>) {
    if context.children.is_empty() {
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
    }
}

/// Kills all tasks of a run that stopped early.
pub(crate) fn abandon(context: &mut Context<'_>) {
    for (name, child) in std::mem::take(&mut context.children) {
        if let Err(error) = child.end() {
            eprintln!("numalab-agent: {name}: {error}");
        }
    }
}
