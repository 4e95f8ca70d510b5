//! From the text of guards and expectations to [`Assertion`]s.

use std::collections::BTreeSet;

use super::assertion::{Assertion, Bound, Observable, Unit};
use super::extent::Extent;
use super::problems::Problems;
use super::raw::{RawAssertion, RawUnit};
use super::steps;

/// Resolves the guard or expectation at `path`.
pub(super) fn resolve(
    path: &str,
    raw: &RawAssertion,
    steps: &steps::Resolved,
    extent: Extent,
    problems: &mut Problems,
) -> Option<Assertion> {
    let before = problems.len();
    let because = raw.because.clone().filter(|text| !text.trim().is_empty());
    if because.is_none() {
        problems.add(
            path,
            "every bound needs a `because`: why is this the value?",
        );
    }
    let bounds = [
        raw.equals.map(Bound::Equals),
        raw.at_least.map(Bound::AtLeast),
        raw.at_most.map(Bound::AtMost),
    ];
    let mut bounds = bounds.into_iter().flatten();
    let bound = match (bounds.next(), bounds.next()) {
        (Some(bound), None) => Some(bound),
        _ => {
            problems.add(
                path,
                "exactly one of `equals`, `at-least`, `at-most` is needed",
            );
            None
        }
    };
    let percent = matches!(
        raw.r#in,
        Some(RawUnit::PercentOfPages | RawUnit::PercentOfVmas)
    );
    let bounds = [
        ("equals", raw.equals),
        ("at-least", raw.at_least),
        ("at-most", raw.at_most),
    ];
    for (key, bound) in bounds {
        if percent && bound.is_some_and(|bound| !(0..=100).contains(&bound)) {
            problems.add(format!("{path}.{key}"), "a share is 0 to 100 percent");
        }
    }
    let subject = claim_subject(path, raw, steps, extent, problems);
    if problems.len() > before {
        return None;
    }
    Some(Assertion {
        subject: subject?,
        bound: bound?,
        because: because?,
    })
}

fn claim_subject(
    path: &str,
    raw: &RawAssertion,
    steps: &steps::Resolved,
    extent: Extent,
    problems: &mut Problems,
) -> Option<Observable> {
    let kinds = [
        ("counter", &raw.counter),
        ("memory-stat", &raw.memory_stat),
        ("sched", &raw.sched),
        ("sched-change", &raw.sched_change),
        ("probe", &raw.probe),
        ("placement", &raw.placement),
        ("exit-status", &raw.exit_status),
        ("fact", &raw.fact),
    ];
    let mut given = kinds
        .iter()
        .filter_map(|(kind, name)| Some((*kind, (*name).clone()?)));
    let (Some((kind, name)), None) = (given.next(), given.next()) else {
        let names: Vec<String> = kinds.iter().map(|(kind, _)| format!("`{kind}`")).collect();
        problems.add(
            path,
            format!("exactly one of {} is needed", names.join(", ")),
        );
        return None;
    };
    // Keys that say nothing of this kind would be silently ignored: refuse them.
    let measured = matches!(kind, "counter" | "memory-stat" | "sched" | "sched-change");
    let of_task = matches!(
        kind,
        "memory-stat" | "sched" | "sched-change" | "probe" | "placement"
    );
    let pages = matches!(kind, "probe" | "placement");
    for (key, given, fits) in [
        ("measure", raw.measure.is_some(), measured),
        ("task", raw.task.is_some(), of_task),
        ("node", raw.node.is_some(), kind == "placement"),
        ("in", raw.r#in.is_some(), pages),
    ] {
        if given && !fits {
            problems.add(
                format!("{path}.{key}"),
                format!("`{key}` does not go with `{kind}`"),
            );
        }
    }
    let measure = if measured {
        Some(measure(path, raw, steps, problems)?)
    } else {
        None
    };
    let counted_in = |problems: &mut Problems| {
        let unit = match raw.r#in {
            None | Some(RawUnit::Pages) => Unit::Pages,
            Some(RawUnit::PercentOfPages) => Unit::PercentOfPages,
            Some(RawUnit::Vmas) => Unit::Vmas,
            Some(RawUnit::PercentOfVmas) => Unit::PercentOfVmas,
        };
        if kind == "placement" && matches!(unit, Unit::Vmas | Unit::PercentOfVmas) {
            problems.add(
                format!("{path}.in"),
                "a placement counts pages or percent-of-pages",
            );
        }
        unit
    };
    match kind {
        "counter" => Some(Observable::Counter {
            measure: measure?,
            name,
        }),
        "memory-stat" | "sched" | "sched-change" => {
            let measure = measure?;
            let task = measured_task(path, raw, &measure, steps, problems)?;
            Some(match kind {
                "memory-stat" if !steps.in_cgroups.contains(&task) => {
                    problems.add(
                        path,
                        format!("task {task:?} is in no control group of its own"),
                    );
                    return None;
                }
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
            })
        }
        "probe" | "placement" => {
            let asked = if kind == "probe" {
                &steps.probes
            } else {
                &steps.placements
            };
            let task = asked_task(path, kind, raw, &name, asked, problems)?;
            let unit = counted_in(problems);
            if kind == "probe" {
                return Some(Observable::Probe {
                    task,
                    region: name,
                    unit,
                });
            }
            let Some(node) = raw.node else {
                problems.add(path, "`placement` needs `node`");
                return None;
            };
            extent.node(&format!("{path}.node"), node, problems);
            Some(Observable::Placement {
                task,
                region: name,
                node,
                unit,
            })
        }
        "exit-status" => {
            if !steps.exits.contains(&name) {
                let known = steps.exits.iter().map(String::as_str);
                let at = format!("{path}.exit-status");
                problems.unknown(&at, "action `exit` of a task", &name, known);
            }
            Some(Observable::ExitStatus { task: name })
        }
        _ => {
            if !is_fact(&name) {
                problems.add_with_help(
                    format!("{path}.fact"),
                    format!("guests tell no fact {name:?}"),
                    "there are: nodes, cpus, numa_balancing, thp, node0.cpus, \
                     node0.memory-kib, node0.distance.1",
                );
            }
            Some(Observable::Fact { name })
        }
    }
}

fn measure(
    path: &str,
    raw: &RawAssertion,
    steps: &steps::Resolved,
    problems: &mut Problems,
) -> Option<String> {
    match &raw.measure {
        None => {
            problems.add(
                path,
                "`measure` is needed: which measurement is this about?",
            );
            None
        }
        Some(name) if !steps.measures.contains_key(name) => {
            let known = steps.measures.keys().map(String::as_str);
            problems.unknown(&format!("{path}.measure"), "measurement", name, known);
            None
        }
        Some(name) => Some(name.clone()),
    }
}

// The task that is meant: the one named, or the only one of the measurement's step.
fn measured_task(
    path: &str,
    raw: &RawAssertion,
    measure: &str,
    steps: &steps::Resolved,
    problems: &mut Problems,
) -> Option<String> {
    let tasks = steps.measures.get(measure)?;
    match &raw.task {
        Some(task) if !tasks.alive.contains(task) => {
            let known = tasks.alive.iter().map(String::as_str);
            problems.unknown(
                &format!("{path}.task"),
                "living task in that step:",
                task,
                known,
            );
            None
        }
        Some(task) => Some(task.clone()),
        None if tasks.acting.len() == 1 => tasks.acting.first().cloned(),
        None => {
            problems.add(path, "`task` is needed: that step has not exactly one task");
            None
        }
    }
}

fn asked_task(
    path: &str,
    kind: &str,
    raw: &RawAssertion,
    region: &str,
    asked: &BTreeSet<(String, String)>,
    problems: &mut Problems,
) -> Option<String> {
    let of_region: Vec<&String> = asked
        .iter()
        .filter(|(_, name)| name == region)
        .map(|(task, _)| task)
        .collect();
    match &raw.task {
        Some(task) if of_region.contains(&task) => Some(task.clone()),
        None if of_region.len() == 1 => of_region.first().map(|task| (*task).clone()),
        None if of_region.len() > 1 => {
            problems.add(
                path,
                "`task` is needed: several tasks have a region of that name",
            );
            None
        }
        _ => {
            let known = asked.iter().map(|(_, region)| region.as_str());
            let what = format!("action `{kind}` of region");
            problems.unknown(&format!("{path}.{kind}"), &what, region, known);
            None
        }
    }
}

/// Whether a guest's start tells something of that name (`images/agent/src/topology.rs`).
fn is_fact(name: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match name
        .strip_prefix("node")
        .and_then(|rest| rest.split_once('.'))
    {
        Some((node, what)) => {
            let distance = what.strip_prefix("distance.").is_some_and(number);
            number(node) && (matches!(what, "cpus" | "memory-kib") || distance)
        }
        None => matches!(name, "nodes" | "cpus" | "numa_balancing" | "thp"),
    }
}
