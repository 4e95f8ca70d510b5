//! From the text of guards and expectations to [`Assertion`]s.

use std::collections::BTreeSet;

use super::assertion::{Assertion, Bound, Observable, Unit};
use super::extent::Extent;
use super::facts::{FACTS, is_fact};
use super::grammar::{ASSERTION, keys};
use super::problems::Problems;
use super::raw::{RawAssertion, RawUnit};
use super::steps;

/// Resolves the guard or expectation at `path`.
pub(super) fn resolve(
    path: &str,
    raw: &RawAssertion,
    steps: &steps::Resolved,
    extent: &Extent,
    problems: &mut Problems,
) -> Option<Assertion> {
    let before = problems.len();
    let because = raw.because.clone().filter(|text| !text.trim().is_empty());
    if because.is_none() {
        let message = "every assertion needs a `because`: why does a correct kernel do this?";
        problems.add(path, message);
    }
    let bounds = [
        raw.equals.map(Bound::Equals),
        raw.at_least.map(Bound::AtLeast),
        raw.at_most.map(Bound::AtMost),
    ];
    let mut given = bounds.into_iter().flatten();
    let bound = match (given.next(), given.next()) {
        (Some(bound), None) => Some(bound),
        _ => {
            let message = "an assertion needs exactly one of `equals`, `at-least`, `at-most`";
            problems.add(path, message);
            None
        }
    };
    let resolver = Resolver {
        path,
        raw,
        steps,
        problems,
    };
    let observable = resolver.observable(extent);
    if problems.len() > before {
        return None;
    }
    Some(Assertion {
        observable: observable?,
        bound: bound?,
        because: because?,
    })
}

struct Resolver<'a> {
    path: &'a str,
    raw: &'a RawAssertion,
    steps: &'a steps::Resolved,
    problems: &'a mut Problems,
}

impl Resolver<'_> {
    fn observable(mut self, extent: &Extent) -> Option<Observable> {
        let (path, raw) = (self.path, self.raw);
        let kind = ASSERTION.head(path, &keys(raw), self.problems)?;
        if let Some(name) = &raw.counter {
            return Some(Observable::Counter {
                measure: self.measure()?,
                name: name.clone(),
            });
        }
        let of_task = [&raw.memory_stat, &raw.sched, &raw.sched_change];
        if let Some(name) = of_task.into_iter().flatten().next() {
            let name = name.clone();
            let measure = self.measure()?;
            let task = self.measured_task(&measure)?;
            if kind == "memory-stat" && !self.steps.in_cgroups.contains(&task) {
                let message = format!("task {task:?} is in no control group of its own");
                self.problems.add(path, message);
            }
            return Some(match kind {
                "memory-stat" => Observable::MemoryStat {
                    measure,
                    task,
                    name,
                },
                "sched" => Observable::Sched {
                    measure,
                    task,
                    name,
                },
                _ => Observable::SchedChange {
                    measure,
                    task,
                    name,
                },
            });
        }
        if let Some(region) = &raw.probe {
            return Some(Observable::Probe {
                task: self.asked_task(kind, region, &self.steps.probes)?,
                region: region.clone(),
                unit: self.unit(),
            });
        }
        if let Some(region) = &raw.placement {
            let unit = self.unit();
            if matches!(unit, Unit::Vmas | Unit::PercentOfVmas) {
                let message = "a placement is counted in pages or percent-of-pages";
                self.problems.add(format!("{path}.in"), message);
            }
            let task = self.asked_task(kind, region, &self.steps.placements)?;
            let Some(node) = raw.node else {
                self.problems.add(path, "`placement` needs a `node`");
                return None;
            };
            extent.node(&format!("{path}.node"), node, self.problems);
            return Some(Observable::Placement {
                task,
                region: region.clone(),
                node,
                unit,
            });
        }
        if let Some(task) = &raw.exit_status {
            if !self.steps.exits.contains(task) {
                let known = self.steps.exits.iter().map(String::as_str);
                let at = format!("{path}.exit-status");
                let what = "action `exit` of a task";
                self.problems.unknown(&at, what, task, known);
            }
            return Some(Observable::ExitStatus { task: task.clone() });
        }
        let name = raw.fact.clone()?;
        if !is_fact(&name) {
            let names: Vec<&str> = FACTS.iter().map(|(name, _)| *name).collect();
            let message = format!("there is no fact {name:?}");
            let help = format!("there are: {}", names.join(", "));
            self.problems
                .add_with_help(format!("{path}.fact"), message, help);
        }
        Some(Observable::Fact { name })
    }

    fn unit(&self) -> Unit {
        match self.raw.r#in {
            None | Some(RawUnit::Pages) => Unit::Pages,
            Some(RawUnit::PercentOfPages) => Unit::PercentOfPages,
            Some(RawUnit::Vmas) => Unit::Vmas,
            Some(RawUnit::PercentOfVmas) => Unit::PercentOfVmas,
        }
    }

    fn measure(&mut self) -> Option<String> {
        let known = &self.steps.measures;
        match &self.raw.measure {
            None => {
                let message = "`measure` is needed: which measurement is this about?";
                self.problems.add(self.path, message);
                None
            }
            Some(name) if !known.contains_key(name) => {
                let at = format!("{}.measure", self.path);
                let known = known.keys().map(String::as_str);
                self.problems.unknown(&at, "measurement", name, known);
                None
            }
            Some(name) => Some(name.clone()),
        }
    }

    /// The task that is meant: the one named, or the only one of the measurement's step.
    fn measured_task(&mut self, measure: &str) -> Option<String> {
        let tasks = self.steps.measures.get(measure)?;
        match &self.raw.task {
            Some(task) if !tasks.alive.contains(task) => {
                let at = format!("{}.task", self.path);
                let known = tasks.alive.iter().map(String::as_str);
                self.problems
                    .unknown(&at, "living task in that step:", task, known);
                None
            }
            Some(task) => Some(task.clone()),
            None if tasks.acting.len() == 1 => tasks.acting.first().cloned(),
            None => {
                let message = "`task` is needed: not exactly one task acts in that step";
                self.problems.add(self.path, message);
                None
            }
        }
    }

    /// The task whose region was asked about.
    fn asked_task(
        &mut self,
        kind: &str,
        region: &str,
        asked: &BTreeSet<(String, String)>,
    ) -> Option<String> {
        let of_region = asked.iter().filter(|(_, name)| name == region);
        let tasks: Vec<&String> = of_region.map(|(task, _)| task).collect();
        match (&self.raw.task, &tasks[..]) {
            (Some(task), tasks) if tasks.contains(&task) => Some(task.clone()),
            (None, [task]) => Some((*task).clone()),
            (None, [_, _, ..]) => {
                let message = "`task` is needed: several tasks have a region of that name";
                self.problems.add(self.path, message);
                None
            }
            _ => {
                let at = format!("{}.{kind}", self.path);
                let known = asked.iter().map(|(_, region)| region.as_str());
                let what = format!("action `{kind}` of region");
                self.problems.unknown(&at, &what, region, known);
                None
            }
        }
    }
}
