//! Lanes: commands of several actors, side by side.
//!
//! One thread drives all of them. It gives each task its next command as soon as the one
//! before is answered, carries out the agent's own commands at once, and otherwise sleeps
//! in `poll(2)` until a task speaks or a time is over.

use std::collections::BTreeMap;
use std::io;

use numalab_protocol::Record;
use numalab_protocol::plan::{Command, Lane, Until};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::cgroup::Hierarchy;
use crate::child::{Child, Heard};
use crate::clock::{self, MS};
use crate::errno;
use crate::knob;
use crate::message::Reply;
use crate::records::Records;
use crate::stop::{Stage, Stop};
use crate::trace::Trace;

/// Guest time that a command may take beyond what it is told to take. Only a task that
/// hangs uses it up, and in exact mode the idle time of such a wait is skipped.
const GRACE_NS: u64 = 3600 * 1000 * MS;

/// Who and what the lanes work with.
pub(crate) struct Scene<'a> {
    /// Nodes of the plan.
    pub(crate) nodes: usize,
    pub(crate) hierarchy: Hierarchy,
    /// The tasks that live, by name.
    pub(crate) children: BTreeMap<String, Child>,
    /// What is recorded while measurements run.
    pub(crate) trace: Trace,
    pub(crate) records: &'a mut Records,
}

/// The name of a step as a stage.
pub(crate) fn stage(step: usize) -> String {
    format!("step {step}")
}

/// Why lanes cannot go on.
#[derive(Debug, thiserror::Error)]
enum LaneError {
    #[error("the task {task:?} is not alive, so it cannot {what}")]
    NotAlive { task: String, what: String },
    #[error("the task {task:?} has not answered to {what} within {seconds} s of guest time")]
    Late {
        task: String,
        what: String,
        seconds: u64,
    },
    #[error("the task {task:?} cannot {what}: {message}")]
    Task {
        task: String,
        what: String,
        message: String,
    },
    #[error("the task {task:?} answers {reply:?} without being asked")]
    Unasked { task: String, reply: String },
    #[error("tasks cannot be waited for: {}", errno::text(.0))]
    Poll(io::Error),
}

/// What a command does, in words.
fn what(command: &Command) -> String {
    match command {
        Command::Map(region) => format!("map {:?}", region.name),
        Command::Unmap { region } => format!("unmap {region:?}"),
        Command::Protect { region, .. } => format!("protect {region:?}"),
        Command::Touch { region, .. } => format!("touch {region:?}"),
        Command::Probe { region } => format!("probe {region:?}"),
        Command::Placement { region } => format!("tell where {region:?} is"),
        Command::Affinity { .. } => "change its affinity".into(),
        Command::Policy(_) => "change its memory policy".into(),
        Command::Sleep { .. } => "sleep".into(),
        Command::Exit { .. } => "exit".into(),
        Command::Set(_) => "set a knob".into(),
        Command::Cpuset(_) => "change a cpuset".into(),
    }
}

/// Nanoseconds that a command is told to take.
fn told_ns(command: &Command) -> u64 {
    let ms = match command {
        Command::Sleep { ms } => *ms,
        Command::Touch { until, .. } => match until {
            Until::Elapsed { ms } => *ms,
            Until::Passes { .. } => 0,
            Until::ScanSeq { within_ms, .. } => *within_ms,
        },
        _ => 0,
    };
    ms.saturating_mul(MS)
}

/// What a lane waits for.
#[derive(Debug, PartialEq, Eq)]
enum Wait<'p> {
    /// Nothing: its next command is due.
    Due,
    /// Guest time.
    Time { until_ns: u64 },
    /// Its task's answer.
    Answer { to: &'p Command, until_ns: u64 },
    /// All its commands are done.
    Over,
}

struct Progress<'p> {
    lane: &'p Lane,
    next: usize,
    wait: Wait<'p>,
}

/// Carries out the lanes of a step, and returns when all have ended.
pub(crate) fn run(scene: &mut Scene<'_>, step: usize, lanes: &[Lane]) -> Result<(), Stop> {
    let mut all: Vec<Progress<'_>> = lanes
        .iter()
        .map(|lane| Progress {
            lane,
            next: 0,
            wait: Wait::Due,
        })
        .collect();
    loop {
        for progress in &mut all {
            progress.advance(scene, step)?;
        }
        if all.iter().all(|progress| progress.wait == Wait::Over) {
            return Ok(());
        }
        let heard = sleep(scene, earliest(&all)).stage(&stage(step))?;
        for name in heard {
            let progress = all
                .iter_mut()
                .find(|progress| progress.lane.task.as_ref() == Some(&name));
            hear(scene, step, &name, progress)?;
        }
        let now = clock::uptime_ns();
        for progress in &mut all {
            progress.check_time(now).stage(&stage(step))?;
        }
    }
}

/// The first moment at which some lane's time is over.
fn earliest(all: &[Progress<'_>]) -> u64 {
    let moments = all.iter().filter_map(|progress| match progress.wait {
        Wait::Time { until_ns } | Wait::Answer { until_ns, .. } => Some(until_ns),
        Wait::Due | Wait::Over => None,
    });
    moments.min().unwrap_or(0)
}

/// Sleeps until a moment, or until tasks speak; returns their names.
///
/// Tasks that no lane names are listened to as well: their end is an error.
fn sleep(scene: &Scene<'_>, until_ns: u64) -> Result<Vec<String>, LaneError> {
    let mut ends: Vec<PollFd<'_>> = scene
        .children
        .values()
        .map(|child| PollFd::from_borrowed_fd(child.replies(), PollFlags::IN))
        .collect();
    let left = until_ns.saturating_sub(clock::uptime_ns());
    let second = 1000 * MS;
    let timeout = Timespec {
        tv_sec: i64::try_from(left / second).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(left % second).unwrap_or(0),
    };
    match poll(&mut ends, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(errno) => return Err(LaneError::Poll(errno.into())),
    }
    let spoken = scene
        .children
        .keys()
        .zip(&ends)
        .filter(|(_, end)| !end.revents().is_empty());
    Ok(spoken.map(|(name, _)| name.clone()).collect())
}

/// Takes what a task says.
fn hear(
    scene: &mut Scene<'_>,
    step: usize,
    name: &str,
    progress: Option<&mut Progress<'_>>,
) -> Result<(), Stop> {
    let stage = stage(step);
    let Some(child) = scene.children.get_mut(name) else {
        return Ok(());
    };
    let heard = child.hear().stage(&stage)?;
    let asked = progress.and_then(|progress| match progress.wait {
        Wait::Answer { to, .. } => Some((progress, to)),
        _ => None,
    });
    match (heard, asked) {
        (Heard::Nothing, _) => Ok(()),
        (Heard::End, Some((progress, Command::Exit { .. }))) => {
            let status = child.reap().stage(&stage)?;
            scene.children.remove(name);
            scene.records.send(Record::Exited {
                task: name.into(),
                status,
            })?;
            progress.wait = Wait::Due;
            Ok(())
        }
        (Heard::End, _) => {
            let error = child.died();
            scene.children.remove(name);
            Err(Stop::failed(stage, &error))
        }
        (Heard::Reply(reply), Some((progress, command))) => {
            progress.wait = Wait::Due;
            answer(scene, step, name, command, reply)
        }
        (Heard::Reply(reply), None) => Err(Stop::failed(
            stage,
            &LaneError::Unasked {
                task: name.into(),
                reply: format!("{reply:?}"),
            },
        )),
    }
}

/// Turns a task's answer into a record.
fn answer(
    scene: &mut Scene<'_>,
    step: usize,
    name: &str,
    command: &Command,
    reply: Reply,
) -> Result<(), Stop> {
    let task = name.to_owned();
    match (reply, command) {
        (Reply::Done, _) => {}
        (
            Reply::Probe {
                pages_per_vma,
                faults,
            },
            Command::Probe { region },
        ) => scene.records.send(Record::Probe {
            step,
            task,
            region: region.clone(),
            pages_per_vma,
            faults,
        })?,
        (Reply::Placement { nodes, absent }, Command::Placement { region }) => {
            scene.records.send(Record::Placement {
                step,
                task,
                region: region.clone(),
                nodes: by_node(scene.nodes, &nodes),
                absent,
            })?;
        }
        (Reply::GaveUp { seen, wanted }, _) => {
            scene.records.send(Record::GaveUp {
                step,
                task,
                what: "numa_scan_seq".into(),
                seen,
                wanted,
            })?;
            return Err(Stop::GaveUp);
        }
        (Reply::Failed { message }, _) => {
            let error = LaneError::Task {
                task,
                what: what(command),
                message,
            };
            return Err(Stop::failed(stage(step), &error));
        }
        (reply, _) => {
            let error = LaneError::Unasked {
                task,
                reply: format!("{reply:?}"),
            };
            return Err(Stop::failed(stage(step), &error));
        }
    }
    Ok(())
}

/// Counts in the order of the nodes: at least the plan's.
fn by_node(nodes: usize, counted: &[(u32, u64)]) -> Vec<u64> {
    let mut counts = vec![0; nodes];
    for &(node, pages) in counted {
        let node = node as usize;
        if node >= counts.len() {
            counts.resize(node + 1, 0);
        }
        counts[node] += pages;
    }
    counts
}

impl<'p> Progress<'p> {
    /// Gives commands until one has to be waited for.
    fn advance(&mut self, scene: &mut Scene<'_>, step: usize) -> Result<(), Stop> {
        let lane: &'p Lane = self.lane;
        while self.wait == Wait::Due {
            let Some(command) = lane.commands.get(self.next) else {
                self.wait = Wait::Over;
                break;
            };
            self.next += 1;
            match &lane.task {
                Some(task) => self.give(scene, step, task, command)?,
                None => self.carry_out(scene, step, command)?,
            }
        }
        Ok(())
    }

    fn give(
        &mut self,
        scene: &mut Scene<'_>,
        step: usize,
        task: &str,
        command: &'p Command,
    ) -> Result<(), Stop> {
        let stage = stage(step);
        let child = scene
            .children
            .get_mut(task)
            .ok_or_else(|| LaneError::NotAlive {
                task: task.into(),
                what: what(command),
            })
            .stage(&stage)?;
        child.send(command).stage(&stage)?;
        self.wait = Wait::Answer {
            to: command,
            until_ns: clock::uptime_ns()
                .saturating_add(told_ns(command))
                .saturating_add(GRACE_NS),
        };
        Ok(())
    }

    fn carry_out(
        &mut self,
        scene: &mut Scene<'_>,
        step: usize,
        command: &Command,
    ) -> Result<(), Stop> {
        match command {
            Command::Set(setting) => knob::set(setting).stage(&stage(step)),
            Command::Cpuset(cgroup) => scene.hierarchy.set(cgroup).stage(&stage(step)),
            // The plan's coherence was checked: this is a sleep.
            command => {
                let until_ns = clock::uptime_ns().saturating_add(told_ns(command));
                self.wait = Wait::Time { until_ns };
                Ok(())
            }
        }
    }

    fn check_time(&mut self, now: u64) -> Result<(), LaneError> {
        match self.wait {
            Wait::Time { until_ns } if now >= until_ns => self.wait = Wait::Due,
            Wait::Answer { to, until_ns } if now >= until_ns => {
                return Err(LaneError::Late {
                    task: self.lane.task.clone().unwrap_or_default(),
                    what: what(to),
                    seconds: told_ns(to).saturating_add(GRACE_NS) / (1000 * MS),
                });
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "lanes/tests.rs"]
mod tests;
