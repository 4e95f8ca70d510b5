//! Whether a plan makes sense by itself, before anything of it is done.
//!
//! The host makes sound plans; a plan that is not is told as such, and never half done.
//! What only the kernel can know (whether a node exists, whether a value is allowed) is
//! not asked here.

use std::collections::BTreeSet;

use numalab_protocol::list;
use numalab_protocol::plan::{Cgroup, Command, Lane, PageKind, Plan, Region};

/// Bytes of a base page.
pub(crate) const PAGE_SIZE: u64 = 4096;

/// Bytes of a huge page.
pub(crate) const HUGE_PAGE_SIZE: u64 = 2 << 20;

/// Threads of a task: each costs a stack, and the kernel's own limit is far above.
const MOST_THREADS: u32 = 4096;

/// What is wrong with a plan.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlanError {
    #[error("step {step} names the task {task:?}, which the plan does not have")]
    NoTask { step: usize, task: String },
    #[error("step {step} has two lanes for {actor} that would run side by side")]
    Twice { step: usize, actor: String },
    #[error("step {step} gives {actor} a command that is not one of its own")]
    NotItsOwn { step: usize, actor: String },
    #[error("step {step} gives the task {task:?} commands after its exit")]
    AfterExit { step: usize, task: String },
    #[error(
        "step {step} maps {region:?} with {what}, which is not a positive multiple of {unit} bytes"
    )]
    Size {
        step: usize,
        region: String,
        what: &'static str,
        unit: u64,
    },
    #[error("step {step} maps {region:?} without any VMA")]
    NoVma { step: usize, region: String },
    #[error("the task {task:?} has {threads} threads; 1 to {MOST_THREADS} are possible")]
    Threads { task: String, threads: u32 },
    #[error("the task {task:?} is in the control group {cgroup:?}, which the plan does not make")]
    NoCgroup { task: String, cgroup: String },
    #[error("{event:?} is no trace event such as sched:sched_move_numa")]
    Event { event: String },
    #[error("{path:?} is no path of a control group")]
    CgroupPath { path: String },
    #[error("the control group {path:?} is made before its parent, or twice")]
    CgroupOrder { path: String },
    #[error("the control group {path:?} has {text:?} in its cpuset, which is not a list")]
    CgroupList { path: String, text: String },
}

/// Checks a plan.
pub(crate) fn check(plan: &Plan) -> Result<(), PlanError> {
    let cgroups = cgroups(&plan.cgroups)?;
    for (name, task) in &plan.tasks {
        if !(1..=MOST_THREADS).contains(&task.threads) {
            return Err(PlanError::Threads {
                task: name.clone(),
                threads: task.threads,
            });
        }
        if let Some(cgroup) = &task.cgroup
            && !cgroups.contains(cgroup.as_str())
        {
            return Err(PlanError::NoCgroup {
                task: name.clone(),
                cgroup: cgroup.clone(),
            });
        }
    }
    for event in &plan.watch.events {
        check_event(event)?;
    }
    let mut exited = BTreeSet::new();
    for (step, content) in plan.steps.iter().enumerate() {
        for lanes in [&content.prepare, &content.lanes] {
            side_by_side(step, lanes)?;
            for lane in lanes {
                check_lane(plan, step, lane, &mut exited)?;
            }
        }
    }
    Ok(())
}

fn cgroups(cgroups: &[Cgroup]) -> Result<BTreeSet<&str>, PlanError> {
    let mut paths = BTreeSet::new();
    for cgroup in cgroups {
        let path = cgroup.path.as_str();
        check_cgroup(cgroup)?;
        let parent = path.rsplit_once('/').map(|(parent, _)| parent);
        if parent.is_some_and(|parent| !paths.contains(parent)) || !paths.insert(path) {
            return Err(PlanError::CgroupOrder { path: path.into() });
        }
    }
    Ok(paths)
}

fn check_cgroup(cgroup: &Cgroup) -> Result<(), PlanError> {
    // A name with a dot could be a file of the kernel's, such as `cpuset.mems`.
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let path = &cgroup.path;
    if !path
        .split('/')
        .all(|name| !name.is_empty() && name.chars().all(plain))
    {
        return Err(PlanError::CgroupPath { path: path.clone() });
    }
    for text in [&cgroup.mems, &cgroup.cpus].into_iter().flatten() {
        if list::parse(text).is_err() {
            return Err(PlanError::CgroupList {
                path: path.clone(),
                text: text.clone(),
            });
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
        _ => Err(PlanError::Event {
            event: event.into(),
        }),
    }
}

fn actor(lane: &Lane) -> String {
    lane.task
        .as_ref()
        .map_or_else(|| "the agent".into(), |task| format!("the task {task:?}"))
}

fn side_by_side(step: usize, lanes: &[Lane]) -> Result<(), PlanError> {
    let mut tasks = BTreeSet::new();
    for lane in lanes {
        // The agent may have several lanes: they are merely sleeps and writes.
        if let Some(task) = &lane.task
            && !tasks.insert(task)
        {
            return Err(PlanError::Twice {
                step,
                actor: actor(lane),
            });
        }
    }
    Ok(())
}

fn check_lane(
    plan: &Plan,
    step: usize,
    lane: &Lane,
    exited: &mut BTreeSet<String>,
) -> Result<(), PlanError> {
    if let Some(task) = &lane.task
        && !plan.tasks.contains_key(task)
    {
        return Err(PlanError::NoTask {
            step,
            task: task.clone(),
        });
    }
    for command in &lane.commands {
        let own = match command {
            Command::Sleep { .. } => true,
            Command::Set(_) | Command::Cpuset(_) => lane.task.is_none(),
            _ => lane.task.is_some(),
        };
        if !own {
            return Err(PlanError::NotItsOwn {
                step,
                actor: actor(lane),
            });
        }
        match command {
            Command::Map(region) => check_region(step, region)?,
            Command::Cpuset(cgroup) => check_cgroup(cgroup)?,
            _ => {}
        }
        if let Some(task) = &lane.task {
            let after = if matches!(command, Command::Exit { .. }) {
                !exited.insert(task.clone())
            } else {
                exited.contains(task)
            };
            if after {
                return Err(PlanError::AfterExit {
                    step,
                    task: task.clone(),
                });
            }
        }
    }
    Ok(())
}

fn check_region(step: usize, region: &Region) -> Result<(), PlanError> {
    let unit = match region.pages {
        PageKind::Base => PAGE_SIZE,
        PageKind::TransparentHuge | PageKind::Hugetlb => HUGE_PAGE_SIZE,
    };
    let error = |what| PlanError::Size {
        step,
        region: region.name.clone(),
        what,
        unit,
    };
    if region.size == 0 || !region.size.is_multiple_of(unit) {
        return Err(error("a size"));
    }
    // One VMA has no gap, whatever the plan says of it.
    if region.count > 1 && (region.gap == 0 || !region.gap.is_multiple_of(unit)) {
        return Err(error("a gap"));
    }
    if region.count == 0 {
        return Err(PlanError::NoVma {
            step,
            region: region.name.clone(),
        });
    }
    Ok(())
}

#[cfg(test)]
#[path = "coherence/tests.rs"]
mod tests;
