//! Executes the commands of several actors side by side.
//!
//! One thread drives all of them. It sends each task its next command as soon as the task
//! has replied to the previous one, executes the agent's own commands at once, and otherwise
//! sleeps in `poll(2)` until a task replies or a time is over.

use std::collections::BTreeMap;

use numalab_protocol::Record;
use numalab_protocol::plan::{Actor, Command, Until};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::cgroup::Hierarchy;
use crate::child::{Child, Received};
use crate::clock::{self, MS};
use crate::errno::{CallError, failed};
use crate::message::Reply;
use crate::records::Records;
use crate::stop::{Stage, Stop};
use crate::trace::Trace;
use crate::tunable;

/// Guest time that a command may take beyond its own duration. Only a task that hangs uses it
/// up, and exact mode skips the idle time of such a wait.
const GRACE_NS: u64 = 3600 * 1000 * MS;

/// What steps and actors work with.
pub(crate) struct Context<'a> {
    /// Nodes of the plan.
    pub(crate) nodes: usize,
    pub(crate) hierarchy: Hierarchy,
    /// The live tasks by name.
    pub(crate) children: BTreeMap<String, Child>,
    pub(crate) trace: Trace,
    pub(crate) records: &'a mut Records,
}

/// The name of a step as a stage.
pub(crate) fn stage(step: usize) -> String {
    format!("step {step}")
}

#[derive(Debug, thiserror::Error)]
enum ActorError {
    #[error("the task {task:?} is not alive, so it cannot {what}")]
    NotAlive { task: String, what: String },
    #[error(
        "the task {task:?} was asked to {what}, and has not replied within {seconds} s of guest \
         time"
    )]
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
    #[error("the task {task:?} sent {reply} without being asked")]
    Unasked { task: String, reply: String },
}

/// What a command does, in words.
fn what(command: &Command) -> String {
    match command {
        Command::Map(region) => format!("map {:?}", region.name),
        Command::Unmap { region } => format!("unmap {region:?}"),
        Command::Protect { region, .. } => format!("protect {region:?}"),
        Command::Touch { region, .. } => format!("touch {region:?}"),
        Command::Probe { region } => format!("probe {region:?}"),
        Command::Placement { region } => format!("report where {region:?} is"),
        Command::Affinity { .. } => "change its affinity".into(),
        Command::Policy(_) => "change its memory policy".into(),
        Command::Sleep { .. } => "sleep".into(),
        Command::Exit { .. } => "exit".into(),
        Command::Set(_) => "set a tunable".into(),
        Command::Cpuset(_) => "change a cpuset".into(),
    }
}

/// How long a command takes by itself.
fn duration_ns(command: &Command) -> u64 {
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

/// What an actor waits for.
#[derive(Debug, PartialEq, Eq)]
enum Wait<'p> {
    /// Nothing: its next command is due.
    Ready,
    Sleep {
        until_ns: u64,
    },
    /// The reply to a command.
    Reply {
        to: &'p Command,
        until_ns: u64,
    },
    /// All its commands have been executed.
    Finished,
}

struct Progress<'p> {
    actor: &'p Actor,
    next: usize,
    wait: Wait<'p>,
}

/// Executes the commands of all actors of a step.
pub(crate) fn run(context: &mut Context<'_>, step: usize, actors: &[Actor]) -> Result<(), Stop> {
    let mut all: Vec<Progress<'_>> = actors
        .iter()
        .map(|actor| Progress {
            actor,
            next: 0,
            wait: Wait::Ready,
        })
        .collect();
    loop {
        for progress in &mut all {
            progress.advance(context, step)?;
        }
        if all.iter().all(|progress| progress.wait == Wait::Finished) {
            return Ok(());
        }
        for name in sleep(context, earliest(&all)).stage(&stage(step))? {
            let progress = all
                .iter_mut()
                .find(|progress| progress.actor.task.as_ref() == Some(&name));
            receive(context, step, &name, progress)?;
        }
        let now = clock::uptime_ns();
        for progress in &mut all {
            progress.check_time(now).stage(&stage(step))?;
        }
    }
}

/// The first moment at which a wait ends.
fn earliest(all: &[Progress<'_>]) -> u64 {
    let moments = all.iter().filter_map(|progress| match progress.wait {
        Wait::Sleep { until_ns } | Wait::Reply { until_ns, .. } => Some(until_ns),
        Wait::Ready | Wait::Finished => None,
    });
    moments.min().unwrap_or(0)
}

/// Sleeps until a moment, or until tasks reply or end; returns their names. Tasks without
/// commands in this step are included: their end is an error.
fn sleep(context: &Context<'_>, until_ns: u64) -> Result<Vec<String>, CallError> {
    let mut ends: Vec<PollFd<'_>> = context
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
        Err(errno) => return Err(failed("the agent cannot wait for tasks")(errno)),
    }
    let readable = context
        .children
        .keys()
        .zip(&ends)
        .filter(|(_, end)| !end.revents().is_empty());
    Ok(readable.map(|(name, _)| name.clone()).collect())
}

/// Reads from a task.
fn receive(
    context: &mut Context<'_>,
    step: usize,
    name: &str,
    progress: Option<&mut Progress<'_>>,
) -> Result<(), Stop> {
    let stage = stage(step);
    let Some(child) = context.children.get_mut(name) else {
        return Ok(());
    };
    let received = child.receive().stage(&stage)?;
    let asked = progress.and_then(|progress| match progress.wait {
        Wait::Reply { to, .. } => Some((progress, to)),
        _ => None,
    });
    match (received, asked) {
        (Received::Partial, _) => Ok(()),
        (Received::Eof, Some((progress, Command::Exit { .. }))) => {
            let status = child.reap().stage(&stage)?;
            context.children.remove(name);
            context.records.send(Record::Exited {
                task: name.into(),
                status,
            })?;
            progress.wait = Wait::Ready;
            Ok(())
        }
        (Received::Eof, _) => {
            let error = child.died();
            context.children.remove(name);
            Err(Stop::failed(stage, &error))
        }
        (Received::Reply(reply), Some((progress, command))) => {
            progress.wait = Wait::Ready;
            record(context, step, name, command, reply)
        }
        (Received::Reply(reply), None) => Err(unasked(step, name, &reply)),
    }
}

fn unasked(step: usize, task: &str, reply: &Reply) -> Stop {
    let error = ActorError::Unasked {
        task: task.into(),
        reply: format!("{reply:?}"),
    };
    Stop::failed(stage(step), &error)
}

/// Sends the record of a reply, if it has one.
fn record(
    context: &mut Context<'_>,
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
        ) => context.records.send(Record::Probe {
            step,
            task,
            region: region.clone(),
            pages_per_vma,
            faults,
        })?,
        (Reply::Placement { nodes, absent }, Command::Placement { region }) => {
            context.records.send(Record::Placement {
                step,
                task,
                region: region.clone(),
                nodes: by_node(context.nodes, &nodes),
                absent,
            })?;
        }
        (Reply::GaveUp { seen, wanted }, _) => {
            context.records.send(Record::GaveUp {
                step,
                task,
                what: "numa_scan_seq".into(),
                seen,
                wanted,
            })?;
            return Err(Stop::GaveUp);
        }
        (Reply::Failed { message }, _) => {
            let error = ActorError::Task {
                task,
                what: what(command),
                message,
            };
            return Err(Stop::failed(stage(step), &error));
        }
        (reply, _) => return Err(unasked(step, name, &reply)),
    }
    Ok(())
}

/// Page counts in the order of the nodes, at least those of the plan.
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
    /// Starts commands until one has to be waited for.
    fn advance(&mut self, context: &mut Context<'_>, step: usize) -> Result<(), Stop> {
        let actor: &'p Actor = self.actor;
        while self.wait == Wait::Ready {
            let Some(command) = actor.commands.get(self.next) else {
                self.wait = Wait::Finished;
                break;
            };
            self.next += 1;
            let until_ns = clock::uptime_ns().saturating_add(duration_ns(command));
            match (&actor.task, command) {
                (Some(task), _) => {
                    let child = context.children.get_mut(task);
                    let child = child.ok_or_else(|| ActorError::NotAlive {
                        task: task.clone(),
                        what: what(command),
                    });
                    child
                        .stage(&stage(step))?
                        .send(command)
                        .stage(&stage(step))?;
                    self.wait = Wait::Reply {
                        to: command,
                        until_ns: until_ns.saturating_add(GRACE_NS),
                    };
                }
                (None, Command::Set(setting)) => tunable::set(setting).stage(&stage(step))?,
                (None, Command::Cpuset(cgroup)) => {
                    context.hierarchy.set(cgroup).stage(&stage(step))?;
                }
                // `plan_check` has made sure that this is a sleep.
                (None, _) => self.wait = Wait::Sleep { until_ns },
            }
        }
        Ok(())
    }

    fn check_time(&mut self, now: u64) -> Result<(), ActorError> {
        match self.wait {
            Wait::Sleep { until_ns } if now >= until_ns => self.wait = Wait::Ready,
            Wait::Reply { to, until_ns } if now >= until_ns => {
                return Err(ActorError::Late {
                    task: self.actor.task.clone().unwrap_or_default(),
                    what: what(to),
                    seconds: duration_ns(to).saturating_add(GRACE_NS) / (1000 * MS),
                });
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "actors/tests.rs"]
mod tests;
