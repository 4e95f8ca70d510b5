//! From the text of tasks and control groups to the plan's.

use std::collections::BTreeMap;

use numalab_protocol::plan::{Cgroup, Policy, PolicyMode, Task};

use super::extent::Extent;
use super::name;
use super::problems::Problems;
use super::raw::{RawCgroup, RawPolicyMode, RawTask};

/// Resolves the control groups that are named, and adds parents that are not.
pub(super) fn cgroups(
    raw: &BTreeMap<String, RawCgroup>,
    extent: &Extent,
    problems: &mut Problems,
) -> BTreeMap<String, Cgroup> {
    let mut cgroups = BTreeMap::new();
    for (path, group) in raw {
        let at = format!("cgroups.{path}");
        if !path.split('/').all(name::is_name) {
            let message = format!("{path:?} is not a path of names such as a or a/b");
            problems.add(&at, message);
        }
        // Without a cpuset of its own a group inherits its parent's.
        for (end, _) in path.match_indices('/') {
            let parent = path[..end].to_owned();
            cgroups.entry(parent.clone()).or_insert(Cgroup {
                path: parent,
                mems: None,
                cpus: None,
            });
        }
        let lists = [("mems", &group.mems), ("cpus", &group.cpus)];
        let group = cgroup(path.clone(), &at, lists, extent, problems);
        cgroups.insert(path.clone(), group);
    }
    cgroups
}

/// A control group with a cpuset, whose lists are at these keys of `at`: memory nodes, then
/// CPUs.
pub(super) fn cgroup(
    path: String,
    at: &str,
    [mems, cpus]: [(&str, &Option<String>); 2],
    extent: &Extent,
    problems: &mut Problems,
) -> Cgroup {
    if let (key, Some(text)) = mems {
        extent.nodes(&format!("{at}.{key}"), text, problems);
    }
    if let (key, Some(text)) = cpus {
        extent.cpus(&format!("{at}.{key}"), text, problems);
    }
    let (mems, cpus) = (mems.1.clone(), cpus.1.clone());
    Cgroup { path, mems, cpus }
}

/// A policy of its parts (mode, nodes, `MPOL_F_NUMA_BALANCING`) at `path`.
pub(super) fn policy(
    path: &str,
    (mode, nodes, balancing): (Option<RawPolicyMode>, Option<&str>, Option<bool>),
    extent: &Extent,
    problems: &mut Problems,
) -> Option<Policy> {
    let nodes_path = format!("{path}.policy-nodes");
    let Some(mode) = mode else {
        let keys = [
            ("policy-nodes", nodes.is_some()),
            ("policy-balancing", balancing.is_some()),
        ];
        for (key, _) in keys.into_iter().filter(|(_, given)| *given) {
            let message = format!("`{key}` does not go without `policy`");
            problems.add(format!("{path}.{key}"), message);
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
    extent: &Extent,
    cgroups: &mut BTreeMap<String, Cgroup>,
    problems: &mut Problems,
) -> Option<Task> {
    let path = format!("tasks.{name}");
    name::check(&path, "task", name, problems);
    let cpus = raw.cpus.as_deref();
    let cpus = cpus.map(|text| extent.cpus(&format!("{path}.cpus"), text, problems));
    let threads = raw.threads.unwrap_or(1);
    if !(1..=1024).contains(&threads) {
        let message = format!("a task has 1 to 1024 threads, not {threads}");
        problems.add(format!("{path}.threads"), message);
    }
    let own = raw.cpuset_mems.is_some() || raw.cpuset_cpus.is_some();
    if let Some(group) = &raw.cgroup {
        let at = format!("{path}.cgroup");
        if own {
            let message = "a task is either in a `cgroup`, or in a control group of its own, \
                           which `cpuset-mems` and `cpuset-cpus` create";
            problems.add(at, message);
        } else if !cgroups.contains_key(group) {
            let known = cgroups.keys().map(String::as_str);
            problems.unknown(&at, "control group", group, known);
        }
    } else if own {
        let lists = [
            ("cpuset-mems", &raw.cpuset_mems),
            ("cpuset-cpus", &raw.cpuset_cpus),
        ];
        let group = cgroup(name.to_owned(), &path, lists, extent, problems);
        if cgroups.insert(name.to_owned(), group).is_some() {
            let message = format!("`cgroups` already has a group of that name: {name}");
            problems.add(&path, message);
        }
    }
    let parts = (
        raw.policy,
        raw.policy_nodes.as_deref(),
        raw.policy_balancing,
    );
    Some(Task {
        cpus: cpus.flatten().unwrap_or_default(),
        cgroup: raw.cgroup.clone().or(own.then(|| name.to_owned())),
        threads,
        policy: policy(&path, parts, extent, problems),
    })
}
