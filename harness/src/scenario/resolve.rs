//! From a scenario's text to a [`Scenario`]: names are resolved, quantities read, rules
//! checked. All problems of one file are gathered and reported together.

use std::collections::BTreeMap;

use camino::Utf8Path;
use numalab_protocol::plan::CgroupVersion;

use super::assertion::Assertion;
use super::error::{Problem, ScenarioError};
use super::extent::Extent;
use super::position::{Index, Place, too_deep};
use super::problems::Problems;
use super::raw::{RawAssertion, RawMachine, RawScenario, RawSince};
use super::since::{Release, Since};
use super::{Scenario, Work, assertions, name, quantity, steps, tasks, tunables, vacuity};
use crate::guest::topology::{Machine, Node};

/// Letters of the deserializer's message that are shown: it quotes a text whole.
const LONGEST: usize = 300;

pub(super) fn resolve(file: &Utf8Path, text: &str) -> Result<Scenario, ScenarioError> {
    let error = |problems: Vec<Problem>| ScenarioError {
        file: file.to_string(),
        problems,
    };
    if let Some(place) = too_deep(text) {
        let message = "brackets are nested deeper than in any scenario".to_owned();
        return Err(error(vec![Problem::new(file, text, place, message, None)]));
    }
    let index = Index::new(text);
    let doubled: Vec<Problem> = index
        .doubled
        .iter()
        .map(|(path, place)| {
            Problem::new(file, text, *place, format!("`{path}` is given twice"), None)
        })
        .collect();
    if !doubled.is_empty() {
        return Err(error(doubled));
    }
    let raw: RawScenario = serde_yaml::from_str(text).map_err(|problem| {
        let place = problem.location().map_or(
            Place {
                line: 1,
                column: 1,
                length: 1,
            },
            |at| Place {
                line: at.line(),
                column: at.column(),
                length: 1,
            },
        );
        let message = problem.to_string();
        // The place is shown in front.
        let message = message.split(" at line ").next().unwrap_or_default();
        let message = match message.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{} ...", &message[..end]),
            None => message.to_owned(),
        };
        let help = "`numalab schema` prints what is allowed where".to_owned();
        error(vec![Problem::new(file, text, place, message, Some(help))])
    })?;

    let mut problems = Problems::default();
    let scenario = scenario(file, text, raw, &mut problems);
    match scenario {
        Some(scenario) if problems.is_empty() => Ok(scenario),
        _ => Err(error(
            problems
                .into_iter()
                .map(|(path, message, help)| {
                    Problem::new(file, text, index.find(&path), message, help)
                })
                .collect(),
        )),
    }
}

fn scenario(
    file: &Utf8Path,
    text: &str,
    raw: RawScenario,
    problems: &mut Problems,
) -> Option<Scenario> {
    let name = name::of_file(file);
    if raw.summary.trim().is_empty() {
        problems.add("summary", "the summary is empty");
    }
    if let Some(shift) = raw.shift.filter(|shift| *shift > 10) {
        problems.add(
            "shift",
            format!("shift {shift} is out of range: QEMU takes 0 to 10"),
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
                format!("there is no version {other}: 1 or 2"),
            );
            CgroupVersion::V2
        }
    };
    let settings = tunables::balancing(&raw.balancing, problems);

    let extent = Extent::of(machine.as_ref());
    let mut cgroups = tasks::cgroups(&raw.cgroups, extent, problems);
    let mut resolved_tasks = BTreeMap::new();
    for (name, raw) in &raw.tasks {
        if let Some(task) = tasks::task(name, raw, extent, &mut cgroups, problems) {
            resolved_tasks.insert(name.clone(), task);
        }
    }

    let resolved = steps::resolve(&raw.steps, &raw.tasks, &cgroups, extent, problems);
    if raw.expect.is_empty() {
        problems.add("expect", "nothing is expected");
    }
    let mut all = |key: &str, raw: &[RawAssertion]| -> Vec<Assertion> {
        let assertions = raw.iter().enumerate().filter_map(|(i, raw)| {
            assertions::resolve(&format!("{key}[{i}]"), raw, &resolved, extent, problems)
        });
        assertions.collect()
    };
    let guards = all("guards", &raw.guards);
    let expectations = all("expect", &raw.expect);
    if problems.is_empty() {
        let uncontrolled = vacuity::uncontrolled(&guards, &expectations, &resolved.measures);
        let untouched = vacuity::untouched(&expectations, &resolved.measures);
        for (i, sentence) in uncontrolled.into_iter().chain(untouched) {
            problems.add(format!("expect[{i}]"), sentence);
        }
        if let Some(sentence) = vacuity::without_scan(&guards, &expectations) {
            problems.add("expect", sentence);
        }
    }
    let work = Work {
        cgroup_version,
        settings,
        // Sorted by path, so parents come before children.
        cgroups: cgroups.into_values().collect(),
        tasks: resolved_tasks,
        steps: resolved.steps,
    };
    let machine = machine?;
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
        problems.add("since.because", "`because` is empty: say what came with it");
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
                        format!("`{key}` goes with `nodes`"),
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
            problems.add("machine", "a machine has either `nodes` or `each-node`");
            return None;
        }
    };
    let made = Machine::new(nodes, raw.distances.clone(), raw.kernel_parameters.clone());
    problems.take("machine", made.map_err(|problem| problem.to_string()))
}
