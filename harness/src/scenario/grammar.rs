//! Which keys go together in an action and in an assertion.

use std::collections::BTreeSet;

use serde::Serialize;

use super::problems::Problems;

/// The keys of a mapping that has exactly one leading key.
#[derive(Debug)]
pub(super) struct Grammar {
    /// What such a mapping needs, as the beginning of a sentence.
    needs: &'static str,
    /// The leading keys.
    pub(super) heads: &'static [&'static str],
    /// Keys that go with some of the leading keys only.
    pub(super) modifiers: &'static [(&'static str, &'static [&'static str])],
    /// Keys that go with all of them.
    always: &'static [&'static str],
}

const MAPS: &[&str] = &["map", "touch"];
const TOUCH: &[&str] = &["touch"];
const REGIONS: &[&str] = &["probe", "placement"];

/// The verbs of the agent itself, which take no task.
pub(super) const WITHOUT_TASK: [&str; 2] = ["set", "cpuset"];

const TASK_VERBS: &[&str] = &[
    "map",
    "unmap",
    "protect",
    "touch",
    "probe",
    "placement",
    "move-to-cpus",
    "policy",
    "sleep",
    "exit",
];

pub(super) const ACTION: Grammar = Grammar {
    needs: "an action needs exactly one verb",
    heads: &[
        "map",
        "unmap",
        "protect",
        "touch",
        "probe",
        "placement",
        "move-to-cpus",
        "policy",
        "sleep",
        "exit",
        "set",
        "cpuset",
    ],
    modifiers: &[
        ("task", TASK_VERBS),
        ("size", &["map"]),
        ("count", &["map"]),
        ("gap", &["map"]),
        ("pages", MAPS),
        ("shared", MAPS),
        ("access", &["map", "protect"]),
        ("populate", &["map"]),
        ("on-node", MAPS),
        ("for", TOUCH),
        ("passes", TOUCH),
        ("until-scan-seq", TOUCH),
        ("within", TOUCH),
        ("policy-nodes", &["policy"]),
        ("policy-balancing", &["policy"]),
        ("value", &["set"]),
        ("mems", &["cpuset"]),
        ("cpus", &["cpuset"]),
    ],
    always: &[],
};

pub(super) const ASSERTION: Grammar = Grammar {
    needs: "an assertion needs exactly one observable",
    heads: &[
        "counter",
        "memory-stat",
        "sched",
        "sched-change",
        "probe",
        "placement",
        "exit-status",
        "fact",
    ],
    modifiers: &[
        (
            "measure",
            &["counter", "memory-stat", "sched", "sched-change"],
        ),
        (
            "task",
            &["memory-stat", "sched", "sched-change", "probe", "placement"],
        ),
        ("node", &["placement"]),
        ("in", REGIONS),
    ],
    always: &["equals", "at-least", "at-most", "because"],
};

/// The keys that a mapping of the text has.
pub(super) fn keys(raw: &impl Serialize) -> BTreeSet<String> {
    let Ok(serde_json::Value::Object(all)) = serde_json::to_value(raw) else {
        return BTreeSet::new();
    };
    let given = all.into_iter().filter(|(_, value)| !value.is_null());
    given.map(|(key, _)| key).collect()
}

impl Grammar {
    /// The leading key of a mapping. Keys that do not go with it would be ignored silently,
    /// so they are refused.
    pub(super) fn head(
        &self,
        path: &str,
        keys: &BTreeSet<String>,
        problems: &mut Problems,
    ) -> Option<&'static str> {
        let mut given = self.heads.iter().filter(|head| keys.contains(**head));
        let (Some(head), None) = (given.next(), given.next()) else {
            let help = format!("one of: {}", self.fitting(keys).join(", "));
            problems.add_with_help(path, self.needs, help);
            return None;
        };
        for (key, heads) in self.modifiers {
            if keys.contains(*key) && !heads.contains(head) {
                let message = format!("`{key}` does not go with `{head}`");
                problems.add(format!("{path}.{key}"), message);
            }
        }
        Some(head)
    }

    /// The keys that can be added to those that are given: the modifiers of the leading key,
    /// or, without one, the leading keys that the others go with.
    pub(super) fn fitting(&self, given: &BTreeSet<String>) -> Vec<&'static str> {
        let new = |key: &&'static str| !given.contains(*key);
        let modifiers = self.modifiers.iter();
        if let Some(head) = self.heads.iter().find(|head| given.contains(**head)) {
            let fit = modifiers.filter(|(_, heads)| heads.contains(head));
            let keys = fit.map(|(key, _)| *key).chain(self.always.iter().copied());
            return keys.filter(new).collect();
        }
        let given: Vec<_> = modifiers.filter(|(key, _)| given.contains(*key)).collect();
        let fits = |head: &&&str| given.iter().all(|(_, heads)| heads.contains(*head));
        let heads: Vec<_> = self.heads.iter().filter(fits).copied().collect();
        if heads.is_empty() {
            self.heads.to_vec()
        } else {
            heads
        }
    }
}
