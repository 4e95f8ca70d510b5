//! From a scenario's text to a [`Scenario`]: names are resolved, quantities read, rules
//! checked. All problems of one file are gathered and reported together.

use std::collections::BTreeMap;

use camino::Utf8Path;
use numalab_protocol::list;
use numalab_protocol::plan::{Cgroup, CgroupVersion, Knob, Policy, PolicyMode, Setting, Task};

use super::claim::Claim;
use super::error::{Problem, ScenarioError};
use super::position::{Index, Place};
use super::problems::Problems;
use super::raw::{RawBalancing, RawClaim, RawMachine, RawPolicyMode, RawScenario, RawTask};
use super::{Scenario, Work, claims, quantity, steps, vacuity};
use crate::machine::topology::{Machine, Node};

pub(super) fn resolve(file: &Utf8Path, text: &str) -> Result<Scenario, ScenarioError> {
    let index = Index::new(text);
    let error = |problems: Vec<Problem>| ScenarioError {
        file: file.to_string(),
        problems,
    };
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
        let message = message
            .split(" at line ")
            .next()
            .unwrap_or_default()
            .to_owned();
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
    let name = name(file, problems);
    if raw.summary.trim().is_empty() {
        problems.add("summary", "the summary is empty");
    }
    if let Some(shift) = raw.shift.filter(|shift| *shift > 10) {
        problems.add(
            "shift",
            format!("shift {shift} is out of range: QEMU takes 0 to 10"),
        );
    }
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
    let settings = balancing(&raw.balancing, problems);

    let mut cgroups: BTreeMap<String, Cgroup> = BTreeMap::new();
    for (path, cgroup) in &raw.cgroups {
        let at = format!("cgroups.{path}");
        if !path.split('/').all(is_name) {
            problems.add(
                &at,
                format!("{path:?} is no path of names such as a or a/b"),
            );
        }
        check_list(&format!("{at}.mems"), cgroup.mems.as_deref(), problems);
        check_list(&format!("{at}.cpus"), cgroup.cpus.as_deref(), problems);
        let cgroup = Cgroup {
            path: path.clone(),
            mems: cgroup.mems.clone(),
            cpus: cgroup.cpus.clone(),
        };
        cgroups.insert(path.clone(), cgroup);
    }
    for path in cgroups.keys().cloned().collect::<Vec<_>>() {
        // Parents that are not named are made, without a cpuset of their own.
        for (end, _) in path.match_indices('/') {
            let parent = path[..end].to_owned();
            cgroups.entry(parent.clone()).or_insert(Cgroup {
                path: parent,
                mems: None,
                cpus: None,
            });
        }
    }
    let mut tasks = BTreeMap::new();
    for (name, raw) in &raw.tasks {
        if let Some(task) = task(name, raw, machine.as_ref(), &mut cgroups, problems) {
            tasks.insert(name.clone(), task);
        }
    }

    let resolved = steps::resolve(&raw.steps, &raw.tasks, &cgroups, problems);
    if raw.expect.is_empty() {
        problems.add("expect", "nothing is expected");
    }
    let mut all = |key: &str, raw: &[RawClaim]| -> Vec<Claim> {
        let claims = raw.iter().enumerate().filter_map(|(i, raw)| {
            claims::resolve(&format!("{key}[{i}]"), raw, &resolved, problems)
        });
        claims.collect()
    };
    let guards = all("guards", &raw.guards);
    let expectations = all("expect", &raw.expect);
    if problems.is_empty() {
        for (i, sentence) in vacuity::uncontrolled(&guards, &expectations) {
            problems.add(format!("expect[{i}]"), sentence);
        }
    }
    let work = Work {
        cgroup_version,
        settings,
        // Sorted by path, so parents come before children.
        cgroups: cgroups.into_values().collect(),
        tasks,
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

fn name(file: &Utf8Path, problems: &mut Problems) -> String {
    let stem = file.file_stem().unwrap_or_default();
    let folder = file.parent().and_then(Utf8Path::file_name).unwrap_or("own");
    for part in [folder, stem] {
        if !is_name(part) {
            let message = format!(
                "a scenario is named after its folder and file, and {part:?} is no name of \
                 lower-case letters, digits and dashes"
            );
            problems.add("", message);
        }
    }
    format!("{folder}/{stem}")
}

/// Lower-case letters, digits and dashes, a letter first: safe in a path, a test's name and
/// a control group, and never mistaken for a size.
pub(super) fn is_name(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    text.len() <= 64
        && text.bytes().all(plain)
        && text.bytes().next().is_some_and(|b| b.is_ascii_lowercase())
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

/// The knobs by the names that a scenario uses, with their units.
const KNOBS: [(&str, Knob); 8] = [
    ("mode", Knob::NumaBalancing),
    ("scan-delay", Knob::ScanDelayMs),
    ("scan-period-min", Knob::ScanPeriodMinMs),
    ("scan-period-max", Knob::ScanPeriodMaxMs),
    ("scan-size", Knob::ScanSizeMb),
    ("hot-threshold", Knob::HotThresholdMs),
    ("promote-rate-limit", Knob::PromoteRateLimitMbps),
    ("demotion", Knob::DemotionEnabled),
];

/// The knob of a name.
pub(super) fn knob(name: &str) -> Option<Knob> {
    KNOBS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, knob)| *knob)
}

/// The names of all knobs.
pub(super) fn knob_names() -> impl Iterator<Item = &'static str> {
    KNOBS.iter().map(|(name, _)| *name)
}

fn balancing(raw: &RawBalancing, problems: &mut Problems) -> Vec<Setting> {
    let mut time = |key: &str, text: &Option<String>| {
        let text = text.as_ref()?;
        let ms = problems.take(&format!("balancing.{key}"), quantity::milliseconds(text))?;
        i64::try_from(ms).ok()
    };
    let delay = time("scan-delay", &raw.scan_delay);
    let min = time("scan-period-min", &raw.scan_period_min);
    let max = time("scan-period-max", &raw.scan_period_max);
    let hot = time("hot-threshold", &raw.hot_threshold);
    let size = raw.scan_size.as_ref().and_then(|text| {
        let mib = problems.take("balancing.scan-size", quantity::mebibytes(text))?;
        i64::try_from(mib).ok()
    });
    if let (Some(min), Some(max)) = (min, max)
        && min > max
    {
        problems.add("balancing.scan-period-max", "less than `scan-period-min`");
    }
    let values = [
        (Knob::ScanPeriodMaxMs, max),
        (Knob::ScanPeriodMinMs, min),
        (Knob::ScanDelayMs, delay),
        (Knob::ScanSizeMb, size),
        (Knob::HotThresholdMs, hot),
        (Knob::PromoteRateLimitMbps, raw.promote_rate_limit),
        (Knob::DemotionEnabled, raw.demotion.map(i64::from)),
        (Knob::NumaBalancing, raw.mode),
    ];
    let given = values.into_iter().filter_map(|(knob, value)| {
        Some(Setting {
            knob,
            value: value?,
        })
    });
    given.collect()
}

// `None` if there is no text, or if it is wrong, which is a problem by itself.
fn check_list(path: &str, text: Option<&str>, problems: &mut Problems) -> Option<Vec<u32>> {
    problems.take(path, list::parse(text?).map_err(|error| error.to_string()))
}

/// A policy of its parts; `path` is that of the task or action.
pub(super) fn policy(
    path: &str,
    mode: Option<RawPolicyMode>,
    nodes: Option<&str>,
    balancing: Option<bool>,
    problems: &mut Problems,
) -> Option<Policy> {
    let nodes_path = format!("{path}.policy-nodes");
    let Some(mode) = mode else {
        for (key, given) in [
            ("policy-nodes", nodes.is_some()),
            ("policy-balancing", balancing.is_some()),
        ] {
            if given {
                problems.add(
                    format!("{path}.{key}"),
                    format!("`{key}` goes with `policy`"),
                );
            }
        }
        return None;
    };
    let mode = match mode {
        RawPolicyMode::Default => PolicyMode::Default,
        RawPolicyMode::Preferred => PolicyMode::Preferred,
        RawPolicyMode::Bind => PolicyMode::Bind,
        RawPolicyMode::Interleave => PolicyMode::Interleave,
        RawPolicyMode::Local => PolicyMode::Local,
        RawPolicyMode::PreferredMany => PolicyMode::PreferredMany,
        RawPolicyMode::WeightedInterleave => PolicyMode::WeightedInterleave,
    };
    let nodes = match nodes {
        None => Vec::new(),
        Some(text) => check_list(&nodes_path, Some(text), problems)?,
    };
    if nodes.iter().any(|node| *node >= 64) {
        problems.add(&nodes_path, "nodes are numbered 0 to 63");
    }
    let takes_none = matches!(mode, PolicyMode::Default | PolicyMode::Local);
    if takes_none && !nodes.is_empty() {
        problems.add(&nodes_path, "this policy takes no nodes");
    } else if !takes_none && nodes.is_empty() {
        problems.add(format!("{path}.policy"), "this policy needs `policy-nodes`");
    }
    Some(Policy {
        mode,
        nodes,
        numa_balancing: balancing.unwrap_or(false),
    })
}

fn task(
    name: &str,
    raw: &RawTask,
    machine: Option<&Machine>,
    cgroups: &mut BTreeMap<String, Cgroup>,
    problems: &mut Problems,
) -> Option<Task> {
    let path = format!("tasks.{name}");
    if !is_name(name) {
        problems.add(
            &path,
            "a task's name is made of lower-case letters, digits and dashes",
        );
    }
    let cpus = check_list(&format!("{path}.cpus"), raw.cpus.as_deref(), problems);
    let count = machine.map_or(u32::MAX, Machine::cpus);
    if let Some(cpu) = cpus.iter().flatten().find(|cpu| **cpu >= count) {
        problems.add(
            format!("{path}.cpus"),
            format!(
                "the machine has no CPU {cpu}: its CPUs are 0 to {}",
                count - 1
            ),
        );
    }
    if cpus.as_ref().is_some_and(Vec::is_empty) {
        problems.add(format!("{path}.cpus"), "no CPU is named");
    }
    let threads = raw.threads.unwrap_or(1);
    if !(1..=1024).contains(&threads) {
        problems.add(
            format!("{path}.threads"),
            format!("{threads} threads: 1 to 1024"),
        );
    }
    let own = raw.cpuset_mems.is_some() || raw.cpuset_cpus.is_some();
    check_list(
        &format!("{path}.cpuset-mems"),
        raw.cpuset_mems.as_deref(),
        problems,
    );
    check_list(
        &format!("{path}.cpuset-cpus"),
        raw.cpuset_cpus.as_deref(),
        problems,
    );
    let cgroup = match (&raw.cgroup, own) {
        (Some(_), true) => {
            problems.add(
                format!("{path}.cgroup"),
                "a task has either `cgroup`, or a control group of its own by `cpuset-mems` \
                 and `cpuset-cpus`",
            );
            None
        }
        (Some(cgroup), false) => {
            if !cgroups.contains_key(cgroup) {
                let known = cgroups.keys().map(String::as_str);
                problems.unknown(&format!("{path}.cgroup"), "control group", cgroup, known);
            }
            Some(cgroup.clone())
        }
        (None, true) => {
            if cgroups.contains_key(name) {
                problems.add(&path, format!("`cgroups` has a group of that name: {name}"));
            }
            let cgroup = Cgroup {
                path: name.to_owned(),
                mems: raw.cpuset_mems.clone(),
                cpus: raw.cpuset_cpus.clone(),
            };
            cgroups.insert(name.to_owned(), cgroup);
            Some(name.to_owned())
        }
        (None, false) => None,
    };
    let nodes = raw.policy_nodes.as_deref();
    let policy = policy(&path, raw.policy, nodes, raw.policy_balancing, problems);
    Some(Task {
        cpus: cpus.unwrap_or_default(),
        cgroup,
        threads,
        policy,
    })
}
