//! From a scenario's text to a [`Scenario`]: names are resolved, quantities read, rules
//! checked. All problems of one file are gathered and reported together.

use std::collections::BTreeMap;

use camino::Utf8Path;
use numalab_protocol::plan::CgroupVersion;

use super::assertion::Assertion;
use super::error::{Problem, ScenarioError};
use super::extent::Extent;
use super::feasible::Feasibility;
use super::home::Homes;
use super::model::{Scenario, Work};
use super::problems::Problems;
use super::raw::{RawAssertion, RawMachine, RawScenario, RawSince};
use super::since::{Release, Since};
use super::vacuity::Vacuity;
use super::{assertions, name, quantity, steps, tasks, tunables, yaml};
use crate::guest::topology::{Machine, Node};
use numalab_kernels::yaml::{Index, too_deep};

pub(super) fn resolve(file: &Utf8Path, text: &str) -> Result<Scenario, ScenarioError> {
    let error = |problems: Vec<Problem>| ScenarioError {
        file: file.to_string(),
        problems,
    };
    let one = |place, message, help| error(vec![Problem::new(file, text, place, message, help)]);
    if let Some(place) = too_deep(text) {
        let message = "brackets are nested deeper than in any scenario".to_owned();
        return Err(one(place, message, None));
    }
    let index = Index::new(text);
    let doubled = index.doubled.iter().map(|(path, place)| {
        let message = format!("`{path}` is given twice");
        Problem::new(file, text, *place, message, None)
    });
    let doubled: Vec<Problem> = doubled.collect();
    if !doubled.is_empty() {
        return Err(error(doubled));
    }
    let raw = yaml::read(text, &index).map_err(
        |yaml::Mistake {
             place,
             message,
             help,
         }| { one(place, message, Some(help)) },
    )?;

    let mut problems = Problems::default();
    match scenario(file, text, raw, &mut problems) {
        Some(scenario) if problems.is_empty() => Ok(scenario),
        _ => {
            let problems = problems.into_iter().map(|(path, message, help)| {
                Problem::new(file, text, index.find(&path), message, help)
            });
            Err(error(problems.collect()))
        }
    }
}

fn scenario(
    file: &Utf8Path,
    text: &str,
    raw: RawScenario,
    problems: &mut Problems,
) -> Option<Scenario> {
    let name = problems.take("", name::of_file(file))?;
    if raw.summary.trim().is_empty() {
        problems.add("summary", "the summary is empty");
    }
    if let Some(shift) = raw.shift.filter(|shift| *shift > 10) {
        problems.add(
            "shift",
            format!("shift {shift} is out of range: QEMU accepts 0 to 10"),
        );
    }
    let since = raw.since.and_then(|raw| since(raw, problems));
    let machine = machine(&raw.machine, problems);
    let cgroup_version = match raw.cgroup_version {
        None | Some(2) => CgroupVersion::V2,
        Some(1) => CgroupVersion::V1,
        Some(other) => {
            problems.add(
                "cgroup-version",
                format!("there is no version {other}, only 1 and 2"),
            );
            CgroupVersion::V2
        }
    };
    let settings = tunables::balancing(&raw.balancing, problems);

    let extent = &Extent::new(machine.as_ref());
    let mut cgroups = tasks::cgroups(&raw.cgroups, extent, problems);
    let mut resolved_tasks = BTreeMap::new();
    for (name, raw) in &raw.tasks {
        if let Some(task) = tasks::task(name, raw, extent, &mut cgroups, problems) {
            resolved_tasks.insert(name.clone(), task);
        }
    }

    let resolved = steps::resolve(&raw.steps, &raw.tasks, &cgroups, extent, problems);
    let mut all = |key: &str, raw: &[RawAssertion]| -> Vec<Assertion> {
        let assertions = raw.iter().enumerate().filter_map(|(i, raw)| {
            assertions::resolve(&format!("{key}[{i}]"), raw, &resolved, extent, problems)
        });
        assertions.collect()
    };
    let guards = all("guards", &raw.guards);
    let expectations = all("expect", &raw.expect);
    let machine = machine?;
    if problems.is_empty() {
        let feasibility = Feasibility {
            machine: &machine,
            settings: &settings,
            steps: &resolved.steps,
            measures: &resolved.measures,
        };
        feasibility.check("guards", &guards, problems);
        feasibility.check("expect", &expectations, problems);
    }
    if problems.is_empty() {
        let vacuity = Vacuity {
            guards: &guards,
            expectations: &expectations,
            measures: &resolved.measures,
            homes: &Homes::new(&machine, &resolved_tasks, &cgroups, &resolved.steps),
        };
        vacuity.check(problems);
    }
    let work = Work {
        cgroup_version,
        settings,
        // Sorted by path, so parents come before children.
        cgroups: cgroups.into_values().collect(),
        tasks: resolved_tasks,
        steps: resolved.steps,
    };
    let scenario = Scenario {
        name,
        file: file.to_owned(),
        text: text.to_owned(),
        summary: raw.summary,
        why: raw.why,
        subject: raw.subject,
        fixed_by: raw.fixed_by,
        since,
        machine,
        shift: raw.shift,
        guards,
        expectations,
        work,
    };
    let plan = scenario.plan(&scenario.machine, u64::MAX);
    if let Err(problem) = numalab_protocol::pages::encode(&plan) {
        problems.add("steps", problem.to_string());
    }
    Some(scenario)
}

fn since(raw: RawSince, problems: &mut Problems) -> Option<Since> {
    if raw.because.trim().is_empty() {
        problems.add(
            "since.because",
            "`because` is empty: say what the release introduced",
        );
    }
    let release = problems.take("since.release", Release::parse(&raw.release))?;
    Some(Since {
        release,
        because: raw.because,
    })
}

fn machine(raw: &RawMachine, problems: &mut Problems) -> Option<Machine> {
    let nodes = match (&raw.nodes, &raw.each_node) {
        (Some(count), None) => {
            let memory = match &raw.memory_per_node {
                None => Some(256),
                Some(text) => problems.take("machine.memory-per-node", quantity::mebibytes(text)),
            };
            let node = Node {
                cpus: raw.cpus_per_node.unwrap_or(1),
                memory_mib: memory?,
            };
            if *count > 64 {
                problems.add("machine.nodes", format!("{count} nodes: 64 at most"));
                return None;
            }
            vec![node; *count as usize]
        }
        (None, Some(each)) => {
            for (key, given) in [
                ("cpus-per-node", raw.cpus_per_node.is_some()),
                ("memory-per-node", raw.memory_per_node.is_some()),
            ] {
                if given {
                    problems.add(
                        format!("machine.{key}"),
                        format!("`{key}` does not go with `each-node`"),
                    );
                }
            }
            let nodes = each.iter().enumerate().map(|(i, node)| {
                let path = format!("machine.each-node[{i}].memory");
                let memory_mib = problems.take(&path, quantity::mebibytes(&node.memory))?;
                Some(Node {
                    cpus: node.cpus,
                    memory_mib,
                })
            });
            nodes.collect::<Option<Vec<_>>>()?
        }
        _ => {
            problems.add("machine", "a machine needs either `nodes` or `each-node`");
            return None;
        }
    };
    let made = Machine::new(nodes, raw.distances.clone(), raw.kernel_parameters.clone());
    problems.take("machine", made.map_err(|problem| problem.to_string()))
}
