//! Kernel messages that report a fault, by how they begin.
//!
//! Messages are matched from their first character, after printk's prefix is removed
//! (`console`), so that a name, a build line or a command line that contains `BUG` does not
//! count. User space can imitate a message; that makes a run look worse, never better.

use std::fmt;
use std::sync::LazyLock;

use regex::bytes::Regex;

/// A kind of fault.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// `panic` of `kernel/panic.c`.
    Panic,
    /// A fault in the kernel: oops, general protection fault, `BUG()`.
    Oops,
    /// Another message that begins with `BUG:`.
    Bug,
    /// `WARN`.
    Warning,
    /// KASAN, KCSAN, KMSAN, KFENCE or UBSAN.
    Sanitizer,
    /// lockdep.
    Lockdep,
    /// A stalled RCU grace period.
    RcuStall,
    /// A task that blocks for too long.
    HungTask,
    /// A CPU, or a workqueue, that does not get on.
    Lockup,
    /// The guest ran out of memory.
    OutOfMemory,
    /// An object that nothing points to any more, of kmemleak's report, which the agent puts
    /// on the console.
    Leak,
    /// A check of the kernel's own that failed, and neither warned nor crashed.
    FailedCheck,
    /// Messages that the console does not have: any fault may be among them.
    LostMessages,
    /// A call trace that belongs to nothing above.
    CallTrace,
}

/// How bad it is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Worth showing; a sound kernel may print it.
    Notice,
    /// The kernel found something wrong and goes on.
    Warning,
    /// The kernel is broken from here on.
    Fatal,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            FaultKind::Panic => "panic",
            FaultKind::Oops => "oops",
            FaultKind::Bug => "BUG",
            FaultKind::Warning => "WARNING",
            FaultKind::Sanitizer => "sanitizer",
            FaultKind::Lockdep => "lockdep",
            FaultKind::RcuStall => "RCU stall",
            FaultKind::HungTask => "hung task",
            FaultKind::Lockup => "lockup",
            FaultKind::OutOfMemory => "out of memory",
            FaultKind::Leak => "leak",
            FaultKind::FailedCheck => "failed check",
            FaultKind::LostMessages => "lost messages",
            FaultKind::CallTrace => "call trace",
        })
    }
}

impl FaultKind {
    /// How bad it is.
    pub fn severity(self) -> Severity {
        match self {
            FaultKind::CallTrace => Severity::Notice,
            FaultKind::Warning
            | FaultKind::Lockdep
            | FaultKind::Sanitizer
            | FaultKind::OutOfMemory
            | FaultKind::FailedCheck
            | FaultKind::LostMessages
            | FaultKind::Leak => Severity::Warning,
            FaultKind::RcuStall | FaultKind::HungTask | FaultKind::Lockup => Severity::Warning,
            FaultKind::Panic | FaultKind::Oops | FaultKind::Bug => Severity::Fatal,
        }
    }

    /// Whether a busy host alone can bring it about in a live guest. In exact mode nothing
    /// of the host enters the guest.
    pub fn may_be_the_hosts(self) -> bool {
        matches!(
            self,
            FaultKind::RcuStall | FaultKind::HungTask | FaultKind::Lockup
        )
    }

    /// Whether a kernel that prints it continues as if nothing had happened, so that its
    /// counters still mean what they say: `WARN`, lockdep, kmemleak and other checks only
    /// report. Memory that was written out of bounds, lost time and lost memory are different.
    pub fn leaves_counters(self) -> bool {
        matches!(
            self,
            FaultKind::Warning | FaultKind::Lockdep | FaultKind::Leak | FaultKind::FailedCheck
        )
    }

    /// Whether it proves nothing against the kernel, although no verdict can rely on the run:
    /// a fault may be among messages that were lost, or none.
    pub fn is_doubtful(self) -> bool {
        self == FaultKind::LostMessages
    }
}

/// Messages by the regular expression of their beginning, and how the guide shows them. The
/// first that matches decides.
const MESSAGES: [(&str, FaultKind, &str); 27] = [
    (
        r"Kernel panic - not syncing",
        FaultKind::Panic,
        "`Kernel panic - not syncing`",
    ),
    (r"PANIC: ", FaultKind::Panic, "`PANIC: `"),
    (
        r"BUG: K[A-Z]+SAN: |BUG: KFENCE: |UBSAN: ",
        FaultKind::Sanitizer,
        "`BUG: KASAN: `, `BUG: KCSAN: `, `BUG: KMSAN: `, `BUG: KFENCE: `, `UBSAN: `",
    ),
    (
        r"(?:watchdog: |NMI watchdog: )?BUG: soft lockup|BUG: workqueue lockup|BUG: spinlock lockup",
        FaultKind::Lockup,
        "`BUG: soft lockup`, `BUG: workqueue lockup`, `BUG: spinlock lockup`",
    ),
    (
        r"(?:NMI )?watchdog: (?:CPU\d+: )?Watchdog detected hard LOCKUP",
        FaultKind::Lockup,
        "`watchdog: Watchdog detected hard LOCKUP`",
    ),
    (
        r"(?:rcu: )?INFO: \S*rcu\S* .*stall",
        FaultKind::RcuStall,
        "`rcu: INFO: rcu_... stall`",
    ),
    (
        r"rcu: \S+ kthread (?:timer wakeup didn't happen|starved) for",
        FaultKind::RcuStall,
        "`rcu: ... kthread starved for`, `rcu: ... kthread timer wakeup didn't happen for`",
    ),
    (
        r"INFO: task .* blocked .*for more than",
        FaultKind::HungTask,
        "`INFO: task ... blocked for more than`",
    ),
    (
        r"WARNING: (?:possible |inconsistent |suspicious RCU|bad unlock|bad contention|held lock|lock held|Nested lock)",
        FaultKind::Lockdep,
        "`WARNING: possible circular locking`, `WARNING: inconsistent lock state`, `WARNING: suspicious RCU usage` and lockdep's others",
    ),
    (
        r"\[ BUG: |\[ INFO: (?:possible|inconsistent|suspicious)",
        FaultKind::Lockdep,
        "`[ BUG: `, `[ INFO: possible`",
    ),
    (
        r"BUG: (?:Invalid wait context|MAX_LOCK|held lock|bad unlock)|INFO: trying to register non-static key|DEBUG_LOCKS_WARN_ON",
        FaultKind::Lockdep,
        "`BUG: Invalid wait context`, `INFO: trying to register non-static key`, `DEBUG_LOCKS_WARN_ON`",
    ),
    (
        r"BUG: (?:unable to handle|kernel NULL pointer|stack guard page)|kernel BUG at |Oops: |Unable to handle kernel|Internal error: ",
        FaultKind::Oops,
        "`BUG: unable to handle`, `BUG: kernel NULL pointer`, `kernel BUG at`, `Oops: `",
    ),
    (
        r"(?:general protection fault|invalid opcode|divide error|stack segment|segment not present|invalid TSS|double fault|bounds|overflow|int3|alignment check|machine check|control protection fault|Bad page map|Bad pagetable|kernel tried to execute NX-protected page)(?:, .*)?: [0-9a-f]{4}\b",
        FaultKind::Oops,
        "the processor's exceptions, such as `general protection fault: 0000`",
    ),
    (
        r"general protection fault, |Missing ENDBR: |traps: PANIC: |Fixing recursive fault",
        FaultKind::Oops,
        "`Missing ENDBR: `, `Fixing recursive fault`",
    ),
    (r"BUG: ", FaultKind::Bug, "any other `BUG: `"),
    // `slab_bug` of `mm/slub.c` has no colon behind `BUG`, `slab_error` of `mm/slab.c` and
    // `mm/slab_common.c` neither.
    (
        r"BUG \S+ \((?:Not tainted|Tainted: [^)]*)\): |slab error in |Slab corruption",
        FaultKind::Bug,
        "`BUG kmalloc-64 (Not tainted): ` and other names of slab caches, `slab error in`, `Slab corruption`",
    ),
    (r"WARNING: ", FaultKind::Warning, "any other `WARNING: `"),
    (
        r"\S+ invoked oom-killer: |Out of memory: |Memory cgroup out of memory: ",
        FaultKind::OutOfMemory,
        "`... invoked oom-killer: `, `Out of memory: `, `Memory cgroup out of memory: `",
    ),
    (
        r".{1,32}: page allocation failure: order:",
        FaultKind::OutOfMemory,
        "`...: page allocation failure: order:`",
    ),
    // kmemleak's own notice names only how many there are; the report names each.
    (
        r"unreferenced object 0x",
        FaultKind::Leak,
        "`unreferenced object 0x`, from kmemleak's report",
    ),
    // `sched_domain_debug_one` and others; the kernel's `pr_err("ERROR: ")`.
    (
        r"ERROR: ",
        FaultKind::FailedCheck,
        "`ERROR: `, such as the scheduler's `ERROR: groups don't span domain->span`",
    ),
    (
        r"(?:unchecked )?MSR access error: ",
        FaultKind::FailedCheck,
        "`unchecked MSR access error: `",
    ),
    // `pgd_ERROR` and its like, and what reads page tables and swap entries.
    (
        r"\S+:\d+: bad (?:pgd|p4d|pud|pmd|pte) |\S+: Corrupted page table at address |\S+: (?:Bad|Unused) swap (?:file|offset) entry |pagealloc: (?:single bit error|memory corruption)",
        FaultKind::FailedCheck,
        "`...: bad pmd` and of the other levels, `...: Corrupted page table at address`, `...: Bad swap file entry`, `pagealloc: memory corruption`",
    ),
    (
        r"SLUB:? \S+ \d+ (?:partial )?slabs counted but counter=|kmem_cache_destroy \S+: Slab cache still has objects|list_(?:add|del) (?:corruption|double add)|VFS: (?:Busy inodes after unmount|Close: file count is 0)|sysfs: cannot create duplicate filename",
        FaultKind::FailedCheck,
        "`list_add corruption`, `list_del corruption`, `VFS: Busy inodes after unmount`, `sysfs: cannot create duplicate filename`, SLUB's counts of slabs",
    ),
    (
        r"psi: (?:inconsistent task state!|task underflow!)|(?:softirq: )?huh, entered softirq|irq \d+: nobody cared",
        FaultKind::FailedCheck,
        "`psi: inconsistent task state!`, `huh, entered softirq`, `irq ...: nobody cared`",
    ),
    // `console_prepend_dropped` of `kernel/printk/printk.c`, which has no time stamp.
    (
        r"\*\* \d+ printk messages dropped",
        FaultKind::LostMessages,
        "`** ... printk messages dropped **`",
    ),
    (
        r"Call [Tt]race:",
        FaultKind::CallTrace,
        "`Call Trace:` on its own, which is shown and decides nothing",
    ),
];

/// The kinds of faults with the messages that count as such, for the guide.
pub(crate) fn table() -> Vec<(String, String)> {
    let mut kinds: Vec<FaultKind> = Vec::new();
    for (_, kind, _) in MESSAGES {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let shown = |kind: FaultKind| {
        let own = MESSAGES.iter().filter(|(_, other, _)| *other == kind);
        own.map(|(_, _, shown)| *shown)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let rows = kinds
        .into_iter()
        .map(|kind| (kind.to_string(), shown(kind)));
    rows.collect()
}

/// What user space prints often at a line's start: on a console with time stamps, these count
/// only behind one.
const AMBIGUOUS: [FaultKind; 3] = [FaultKind::Warning, FaultKind::Oops, FaultKind::FailedCheck];

/// The forms of `__warn` in `kernel/panic.c`, which need no time stamp.
const WARN: &str = r"^WARNING: (?:CPU: \d+ PID: \d+|\S+:\d+ at )";

struct Patterns {
    messages: Vec<(Regex, FaultKind)>,
    warn: Regex,
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| {
    let compile = |text: &str| Regex::new(text).expect("a constant, compiled by a test");
    Patterns {
        messages: MESSAGES
            .iter()
            .map(|(text, kind, _)| (compile(&format!("(?-u)^(?:{text})")), *kind))
            .collect(),
        warn: compile(WARN),
    }
});

/// The kind of fault that a message reports, if any. `from_kernel` is false for a line without
/// the time stamp that other lines of its console have.
pub(super) fn classify(message: &[u8], from_kernel: bool) -> Option<FaultKind> {
    let matching = |(regex, kind): &(Regex, FaultKind)| regex.is_match(message).then_some(*kind);
    let kind = PATTERNS.messages.iter().find_map(matching)?;
    let counts = from_kernel || !AMBIGUOUS.contains(&kind) || PATTERNS.warn.is_match(message);
    counts.then_some(kind)
}
