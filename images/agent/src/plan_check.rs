//! Checks that a plan is consistent before any of it is carried out.
//!
//! The host only makes consistent plans; any other is reported instead of half executed.
//! What only the kernel can know (whether a node exists, whether a value is allowed) is not
//! checked here.

use std::collections::BTreeSet;

use numalab_protocol::list;
use numalab_protocol::plan::{Actor, Cgroup, Command, PageKind, Plan, Region};

/// Bytes of a base page.
pub(crate) const PAGE_SIZE: u64 = 4096;

/// Bytes of a huge page.
pub(crate) const HUGE_PAGE_SIZE: u64 = 2 << 20;

/// Each thread costs a stack, and the kernel's own limit is far above.
const MAX_THREADS: u32 = 4096;

/// What is wrong with a plan.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct PlanError(String);

macro_rules! refuse {
    ($($text:tt)*) => { return Err(PlanError(format!($($text)*))) };
}

/// Checks a plan.
pub(crate) fn check(plan: &Plan) -> Result<(), PlanError> {
    let cgroups = check_cgroups(&plan.cgroups)?;
    for (name, task) in &plan.tasks {
        let threads = task.threads;
        if !(1..=MAX_THREADS).contains(&threads) {
            refuse!("the task {name:?} has {threads} threads; it must have 1 to {MAX_THREADS}");
        }
        if let Some(cgroup) = &task.cgroup
            && !cgroups.contains(cgroup.as_str())
        {
            refuse!(
                "the task {name:?} is in the control group {cgroup:?}, which the plan does not make"
            );
        }
    }
    for event in &plan.watch.events {
        check_event(event)?;
    }
    let mut exited = BTreeSet::new();
    for (index, step) in plan.steps.iter().enumerate() {
        for actors in [&step.prepare, &step.actors] {
            let mut tasks = BTreeSet::new();
            for actor in actors {
                // The agent may act several times: it only sleeps and writes files.
                if let Some(task) = &actor.task
                    && !tasks.insert(task)
                {
                    refuse!("step {index} names the task {task:?} twice");
                }
                check_actor(plan, index, actor, &mut exited)?;
            }
        }
    }
    Ok(())
}

fn check_cgroups(cgroups: &[Cgroup]) -> Result<BTreeSet<&str>, PlanError> {
    let mut paths = BTreeSet::new();
    for cgroup in cgroups {
        let path = cgroup.path.as_str();
        check_cgroup(cgroup)?;
        let parent = path.rsplit_once('/').map(|(parent, _)| parent);
        if parent.is_some_and(|parent| !paths.contains(parent)) || !paths.insert(path) {
            refuse!("the control group {path:?} is made before its parent, or twice");
        }
    }
    Ok(paths)
}

fn check_cgroup(cgroup: &Cgroup) -> Result<(), PlanError> {
    // A name with a dot could be one of the kernel's own files, such as `cpuset.mems`.
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let path = &cgroup.path;
    if !path
        .split('/')
        .all(|name| !name.is_empty() && name.chars().all(plain))
    {
        refuse!("{path:?} is not a path of a control group");
    }
    for text in [&cgroup.mems, &cgroup.cpus].into_iter().flatten() {
        if list::parse(text).is_err() {
            refuse!("the control group {path:?} has {text:?} in its cpuset, which is not a list");
        }
    }
    Ok(())
}

/// Checks the name of a trace event, which becomes a path.
fn check_event(event: &str) -> Result<(), PlanError> {
    let plain = |name: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !name.is_empty() && name.chars().all(allowed)
    };
    match event.split_once(':') {
        Some((system, name)) if plain(system) && plain(name) => Ok(()),
        _ => refuse!("{event:?} is not a trace event such as sched:sched_move_numa"),
    }
}

fn check_actor<'p>(
    plan: &Plan,
    step: usize,
    actor: &'p Actor,
    exited: &mut BTreeSet<&'p str>,
) -> Result<(), PlanError> {
    let task = actor.task.as_deref();
    if let Some(task) = task
        && !plan.tasks.contains_key(task)
    {
        refuse!("step {step} names the task {task:?}, which the plan does not have");
    }
    for command in &actor.commands {
        let executable = match command {
            Command::Sleep { .. } => true,
            Command::Set(_) | Command::Cpuset(_) => task.is_none(),
            _ => task.is_some(),
        };
        if !executable {
            let name = task.map_or("the agent".into(), |task| format!("the task {task:?}"));
            refuse!("step {step} gives {name} a command that it cannot execute");
        }
        match command {
            Command::Map(region) => check_region(step, region)?,
            Command::Cpuset(cgroup) => check_cgroup(cgroup)?,
            _ => {}
        }
        let Some(task) = task else { continue };
        if exited.contains(task) {
            refuse!("step {step} gives the task {task:?} commands after its exit");
        }
        if matches!(command, Command::Exit { .. }) {
            exited.insert(task);
        }
    }
    Ok(())
}

fn check_region(step: usize, region: &Region) -> Result<(), PlanError> {
    let Region {
        name, size, gap, ..
    } = region;
    let unit = match region.pages {
        PageKind::Base => PAGE_SIZE,
        PageKind::TransparentHuge | PageKind::Hugetlb => HUGE_PAGE_SIZE,
    };
    let is_whole = |bytes: u64| bytes > 0 && bytes.is_multiple_of(unit);
    if region.count == 0 {
        refuse!("step {step} maps {name:?} without any VMA");
    }
    if !is_whole(*size) {
        refuse!("step {step} maps {name:?} with size {size}, not a positive multiple of {unit}");
    }
    // A single VMA has no gap, so the plan's value does not matter.
    if region.count > 1 && !is_whole(*gap) {
        refuse!("step {step} maps {name:?} with gap {gap}, not a positive multiple of {unit}");
    }
    Ok(())
}

#[cfg(test)]
#[path = "plan_check/tests.rs"]
mod tests;
