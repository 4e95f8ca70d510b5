//! From the text of tasks and control groups to the plan's.

use std::collections::BTreeMap;

use numalab_protocol::plan::{Cgroup, Policy, PolicyMode, Task};

use super::extent::Extent;
use super::name::is_name;
use super::problems::Problems;
use super::raw::{RawCgroup, RawPolicyMode, RawTask};

/// Resolves the control groups that are named, and adds parents that are not.
pub(super) fn cgroups(
    raw: &BTreeMap<String, RawCgroup>,
    extent: Extent,
    problems: &mut Problems,
) -> BTreeMap<String, Cgroup> {
    let mut cgroups = BTreeMap::new();
    for (path, cgroup) in raw {
        let at = format!("cgroups.{path}");
        if !path.split('/').all(is_name) {
            problems.add(
                &at,
                format!("{path:?} is no path of names such as a or a/b"),
            );
        }
        // Without a cpuset of its own a group inherits its parent's.
        for (end, _) in path.match_indices('/') {
            let parent = path[..end].to_owned();
            let none = Cgroup {
                path: parent.clone(),
                mems: None,
                cpus: None,
            };
            cgroups.entry(parent).or_insert(none);
        }
        if let Some(text) = &cgroup.mems {
            extent.nodes(&format!("{at}.mems"), text, problems);
        }
        if let Some(text) = &cgroup.cpus {
            extent.cpus(&format!("{at}.cpus"), text, problems);
        }
        let (mems, cpus) = (cgroup.mems.clone(), cgroup.cpus.clone());
        cgroups.insert(
            path.clone(),
            Cgroup {
                path: path.clone(),
                mems,
                cpus,
            },
        );
    }
    cgroups
}

/// A policy of its parts; `path` is that of the task or action.
pub(super) fn policy(
    path: &str,
    mode: Option<RawPolicyMode>,
    nodes: Option<&str>,
    balancing: Option<bool>,
    extent: Extent,
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
        Some(text) => extent.nodes(&nodes_path, text, problems)?,
    };
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

/// Resolves a task; its own control group is added to `cgroups`.
pub(super) fn task(
    name: &str,
    raw: &RawTask,
    extent: Extent,
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
    let cpus = raw
        .cpus
        .as_deref()
        .map(|text| extent.cpus(&format!("{path}.cpus"), text, problems));
    let threads = raw.threads.unwrap_or(1);
    if !(1..=1024).contains(&threads) {
        problems.add(
            format!("{path}.threads"),
            format!("{threads} threads: 1 to 1024"),
        );
    }
    let own = raw.cpuset_mems.is_some() || raw.cpuset_cpus.is_some();
    if let Some(text) = &raw.cpuset_mems {
        extent.nodes(&format!("{path}.cpuset-mems"), text, problems);
    }
    if let Some(text) = &raw.cpuset_cpus {
        extent.cpus(&format!("{path}.cpuset-cpus"), text, problems);
    }
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
    let policy = policy(
        &path,
        raw.policy,
        nodes,
        raw.policy_balancing,
        extent,
        problems,
    );
    Some(Task {
        cpus: cpus.flatten().unwrap_or_default(),
        cgroup,
        threads,
        policy,
    })
}
