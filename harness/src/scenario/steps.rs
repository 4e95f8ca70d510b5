//! From the text of steps to the plan's steps: verbs, regions, and who does what.

use std::collections::{BTreeMap, BTreeSet};

use numalab_protocol::plan::{Actor, Cgroup, Command, Populate, Region, Setting, Step};

use super::extent::Extent;
use super::problems::Problems;
use super::raw::{RawAction, RawStep, RawTask};
use super::regions::{access_of, is_size};
use super::{name, quantity, tasks, tunables};

/// The steps, and what assertions may refer to.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    pub(super) steps: Vec<Step>,
    pub(super) measures: BTreeMap<String, Measured>,
    /// Task and region of each probe.
    pub(super) probes: BTreeSet<(String, String)>,
    /// Task and region of each question for placement.
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

pub(super) struct Resolver<'a> {
    pub(super) tasks: &'a BTreeMap<String, RawTask>,
    pub(super) cgroups: &'a BTreeMap<String, Cgroup>,
    pub(super) extent: Extent,
    pub(super) problems: &'a mut Problems,
    pub(super) resolved: Resolved,
    pub(super) regions: BTreeMap<(String, String), Region>,
}

pub(super) fn resolve(
    raw: &[RawStep],
    tasks: &BTreeMap<String, RawTask>,
    cgroups: &BTreeMap<String, Cgroup>,
    extent: Extent,
    problems: &mut Problems,
) -> Resolved {
    if raw.is_empty() {
        problems.add("steps", "there is no step");
    }
    let resolved = Resolved::default();
    let mut resolver = Resolver {
        tasks,
        cgroups,
        extent,
        problems,
        resolved,
        regions: BTreeMap::new(),
    };
    for (i, step) in raw.iter().enumerate() {
        resolver.step(&format!("steps[{i}]"), step);
    }
    let Resolver {
        mut resolved,
        problems,
        ..
    } = resolver;
    let used = |step: &RawStep, name: &str| {
        step.prepare
            .iter()
            .chain(&step.run)
            .any(|action| action.task.as_deref() == Some(name))
    };
    for (name, task) in tasks {
        if task.cgroup.is_some() || task.cpuset_mems.is_some() || task.cpuset_cpus.is_some() {
            resolved.in_cgroups.insert(name.clone());
        }
        let first = raw.iter().position(|step| used(step, name));
        let last = raw.iter().rposition(|step| used(step, name));
        let (Some(first), Some(last)) = (first, last) else {
            // A misspelt name is a problem already, and this would only repeat it.
            if problems.is_empty() {
                problems.add(
                    format!("tasks.{name}"),
                    format!("no step uses task {name:?}"),
                );
            }
            continue;
        };
        for (i, step) in raw.iter().enumerate() {
            let measured = step
                .measure
                .as_ref()
                .and_then(|m| resolved.measures.get_mut(m));
            let Some(measured) = measured else { continue };
            if first <= i && i <= last {
                measured.alive.insert(name.clone());
            }
            let own = || {
                step.run
                    .iter()
                    .filter(|action| action.task.as_ref() == Some(name))
            };
            if own().next().is_some() {
                measured.acting.insert(name.clone());
            }
            let touches = || own().filter(|action| action.touch.is_some());
            if touches().next().is_some() {
                // A time that cannot be read is a problem already.
                let time =
                    touches().map(|action| quantity::milliseconds(action.r#for.as_deref()?).ok());
                measured.touching.insert(name.clone(), time.sum());
            }
        }
    }
    resolved
}

impl Resolver<'_> {
    fn step(&mut self, path: &str, raw: &RawStep) {
        if raw.prepare.is_empty() && raw.run.is_empty() {
            self.problems
                .add(path, "the step does nothing: `run` is empty");
        }
        if let Some(measure) = &raw.measure {
            let at = format!("{path}.measure");
            if !name::is_name(measure) {
                self.problems.add(
                    &at,
                    "a name is made of lower-case letters, digits and dashes",
                );
            }
            if self
                .resolved
                .measures
                .insert(measure.clone(), Measured::default())
                .is_some()
            {
                self.problems
                    .add(&at, format!("there is a measurement {measure:?} already"));
            }
        }
        let mut prepare = Vec::new();
        for (i, action) in raw.prepare.iter().enumerate() {
            let commands = self.action(&format!("{path}.prepare[{i}]"), action);
            lane(&mut prepare, action).extend(
                commands
                    .map(|(before, own)| [before, own].concat())
                    .unwrap_or_default(),
            );
        }
        let mut lanes = Vec::new();
        for (i, action) in raw.run.iter().enumerate() {
            if let Some((before, own)) = self.action(&format!("{path}.run[{i}]"), action) {
                if !before.is_empty() {
                    lane(&mut prepare, action).extend(before);
                }
                lane(&mut lanes, action).extend(own);
            }
        }
        self.resolved.steps.push(Step {
            measure: raw.measure.clone(),
            prepare,
            actors: lanes,
        });
    }

    // The commands of an action: those to be given before the measurement, and its own.
    fn action(&mut self, path: &str, raw: &RawAction) -> Option<(Vec<Command>, Vec<Command>)> {
        let task_verbs = [
            ("map", raw.map.is_some()),
            ("unmap", raw.unmap.is_some()),
            ("protect", raw.protect.is_some()),
            ("touch", raw.touch.is_some()),
            ("probe", raw.probe.is_some()),
            ("placement", raw.placement.is_some()),
            ("move-to-cpus", raw.move_to_cpus.is_some()),
            ("policy", raw.policy.is_some()),
            ("exit", raw.exit.is_some()),
        ];
        let agent_verbs = [("set", raw.set.is_some()), ("cpuset", raw.cpuset.is_some())];
        let sleep = [("sleep", raw.sleep.is_some())];
        let verbs = task_verbs.iter().chain(&agent_verbs).chain(&sleep);
        let mut given = verbs.filter(|(_, given)| *given).map(|(verb, _)| *verb);
        let (Some(verb), None) = (given.next(), given.next()) else {
            self.problems.add_with_help(
                path,
                "an action has exactly one verb",
                "a task's verbs: map, unmap, protect, touch, probe, placement, move-to-cpus, \
                 policy, sleep, exit; without a task: set, cpuset, sleep",
            );
            return None;
        };
        self.check_modifiers(path, verb, raw);
        let of_agent = agent_verbs.iter().any(|(agent, _)| *agent == verb);
        match &raw.task {
            Some(_) if of_agent => {
                self.problems.add(
                    format!("{path}.task"),
                    format!("`{verb}` is not for a task"),
                );
                None
            }
            None if !of_agent && verb != "sleep" => {
                self.problems.add(path, format!("`{verb}` needs a `task`"));
                None
            }
            Some(task) if !self.tasks.contains_key(task) => {
                let known = self.tasks.keys().map(String::as_str);
                self.problems
                    .unknown(&format!("{path}.task"), "task", task, known);
                None
            }
            Some(task) if self.resolved.exits.contains(task) => {
                self.problems
                    .add(format!("{path}.task"), format!("task {task:?} has exited"));
                None
            }
            Some(task) => self.task_action(path, verb, task, raw),
            None => self
                .agent_action(path, verb, raw)
                .map(|command| (vec![], vec![command])),
        }
    }

    // A modifier that says nothing of this verb would be silently ignored: it is refused.
    fn check_modifiers(&mut self, path: &str, verb: &str, raw: &RawAction) {
        let maps = verb == "map" || (verb == "touch" && raw.touch.as_deref().is_some_and(is_size));
        let rules = [
            ("size", raw.size.is_some(), verb == "map"),
            ("count", raw.count.is_some(), verb == "map"),
            ("gap", raw.gap.is_some(), verb == "map"),
            ("pages", raw.pages.is_some(), maps),
            ("shared", raw.shared.is_some(), maps),
            (
                "access",
                raw.access.is_some(),
                verb == "map" || verb == "protect",
            ),
            ("populate", raw.populate.is_some(), verb == "map"),
            ("on-node", raw.on_node.is_some(), maps),
            ("for", raw.r#for.is_some(), verb == "touch"),
            ("passes", raw.passes.is_some(), verb == "touch"),
            (
                "until-scan-seq",
                raw.until_scan_seq.is_some(),
                verb == "touch",
            ),
            ("within", raw.within.is_some(), raw.until_scan_seq.is_some()),
            ("policy-nodes", raw.policy_nodes.is_some(), verb == "policy"),
            (
                "policy-balancing",
                raw.policy_balancing.is_some(),
                verb == "policy",
            ),
            ("value", raw.value.is_some(), verb == "set"),
            ("mems", raw.mems.is_some(), verb == "cpuset"),
            ("cpus", raw.cpus.is_some(), verb == "cpuset"),
        ];
        for (key, given, fits) in rules {
            if given && !fits {
                self.problems.add(
                    format!("{path}.{key}"),
                    format!("`{key}` does not go with `{verb}`"),
                );
            }
        }
    }

    fn task_action(
        &mut self,
        path: &str,
        verb: &str,
        task: &str,
        raw: &RawAction,
    ) -> Option<(Vec<Command>, Vec<Command>)> {
        let own = match verb {
            "map" => Command::Map(self.map(path, task, raw)?),
            "touch" => return self.touch(path, task, raw),
            "unmap" => {
                let region = self.region(path, verb, task, raw.unmap.as_deref()?)?;
                self.regions.remove(&(task.to_owned(), region.clone()));
                Command::Unmap { region }
            }
            "protect" => {
                let region = self.region(path, verb, task, raw.protect.as_deref()?)?;
                let Some(access) = raw.access else {
                    self.problems.add(path, "`protect` needs `access`");
                    return None;
                };
                Command::Protect {
                    region,
                    access: access_of(access),
                }
            }
            "probe" | "placement" => {
                let name = raw.probe.as_deref().or(raw.placement.as_deref())?;
                let region = self.region(path, verb, task, name)?;
                let key = (task.to_owned(), region.clone());
                let probes = verb == "probe";
                if probes
                    && self
                        .regions
                        .get(&key)
                        .is_some_and(|r| r.populate == Populate::No)
                {
                    let message = "the first touch of a page faults as well: a probe needs a \
                                   region that was populated";
                    self.problems.add(format!("{path}.probe"), message);
                }
                let asked = &mut self.resolved;
                let asked = if probes {
                    &mut asked.probes
                } else {
                    &mut asked.placements
                };
                if !asked.insert(key) {
                    let message = "asked twice: a assertion could not tell which answer is meant";
                    self.problems.add(format!("{path}.{verb}"), message);
                }
                if probes {
                    Command::Probe { region }
                } else {
                    Command::Placement { region }
                }
            }
            "move-to-cpus" => {
                let at = format!("{path}.move-to-cpus");
                let cpus = self
                    .extent
                    .cpus(&at, raw.move_to_cpus.as_deref()?, self.problems)?;
                Command::Affinity { cpus }
            }
            "policy" => {
                let nodes = raw.policy_nodes.as_deref();
                let balancing = raw.policy_balancing;
                Command::Policy(tasks::policy(
                    path,
                    raw.policy,
                    nodes,
                    balancing,
                    self.extent,
                    self.problems,
                )?)
            }
            "exit" => {
                self.resolved.exits.insert(task.to_owned());
                Command::Exit { status: raw.exit? }
            }
            _ => self.sleep(path, raw)?,
        };
        Some((Vec::new(), vec![own]))
    }

    fn agent_action(&mut self, path: &str, verb: &str, raw: &RawAction) -> Option<Command> {
        match verb {
            "set" => {
                let name = raw.set.as_deref()?;
                let Some(knob) = tunables::knob(name) else {
                    let at = format!("{path}.set");
                    self.problems
                        .unknown(&at, "knob", name, tunables::knob_names());
                    return None;
                };
                let Some(value) = raw.value else {
                    self.problems.add(path, "`set` needs a `value`");
                    return None;
                };
                Some(Command::Set(Setting {
                    tunable: knob,
                    value,
                }))
            }
            "cpuset" => {
                let name = raw.cpuset.clone()?;
                if !self.cgroups.contains_key(&name) {
                    let known = self.cgroups.keys().map(String::as_str);
                    self.problems
                        .unknown(&format!("{path}.cpuset"), "control group", &name, known);
                    return None;
                }
                if raw.mems.is_none() && raw.cpus.is_none() {
                    self.problems
                        .add(path, "`cpuset` needs `mems`, `cpus` or both");
                }
                if let Some(text) = &raw.mems {
                    self.extent
                        .nodes(&format!("{path}.mems"), text, self.problems);
                }
                if let Some(text) = &raw.cpus {
                    self.extent
                        .cpus(&format!("{path}.cpus"), text, self.problems);
                }
                Some(Command::Cpuset(Cgroup {
                    path: name,
                    mems: raw.mems.clone(),
                    cpus: raw.cpus.clone(),
                }))
            }
            _ => self.sleep(path, raw),
        }
    }

    fn sleep(&mut self, path: &str, raw: &RawAction) -> Option<Command> {
        let text = raw.sleep.as_deref()?;
        let ms = self
            .problems
            .take(&format!("{path}.sleep"), quantity::milliseconds(text))?;
        Some(Command::Sleep { ms })
    }

    pub(super) fn region(
        &mut self,
        path: &str,
        verb: &str,
        task: &str,
        name: &str,
    ) -> Option<String> {
        if self
            .regions
            .contains_key(&(task.to_owned(), name.to_owned()))
        {
            return Some(name.to_owned());
        }
        let known: Vec<&str> = self
            .regions
            .keys()
            .filter(|(owner, _)| owner == task)
            .map(|(_, region)| region.as_str())
            .collect();
        let what = format!("region of task {task:?}, mapped before this action,");
        self.problems
            .unknown(&format!("{path}.{verb}"), &what, name, known);
        None
    }
}

// The actor's lane, made at its first action.
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
