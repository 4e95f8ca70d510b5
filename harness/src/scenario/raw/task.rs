//! The keys of a task.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A process of the guest. It starts in the first step that names it and ends after the last
/// one that does.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "task", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct RawTask {
    /// The CPUs that the task may run on. All CPUs by default.
    #[schemars(extend("format" = "list", "examples" = ["1"]))]
    pub(crate) cpus: Option<String>,
    /// The number of threads. The first one works, the others sleep.
    #[schemars(extend("default" = 1, "format" = "1 to 1024"))]
    pub(crate) threads: Option<u32>,
    /// Puts the task into a control group of its own with this `cpuset.mems`. The group has
    /// the task's name.
    #[schemars(extend("format" = "list", "examples" = ["0"]))]
    pub(crate) cpuset_mems: Option<String>,
    /// Puts the task into a control group of its own with this `cpuset.cpus`. The group has
    /// the task's name.
    #[schemars(extend("format" = "list", "examples" = ["0-1"]))]
    pub(crate) cpuset_cpus: Option<String>,
    /// Puts the task into this group of `cgroups`.
    #[schemars(extend("format" = "name", "examples" = ["a/b"]))]
    pub(crate) cgroup: Option<String>,
    /// The task's memory policy, a mode of `set_mempolicy(2)`.
    pub(crate) policy: Option<RawPolicyMode>,
    /// The nodes of the memory policy. Goes with `policy`.
    #[schemars(extend("format" = "list", "examples" = ["0"]))]
    pub(crate) policy_nodes: Option<String>,
    /// Sets the flag `MPOL_F_NUMA_BALANCING` of the memory policy. Goes with `policy`.
    #[schemars(extend("default" = false))]
    pub(crate) policy_balancing: Option<bool>,
}

/// A mode of `set_mempolicy(2)`.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "policy", rename_all = "kebab-case")]
pub(crate) enum RawPolicyMode {
    /// `MPOL_DEFAULT`
    Default,
    /// `MPOL_PREFERRED`
    Preferred,
    /// `MPOL_BIND`
    Bind,
    /// `MPOL_INTERLEAVE`
    Interleave,
    /// `MPOL_LOCAL`
    Local,
    /// `MPOL_PREFERRED_MANY`
    PreferredMany,
    /// `MPOL_WEIGHTED_INTERLEAVE`
    WeightedInterleave,
}
