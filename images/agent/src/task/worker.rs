//! The task itself: executes commands and replies, one at a time.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{self, BufRead};
use std::process::ExitCode;

use numalab_protocol::plan::{Command, Policy};
use rustix::thread::Pid;

use super::layout::Layout;
use super::region::Region;
use super::touch::{self, Touched};
use super::{TaskError, placement, policy, populate, refused, reply, set_affinity, sleepers};
use crate::clock::MS;
use crate::message::{Reply, SpawnArgs};
use crate::stop::chain;

/// Runs a task until the agent asks it to exit, or is gone.
pub(crate) fn run(args: &str) -> ExitCode {
    let mut worker = match Worker::new(args) {
        Ok(worker) => worker,
        Err(error) => {
            let message = chain(&error);
            // If this fails, the agent still sees the end of the pipe.
            let _ = reply(&Reply::Failed { message });
            return ExitCode::FAILURE;
        }
    };
    match worker.serve() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("numalab-agent: {}: {error}", worker.name);
            ExitCode::FAILURE
        }
    }
}

struct Worker {
    name: String,
    policy: Option<Policy>,
    layout: Layout,
    regions: BTreeMap<String, Region>,
}

impl Worker {
    fn new(argument: &str) -> Result<Self, TaskError> {
        let args: SpawnArgs =
            serde_json::from_str(argument).map_err(|error| refused("task", error))?;
        // Only for readers of traces; the kernel truncates it to 15 bytes.
        if let Ok(name) = std::ffi::CString::new(args.name.as_str()) {
            let _ = rustix::thread::set_name(&name);
        }
        sleepers::start(args.task.threads - 1)?;
        Ok(Worker {
            layout: Layout::new(args.seed, &args.name),
            name: args.name,
            policy: args.task.policy,
            regions: BTreeMap::new(),
        })
    }

    fn serve(&mut self) -> io::Result<ExitCode> {
        reply(&Reply::Ready)?;
        let mut commands = io::stdin().lock();
        let mut line = String::new();
        loop {
            line.clear();
            if commands.read_line(&mut line)? == 0 {
                return Ok(ExitCode::SUCCESS);
            }
            let command: Command = serde_json::from_str(&line)?;
            if let Command::Exit { status } = command {
                return Ok(ExitCode::from(status));
            }
            let result = self.execute(&command);
            reply(&result.unwrap_or_else(|error| Reply::Failed {
                message: chain(&error),
            }))?;
        }
    }

    fn region(&mut self, name: &str) -> Result<&mut Region, TaskError> {
        self.regions
            .get_mut(name)
            .ok_or_else(|| TaskError::NoRegion(name.into()))
    }

    fn execute(&mut self, command: &Command) -> Result<Reply, TaskError> {
        match command {
            Command::Map(asked) => match self.regions.entry(asked.name.clone()) {
                Entry::Occupied(_) => return Err(TaskError::Duplicate(asked.name.clone())),
                Entry::Vacant(entry) => {
                    let region = populate::map(asked, &mut self.layout, self.policy.as_ref())?;
                    entry.insert(region);
                }
            },
            Command::Unmap { region } => self
                .regions
                .remove(region)
                .ok_or_else(|| TaskError::NoRegion(region.clone()))?
                .unmap()?,
            Command::Protect { region, access } => self.region(region)?.protect(*access)?,
            Command::Touch { region, until } => {
                if let Touched::GaveUp { seen, wanted } = touch::run(self.region(region)?, until)? {
                    return Ok(Reply::GaveUp { seen, wanted });
                }
            }
            Command::Probe { region } => {
                let region = self.region(region)?;
                return Ok(Reply::Probe {
                    pages_per_vma: region.pages() as u64,
                    faults: touch::probe(region)?,
                });
            }
            Command::Placement { region } => {
                let placement = placement::find(self.region(region)?)?;
                return Ok(Reply::Placement {
                    nodes: placement.nodes,
                    absent: placement.absent,
                });
            }
            Command::Affinity { cpus } => set_all_affinities(cpus)?,
            Command::Policy(asked) => {
                policy::set(asked)?;
                self.policy = Some(asked.clone());
            }
            Command::Sleep { ms } => {
                std::thread::sleep(std::time::Duration::from_nanos(ms.saturating_mul(MS)));
            }
            // `plan_check` has made sure that these are the agent's own, or they are handled above.
            Command::Exit { .. } | Command::Set(_) | Command::Cpuset(_) => {}
        }
        Ok(Reply::Done)
    }
}

/// Sets the affinity of all threads of the task, last that of the working thread.
fn set_all_affinities(cpus: &[u32]) -> Result<(), TaskError> {
    let path = "/proc/self/task";
    let failed = |cause| crate::file::FileError::Read {
        path: path.into(),
        cause,
    };
    let own = rustix::thread::gettid();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let thread = name.to_str().and_then(|name| name.parse().ok());
        let Some(thread) = thread.and_then(Pid::from_raw) else {
            continue;
        };
        if thread != own {
            set_affinity(Some(thread), cpus)?;
        }
    }
    set_affinity(Some(own), cpus)
}
