//! The keys of steps and actions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::task::RawPolicyMode;

/// A step. The next one starts when all actions of this one have finished.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "step", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct RawStep {
    /// Makes this step a measurement with this name: all counters are read before and after
    /// `run`.
    #[schemars(extend("format" = "name", "examples" = ["busy"]))]
    pub(crate) measure: Option<String>,
    /// Actions that finish before the counters are read for the first time.
    #[serde(default)]
    pub(crate) prepare: Vec<RawAction>,
    /// The actions. Those of one task follow one another; those of different tasks run side
    /// by side.
    #[serde(default)]
    pub(crate) run: Vec<RawAction>,
}

/// An action: exactly one verb, with the keys that go with it. `set` and `cpuset` take no
/// `task`, every other verb needs one, and `sleep` can do without.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "action", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct RawAction {
    /// The task that carries out the action.
    #[schemars(extend("format" = "name", "examples" = ["worker"]))]
    pub(crate) task: Option<String>,

    /// Verb: maps anonymous memory as a region with this name.
    #[schemars(extend("format" = "name", "examples" = ["heap"]))]
    pub(crate) map: Option<String>,
    /// The size of each VMA. Required by `map`.
    #[schemars(extend("format" = "size", "examples" = ["16KiB"]))]
    pub(crate) size: Option<String>,
    /// The number of VMAs.
    #[schemars(extend("default" = 1, "format" = "1 to 65536"))]
    pub(crate) count: Option<u32>,
    /// The distance between two VMAs, which keeps them from merging. For huge pages it is a
    /// multiple of 2MiB, and 2MiB by default.
    #[schemars(extend("default" = "64KiB", "format" = "size"))]
    pub(crate) gap: Option<String>,
    /// The kind of pages. With `touch`, it goes with a size only.
    #[schemars(extend("default" = "base"))]
    pub(crate) pages: Option<RawPages>,
    /// Maps shared memory (shmem) instead of private memory. With `touch`, it goes with a
    /// size only.
    #[schemars(extend("default" = false))]
    pub(crate) shared: Option<bool>,
    /// The protection. Required by `protect`; `map` takes `read-write` by default.
    pub(crate) access: Option<RawAccess>,
    /// Whether every page is written once when the region is mapped.
    #[schemars(extend("default" = true))]
    pub(crate) populate: Option<bool>,
    /// The node on which the pages are populated. By default, the task's memory policy
    /// decides. With `touch`, it goes with a size only.
    #[schemars(extend("examples" = [0]))]
    pub(crate) on_node: Option<u32>,

    /// Verb: unmaps this region.
    #[schemars(extend("format" = "name"))]
    pub(crate) unmap: Option<String>,
    /// Verb: changes the protection of this region.
    #[schemars(extend("format" = "name"))]
    pub(crate) protect: Option<String>,

    /// Verb: reads and writes one byte of each page of a region, again and again, until
    /// `for`, `passes` or `until-scan-seq` is reached. A name stands for a region that was
    /// mapped. A size maps a region of that size before the measurement begins, and is that
    /// region's name.
    #[schemars(extend("format" = "name or size", "examples" = ["4MiB"]))]
    pub(crate) touch: Option<String>,
    /// How long to touch, in guest time.
    #[schemars(extend("format" = "duration", "examples" = ["3s"]))]
    pub(crate) r#for: Option<String>,
    /// How many times to touch all pages.
    #[schemars(extend("examples" = [10]))]
    pub(crate) passes: Option<u64>,
    /// Touches until the task's `numa_scan_seq` has reached this value. Requires `within`.
    #[schemars(extend("examples" = [3]))]
    pub(crate) until_scan_seq: Option<i64>,
    /// The guest time after which `until-scan-seq` gives up, which makes the run
    /// `inconclusive`.
    #[schemars(extend("format" = "duration", "examples" = ["60s"]))]
    pub(crate) within: Option<String>,

    /// Verb: touches each page of this region once, and counts the minor page faults of each
    /// VMA. A fault shows that a scan had changed the page's PTE.
    #[schemars(extend("format" = "name"))]
    pub(crate) probe: Option<String>,
    /// Verb: asks the kernel on which nodes the pages of this region are (`move_pages(2)`).
    #[schemars(extend("format" = "name"))]
    pub(crate) placement: Option<String>,
    /// Verb: changes the CPUs that the task may run on.
    #[schemars(extend("format" = "list", "examples" = ["1"]))]
    pub(crate) move_to_cpus: Option<String>,
    /// Verb: changes the task's memory policy.
    pub(crate) policy: Option<RawPolicyMode>,
    /// The nodes of the memory policy.
    #[schemars(extend("format" = "list", "examples" = ["0-1"]))]
    pub(crate) policy_nodes: Option<String>,
    /// Sets the flag `MPOL_F_NUMA_BALANCING` of the memory policy.
    #[schemars(extend("default" = false))]
    pub(crate) policy_balancing: Option<bool>,
    /// Verb: sleeps for this much guest time.
    #[schemars(extend("format" = "duration", "examples" = ["500ms"]))]
    pub(crate) sleep: Option<String>,
    /// Verb: exits with this status.
    #[schemars(extend("format" = "0 to 255", "examples" = [0]))]
    pub(crate) exit: Option<u8>,

    /// Verb: writes a tunable, by its name under `balancing`.
    #[schemars(extend("examples" = ["scan-delay"]))]
    pub(crate) set: Option<String>,
    /// The tunable's new value, in the kernel's own unit (milliseconds, MiB). Required by
    /// `set`.
    #[schemars(extend("examples" = [100]))]
    pub(crate) value: Option<i64>,
    /// Verb: changes the cpuset of this control group. A task's own control group has the
    /// task's name. Requires `mems`, `cpus` or both.
    #[schemars(extend("format" = "name", "examples" = ["a/b"]))]
    pub(crate) cpuset: Option<String>,
    /// The new `cpuset.mems`.
    #[schemars(extend("format" = "list", "examples" = ["1"]))]
    pub(crate) mems: Option<String>,
    /// The new `cpuset.cpus`.
    #[schemars(extend("format" = "list", "examples" = ["0-1"]))]
    pub(crate) cpus: Option<String>,
}

/// A kind of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "pages", rename_all = "kebab-case")]
pub(crate) enum RawPages {
    /// Base pages of 4 KiB (`MADV_NOHUGEPAGE`).
    Base,
    /// Transparent huge pages (`MADV_HUGEPAGE`). Linux disables them in a guest with less
    /// than 512 MiB.
    TransparentHuge,
    /// hugetlb pages of 2 MiB.
    Hugetlb,
}

/// A protection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "access", rename_all = "kebab-case")]
pub(crate) enum RawAccess {
    /// `PROT_READ | PROT_WRITE`
    ReadWrite,
    /// `PROT_READ`
    Read,
    /// `PROT_NONE`
    None,
}
