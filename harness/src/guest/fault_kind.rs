//! Kernel messages that mean trouble, by how they begin.
//!
//! Messages are matched from their first character, after printk's prefix is taken off
//! (`console`), so that a name, a build line or a command line with `BUG` in it is none.
//! What is printed by user space can imitate a message; that makes a run look worse, never
//! better.

use std::fmt;
use std::sync::LazyLock;

use regex::bytes::Regex;

/// What kind of trouble.
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

    /// Whether a kernel that prints it goes on as if nothing had happened, so that its
    /// counters still mean what they say: `WARN` and lockdep only report, and so does
    /// kmemleak. Memory that was written out of bounds, lost time and lost memory are other
    /// things.
    pub fn leaves_counters(self) -> bool {
        matches!(
            self,
            FaultKind::Warning | FaultKind::Lockdep | FaultKind::Leak
        )
    }
}

/// The first that matches decides.
const MESSAGES: [(&str, FaultKind); 20] = [
    (r"Kernel panic - not syncing", FaultKind::Panic),
    (r"PANIC: ", FaultKind::Panic),
    (
        r"BUG: K[A-Z]+SAN: |BUG: KFENCE: |UBSAN: ",
        FaultKind::Sanitizer,
    ),
    (
        r"(?:watchdog: |NMI watchdog: )?BUG: soft lockup|BUG: workqueue lockup|BUG: spinlock lockup",
        FaultKind::Lockup,
    ),
    (
        r"(?:NMI )?watchdog: (?:CPU\d+: )?Watchdog detected hard LOCKUP",
        FaultKind::Lockup,
    ),
    (r"(?:rcu: )?INFO: \S*rcu\S* .*stall", FaultKind::RcuStall),
    (
        r"rcu: \S+ kthread (?:timer wakeup didn't happen|starved) for",
        FaultKind::RcuStall,
    ),
    (
        r"INFO: task .* blocked .*for more than",
        FaultKind::HungTask,
    ),
    (
        r"WARNING: (?:possible |inconsistent |suspicious RCU|bad unlock|bad contention|held lock|lock held|Nested lock)",
        FaultKind::Lockdep,
    ),
    (
        r"\[ BUG: |\[ INFO: (?:possible|inconsistent|suspicious)",
        FaultKind::Lockdep,
    ),
    (
        r"BUG: (?:Invalid wait context|MAX_LOCK|held lock|bad unlock)|INFO: trying to register non-static key|DEBUG_LOCKS_WARN_ON",
        FaultKind::Lockdep,
    ),
    (
        r"BUG: (?:unable to handle|kernel NULL pointer|stack guard page)|kernel BUG at |Oops: |Unable to handle kernel|Internal error: ",
        FaultKind::Oops,
    ),
    (
        r"(?:general protection fault|invalid opcode|divide error|stack segment|segment not present|invalid TSS|double fault|bounds|overflow|int3|alignment check|machine check|control protection fault|Bad page map|kernel tried to execute NX-protected page)(?:, .*)?: [0-9a-f]{4}\b",
        FaultKind::Oops,
    ),
    (
        r"general protection fault, |Missing ENDBR: |traps: PANIC: ",
        FaultKind::Oops,
    ),
    (r"BUG: ", FaultKind::Bug),
    (r"WARNING: ", FaultKind::Warning),
    (
        r"\S+ invoked oom-killer: |Out of memory: |Memory cgroup out of memory: ",
        FaultKind::OutOfMemory,
    ),
    (
        r".{1,32}: page allocation failure: order:",
        FaultKind::OutOfMemory,
    ),
    // kmemleak's own notice names only how many there are; the report names each.
    (r"unreferenced object 0x", FaultKind::Leak),
    (r"Call [Tt]race:", FaultKind::CallTrace),
];

/// What user space prints often enough at a line's start to be left alone, unless the kernel
/// says it: on a console with time stamps, these count only behind one.
const AMBIGUOUS: [FaultKind; 2] = [FaultKind::Warning, FaultKind::Oops];

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
            .map(|(text, kind)| (compile(&format!("(?-u)^(?:{text})")), *kind))
            .collect(),
        warn: compile(WARN),
    }
});

/// The kind of trouble that a message means, if any. `from_kernel` is false for what lacks
/// the time stamp that other lines of its console have.
pub(super) fn classify(message: &[u8], from_kernel: bool) -> Option<FaultKind> {
    let matching = |(regex, kind): &(Regex, FaultKind)| regex.is_match(message).then_some(*kind);
    let kind = PATTERNS.messages.iter().find_map(matching)?;
    let counts = from_kernel || !AMBIGUOUS.contains(&kind) || PATTERNS.warn.is_match(message);
    counts.then_some(kind)
}
