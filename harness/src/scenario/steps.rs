//! From the text of steps to the plan's steps: verbs, and who does what.

use std::collections::{BTreeMap, BTreeSet};

use numalab_protocol::plan::{Actor, Cgroup, Command, Populate, Setting, Step, Until};

use super::extent::Extent;
use super::grammar::{ACTION, WITHOUT_TASK, keys};
use super::problems::Problems;
use super::raw::{RawAction, RawStep, RawTask};
use super::regions::{Regions, access_of};
use super::{name, quantity, tasks, tunables};

/// The steps, and what assertions may refer to.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    pub(super) steps: Vec<Step>,
    pub(super) measures: BTreeMap<String, Measured>,
    /// Task and region of each probe.
    pub(super) probes: BTreeSet<(String, String)>,
    /// Task and region of each placement.
    pub(super) placements: BTreeSet<(String, String)>,
    /// Tasks that exit with a status.
    pub(super) exits: BTreeSet<String>,
    /// Tasks in a control group, whose `memory.stat` is read.
    pub(super) in_cgroups: BTreeSet<String>,
}

/// The tasks of a measurement.
#[derive(Debug, Default)]
pub(super) struct Measured {
    /// Those that act in its step.
    pub(super) acting: BTreeSet<String>,
    /// Those that live during its step.
    pub(super) alive: BTreeSet<String>,
    /// Those that touch memory in its step, and for how many milliseconds; `None` where the
    /// text gives no time.
    pub(super) touching: BTreeMap<String, Option<u64>>,
}

struct Resolver<'a> {
    tasks: &'a BTreeMap<String, RawTask>,
    cgroups: &'a BTreeMap<String, Cgroup>,
    extent: &'a Extent,
    problems: &'a mut Problems,
    resolved: Resolved,
    regions: Regions<'a>,
}

pub(super) fn resolve(
    raw: &[RawStep],
    tasks: &BTreeMap<String, RawTask>,
    cgroups: &BTreeMap<String, Cgroup>,
    extent: &Extent,
    problems: &mut Problems,
) -> Resolved {
    if raw.is_empty() {
        problems.add("steps", "there is no step");
    }
    let mut resolver = Resolver {
        tasks,
        cgroups,
        extent,
        problems,
        resolved: Resolved::default(),
        regions: Regions::new(extent),
    };
    for (i, step) in raw.iter().enumerate() {
        resolver.step(&format!("steps[{i}]"), step);
    }
    let mut resolved = resolver.resolved;
    for (name, task) in tasks {
        if task.cgroup.is_some() || task.cpuset_mems.is_some() || task.cpuset_cpus.is_some() {
            resolved.in_cgroups.insert(name.clone());
        }
    }
    let unused = measured(&mut resolved, tasks.keys());
    // A misspelt name is a problem already, and this would only repeat it.
    if problems.is_empty() {
        for name in unused {
            let message = format!("no step uses task {name:?}");
            problems.add(format!("tasks.{name}"), message);
        }
    }
    resolved
}

/// Notes which tasks live, act and touch in each measurement. Gives the tasks of no step.
fn measured<'a>(
    resolved: &mut Resolved,
    tasks: impl Iterator<Item = &'a String>,
) -> Vec<&'a String> {
    let of = |lane: &&Actor, name: &String| lane.task.as_ref() == Some(name);
    let mut unused = Vec::new();
    for name in tasks {
        let used = |step: &Step| {
            step.prepare
                .iter()
                .chain(&step.actors)
                .any(|lane| of(&lane, name))
        };
        let first = resolved.steps.iter().position(used);
        let last = resolved.steps.iter().rposition(used);
        let (Some(first), Some(last)) = (first, last) else {
            unused.push(name);
            continue;
        };
        for step in &resolved.steps[first..=last] {
            let measure = step.measure.as_ref();
            let Some(measured) = measure.and_then(|name| resolved.measures.get_mut(name)) else {
                continue;
            };
            measured.alive.insert(name.clone());
            let Some(lane) = step.actors.iter().find(|lane| of(lane, name)) else {
                continue;
            };
            measured.acting.insert(name.clone());
            let touches = || lane.commands.iter().filter_map(touched_for);
            if touches().next().is_some() {
                measured.touching.insert(name.clone(), touches().sum());
            }
        }
    }
    unused
}

/// For how many milliseconds a command touches memory, if it does: `None` where the text gives
/// no time.
fn touched_for(command: &Command) -> Option<Option<u64>> {
    match command {
        Command::Touch { until, .. } => Some(match until {
            Until::Elapsed { ms } => Some(*ms),
            Until::Passes { .. } | Until::ScanSeq { .. } => None,
        }),
        _ => None,
    }
}

impl Resolver<'_> {
    fn step(&mut self, path: &str, raw: &RawStep) {
        if raw.prepare.is_empty() && raw.run.is_empty() {
            self.problems
                .add(path, "the step does nothing: `run` is empty");
        }
        if let Some(measure) = &raw.measure {
            let at = format!("{path}.measure");
            name::check(&at, "measurement", measure, self.problems);
            let measures = &mut self.resolved.measures;
            if measures
                .insert(measure.clone(), Measured::default())
                .is_some()
            {
                let message = format!("there already is a measurement {measure:?}");
                self.problems.add(&at, message);
            }
        }
        let mut prepare = Vec::new();
        let mut lanes = Vec::new();
        for (i, action) in raw.prepare.iter().enumerate() {
            let commands = self.action(&format!("{path}.prepare[{i}]"), action);
            let commands = commands.map(|(before, own)| before.into_iter().chain([own]));
            lane(&mut prepare, action).extend(commands.into_iter().flatten());
        }
        for (i, action) in raw.run.iter().enumerate() {
            let commands = self.action(&format!("{path}.run[{i}]"), action);
            let (before, own) = commands.map_or((None, None), |(before, own)| (before, Some(own)));
            if let Some(before) = before {
                lane(&mut prepare, action).push(before);
            }
            lane(&mut lanes, action).extend(own);
        }
        self.resolved.steps.push(Step {
            measure: raw.measure.clone(),
            prepare,
            actors: lanes,
        });
    }

    /// The commands of an action: one to give before the measurement, if any, and its own.
    fn action(&mut self, path: &str, raw: &RawAction) -> Option<(Option<Command>, Command)> {
        let verb = ACTION.head(path, &keys(raw), self.problems)?;
        let at = format!("{path}.task");
        let Some(task) = &raw.task else {
            if verb != "sleep" && !WITHOUT_TASK.contains(&verb) {
                self.problems.add(path, format!("`{verb}` needs a `task`"));
                return None;
            }
            return Some((None, self.agent_action(path, verb, raw)?));
        };
        if WITHOUT_TASK.contains(&verb) {
            return None;
        }
        if !self.tasks.contains_key(task) {
            let known = self.tasks.keys().map(String::as_str);
            self.problems.unknown(&at, "task", task, known);
            return None;
        }
        if self.resolved.exits.contains(task) {
            let message = format!("task {task:?} has exited");
            self.problems.add(at, message);
            return None;
        }
        if verb == "touch" {
            return self.regions.touch(path, task, raw, self.problems);
        }
        Some((None, self.task_action(path, verb, task, raw)?))
    }

    fn task_action(
        &mut self,
        path: &str,
        verb: &str,
        task: &str,
        raw: &RawAction,
    ) -> Option<Command> {
        let problems = &mut *self.problems;
        let known = |name: &Option<String>, problems: &mut Problems| {
            let name = name.as_deref()?;
            self.regions.get(path, verb, task, name, problems)?;
            Some(name.to_owned())
        };
        Some(match verb {
            "map" => Command::Map(self.regions.map(path, task, raw, problems)?),
            "unmap" => {
                let region = known(&raw.unmap, problems)?;
                self.regions.unmap(task, &region);
                Command::Unmap { region }
            }
            "protect" => {
                let region = known(&raw.protect, problems)?;
                let Some(access) = raw.access else {
                    problems.add(path, "`protect` needs `access`");
                    return None;
                };
                Command::Protect {
                    region,
                    access: access_of(access),
                }
            }
            "probe" | "placement" => return self.ask(path, verb, task, raw),
            "move-to-cpus" => {
                let at = format!("{path}.move-to-cpus");
                let cpus = raw.move_to_cpus.as_deref()?;
                Command::Affinity {
                    cpus: self.extent.cpus(&at, cpus, problems)?,
                }
            }
            "policy" => {
                let parts = (
                    raw.policy,
                    raw.policy_nodes.as_deref(),
                    raw.policy_balancing,
                );
                Command::Policy(tasks::policy(path, parts, self.extent, problems)?)
            }
            "exit" => {
                self.resolved.exits.insert(task.to_owned());
                Command::Exit { status: raw.exit? }
            }
            _ => self.sleep(path, raw)?,
        })
    }

    /// The verbs that ask something about a region.
    fn ask(&mut self, path: &str, verb: &str, task: &str, raw: &RawAction) -> Option<Command> {
        let name = raw.probe.as_deref().or(raw.placement.as_deref())?;
        let region = self.regions.get(path, verb, task, name, self.problems)?;
        let at = format!("{path}.{verb}");
        let probes = verb == "probe";
        if probes && region.populate == Populate::No {
            let message = "the first touch of a page faults, too, so a probe needs a region that \
                           was populated";
            self.problems.add(&at, message);
        }
        let asked = if probes {
            &mut self.resolved.probes
        } else {
            &mut self.resolved.placements
        };
        if !asked.insert((task.to_owned(), name.to_owned())) {
            let message = format!(
                "the scenario has a `{verb}` of this region already, and an assertion could mean \
                 either"
            );
            self.problems.add(at, message);
        }
        let region = name.to_owned();
        Some(if probes {
            Command::Probe { region }
        } else {
            Command::Placement { region }
        })
    }

    fn agent_action(&mut self, path: &str, verb: &str, raw: &RawAction) -> Option<Command> {
        let problems = &mut *self.problems;
        match verb {
            "set" => {
                let name = raw.set.as_deref()?;
                let Some(tunable) = tunables::named(name) else {
                    let at = format!("{path}.set");
                    let known = tunables::units().map(|(name, _)| name);
                    problems.unknown(&at, "tunable", name, known);
                    return None;
                };
                let Some(value) = raw.value else {
                    problems.add(path, "`set` needs a `value`");
                    return None;
                };
                Some(Command::Set(Setting { tunable, value }))
            }
            "cpuset" => {
                let name = raw.cpuset.clone()?;
                if !self.cgroups.contains_key(&name) {
                    let known = self.cgroups.keys().map(String::as_str);
                    problems.unknown(&format!("{path}.cpuset"), "control group", &name, known);
                    return None;
                }
                if raw.mems.is_none() && raw.cpus.is_none() {
                    problems.add(path, "`cpuset` needs `mems`, `cpus` or both");
                }
                let lists = [("mems", &raw.mems), ("cpus", &raw.cpus)];
                Some(Command::Cpuset(tasks::cgroup(
                    name,
                    path,
                    lists,
                    self.extent,
                    problems,
                )))
            }
            _ => self.sleep(path, raw),
        }
    }

    fn sleep(&mut self, path: &str, raw: &RawAction) -> Option<Command> {
        let text = raw.sleep.as_deref()?;
        let at = format!("{path}.sleep");
        let ms = self.problems.take(&at, quantity::milliseconds(text))?;
        Some(Command::Sleep { ms })
    }
}

/// The commands of the action's actor, which may be none yet.
fn lane<'a>(lanes: &'a mut Vec<Actor>, action: &RawAction) -> &'a mut Vec<Command> {
    let found = lanes.iter().position(|lane| lane.task == action.task);
    let index = found.unwrap_or_else(|| {
        lanes.push(Actor {
            task: action.task.clone(),
            commands: Vec::new(),
        });
        lanes.len() - 1
    });
    &mut lanes[index].commands
}
