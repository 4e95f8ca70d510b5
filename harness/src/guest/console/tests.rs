//! What is a fault on a console, and what is not.

use proptest::prelude::*;

use super::*;

fn console_faults(text: &[u8]) -> Vec<ConsoleFault> {
    let mut console = Console::default();
    console.push(text);
    console.finish();
    console.into_parts().0
}

/// What a kernel that stamps its lines prints first.
const FIRST: &str = "[    0.000000] Linux version 6.12.117\n";

/// Messages as kernels print them, from 6.1 to 6.18.
const CONSOLE_FAULTS: [(&str, FaultKind); 62] = [
    (
        "[    1.000000] Kernel panic - not syncing: VFS: Unable to mount root fs",
        FaultKind::Panic,
    ),
    (
        "[    0.000000][    T0] Kernel panic - not syncing: stack-protector",
        FaultKind::Panic,
    ),
    (
        "[    0.000000] PANIC: early exception 0x0e IP 10:ffffffff81e4c3b5 error 0",
        FaultKind::Panic,
    ),
    (
        "<0>[   12.345678] Kernel panic - not syncing: hung_task: blocked tasks",
        FaultKind::Panic,
    ),
    (
        "Kernel panic - not syncing: no time stamp",
        FaultKind::Panic,
    ),
    (
        "[   12.345678] BUG: kernel NULL pointer dereference, address: 0000000000000008",
        FaultKind::Oops,
    ),
    (
        "[   12.345678] BUG: unable to handle page fault for address: ffffc90000",
        FaultKind::Oops,
    ),
    (
        "[   12.345678] Oops: 0000 [#1] PREEMPT SMP NOPTI",
        FaultKind::Oops,
    ),
    (
        "[   12.345678] Oops: general protection fault, probably for non-canonical address 0xdead: 0000 [#1]",
        FaultKind::Oops,
    ),
    (
        "[   12.345678] general protection fault, probably for non-canonical address 0xdead000000000122: 0000 [#1] SMP",
        FaultKind::Oops,
    ),
    (
        "[   12.345678] general protection fault: 0000 [#1] SMP",
        FaultKind::Oops,
    ),
    (
        "[   12.345678] kernel BUG at mm/slub.c:448!",
        FaultKind::Oops,
    ),
    (
        "[   12.345678] invalid opcode: 0000 [#1] PREEMPT SMP",
        FaultKind::Oops,
    ),
    (
        "[   12.345678] divide error: 0000 [#1] SMP",
        FaultKind::Oops,
    ),
    (
        "[   12.345678] BUG: scheduling while atomic: swapper/0/0/0x00000002",
        FaultKind::Bug,
    ),
    (
        "[   12.345678] BUG: sleeping function called from invalid context at mm/x.c:1",
        FaultKind::Bug,
    ),
    (
        "[   12.345678] BUG: Bad page state in process agent  pfn:1234",
        FaultKind::Bug,
    ),
    (
        "[   12.345678] BUG: Bad rss-counter state mm:00000000a type:MM_FILEPAGES val:1",
        FaultKind::Bug,
    ),
    (
        "[   12.345678] WARNING: CPU: 1 PID: 99 at kernel/sched/fair.c:123 task_numa_work+0x1/0x2",
        FaultKind::Warning,
    ),
    (
        "[   12.345678] WARNING: kernel/sched/fair.c:123 at task_numa_work+0x1/0x2, CPU#1: agent/99",
        FaultKind::Warning,
    ),
    (
        "[   12.345678] WARNING: stack recursion on stack type 4",
        FaultKind::Warning,
    ),
    (
        "WARNING: CPU: 0 PID: 1 at mm/page_alloc.c:4800 x+0x1/0x2",
        FaultKind::Warning,
    ),
    (
        "[   12.345678] BUG: KASAN: slab-use-after-free in task_numa_fault+0x1/0x2",
        FaultKind::Sanitizer,
    ),
    (
        "[   12.345678] BUG: KCSAN: data-race in a / b",
        FaultKind::Sanitizer,
    ),
    (
        "[   12.345678] BUG: KMSAN: uninit-value in x",
        FaultKind::Sanitizer,
    ),
    (
        "[   12.345678] BUG: KFENCE: out-of-bounds read in x",
        FaultKind::Sanitizer,
    ),
    (
        "[   12.345678] UBSAN: array-index-out-of-bounds in kernel/x.c:1:2",
        FaultKind::Sanitizer,
    ),
    (
        "[   12.345678] WARNING: possible circular locking dependency detected",
        FaultKind::Lockdep,
    ),
    (
        "[   12.345678] WARNING: possible recursive locking detected",
        FaultKind::Lockdep,
    ),
    (
        "[   12.345678] WARNING: suspicious RCU usage",
        FaultKind::Lockdep,
    ),
    (
        "[   12.345678] WARNING: inconsistent lock state",
        FaultKind::Lockdep,
    ),
    (
        "[   12.345678] WARNING: bad unlock balance detected!",
        FaultKind::Lockdep,
    ),
    (
        "[   12.345678] [ BUG: Invalid wait context ]",
        FaultKind::Lockdep,
    ),
    (
        "[   12.345678] INFO: trying to register non-static key.",
        FaultKind::Lockdep,
    ),
    (
        "[   12.345678] rcu: INFO: rcu_preempt self-detected stall on CPU",
        FaultKind::RcuStall,
    ),
    (
        "[   12.345678] rcu: INFO: rcu_sched detected stalls on CPUs/tasks:",
        FaultKind::RcuStall,
    ),
    (
        "[   12.345678] rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 1-... }",
        FaultKind::RcuStall,
    ),
    (
        "[   12.345678] rcu: rcu_preempt kthread starved for 21000 jiffies! g1 f0x0",
        FaultKind::RcuStall,
    ),
    (
        "[   12.345678] INFO: task kworker/0:1:12 blocked for more than 120 seconds.",
        FaultKind::HungTask,
    ),
    (
        "[   12.345678] watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [agent:99]",
        FaultKind::Lockup,
    ),
    (
        "[   12.345678] watchdog: Watchdog detected hard LOCKUP on cpu 0",
        FaultKind::Lockup,
    ),
    (
        "[   12.345678] BUG: workqueue lockup - pool cpus=0 node=0 flags=0x0 nice=0 stuck for 31s!",
        FaultKind::Lockup,
    ),
    (
        "[   12.345678] agent invoked oom-killer: gfp_mask=0xcc0, order=0, oom_score_adj=0",
        FaultKind::OutOfMemory,
    ),
    (
        "[   12.345678] agent: page allocation failure: order:4, mode:0xcc0",
        FaultKind::OutOfMemory,
    ),
    // The kernel's own checks, as 6.1, 6.12 and 7.2 print them.
    (
        "[    0.300000] ERROR: groups don't span domain->span",
        FaultKind::FailedCheck,
    ),
    (
        "[    0.300000] ERROR: parent span is not a superset of domain->span",
        FaultKind::FailedCheck,
    ),
    (
        "[    1.000000] unchecked MSR access error: RDMSR from 0x1b0 at rIP: 0xffffffff8 (f+0x1/0x2)",
        FaultKind::FailedCheck,
    ),
    (
        "[    1.000000] mm/pgtable-generic.c:51: bad pmd 00000000c0ffee00(8000000012345067)",
        FaultKind::FailedCheck,
    ),
    (
        "[    1.000000] agent: Corrupted page table at address 7f0000000000",
        FaultKind::FailedCheck,
    ),
    (
        "[    1.000000] get_swap_device: Bad swap file entry 3ffffffffffff",
        FaultKind::FailedCheck,
    ),
    (
        "[    1.000000] pagealloc: memory corruption",
        FaultKind::FailedCheck,
    ),
    (
        "[    1.000000] list_del corruption. prev->next should be ffff888003, but was 0",
        FaultKind::FailedCheck,
    ),
    (
        "[    1.000000] list_add double add: new=ffff888003, prev=ffff888003, next=ffff888004.",
        FaultKind::FailedCheck,
    ),
    (
        "[    1.000000] VFS: Busy inodes after unmount of tmpfs (tmpfs)",
        FaultKind::FailedCheck,
    ),
    (
        "[    1.000000] sysfs: cannot create duplicate filename '/kernel/slab/x'",
        FaultKind::FailedCheck,
    ),
    (
        "[    1.000000] SLUB kmalloc-64: 3 partial slabs counted but counter=2",
        FaultKind::FailedCheck,
    ),
    (
        "[    1.000000] psi: inconsistent task state! task=99:agent cpu=0 psi_flags=4 clear=0 set=4",
        FaultKind::FailedCheck,
    ),
    (
        "[    1.000000] softirq: huh, entered softirq 1 TIMER ffffffff81 with preempt_count 00000100, exited with 00000101?",
        FaultKind::FailedCheck,
    ),
    // SLUB has no colon behind `BUG`.
    (
        "[    1.000000] BUG kmalloc-64 (Not tainted): Right Redzone overwritten",
        FaultKind::Bug,
    ),
    (
        "[    1.000000] BUG task_struct (Tainted: G    B W         ): Poison overwritten",
        FaultKind::Bug,
    ),
    (
        "[    1.000000] BUG: Bad page state in process agent  pfn:12345",
        FaultKind::Bug,
    ),
    // Without a time stamp, before the message that the console goes on with.
    (
        "** 18181 printk messages dropped **",
        FaultKind::LostMessages,
    ),
];

const FINE: [&str; 33] = [
    "[    0.000000] Linux version 6.12.117 (DEBUG BUILD) #1 SMP",
    "[    0.000000] Command line: console=ttyS0 oops=panic BUG: WARNING: Kernel panic - not syncing",
    "[    0.000000] Kernel command line: panic=-1 oops=panic init=/WARNING",
    "[    0.000000] DEBUG: kernel panic is not near",
    "[    1.000000] debug: [BUG] nothing",
    "[    1.000000] systemd[1]: Starting bug-buddy: BUG: reporter",
    "[    1.000000] Spectre V2 : WARNING: Unprivileged eBPF is enabled",
    "[    1.000000] process '/bin/WARNING: CPU: 1' started with executable stack",
    "[    1.000000] traps: agent[70] general protection fault ip:40 sp:7f error:0 in agent",
    "[    1.000000] agent[70]: segfault at 0 ip 0 sp 0 error 4",
    "[    1.000000] x86/fpu: x87 FPU will use FXSAVE",
    "[    1.000000] rcu: Hierarchical RCU implementation.",
    "[    1.000000] rcu: RCU calculated value of scheduler-enlistment delay is 100 jiffies.",
    "[    1.000000] Lockdep: nothing held",
    "[    1.000000] Unknown kernel command line parameters \"nokaslr\", will be passed",
    "[    1.000000] reboot: Power down",
    "WARNING: a program says so",
    "Oops: a program says so",
    "tests: BUG: 0 failed",
    "INFO: task force agreed to block",
    "ERROR: a program says so",
    "[    1.000000] ACPI: Using IOAPIC for interrupt routing, error: none",
    "[    1.000000] PCI: Using host bridge windows from ACPI; if necessary, use pci=nocrs and report a bug",
    "[    1.000000] Error: Driver 'pcspkr' is already registered, aborting...",
    "[    1.000000] tsc: Fast TSC calibration failed",
    "[    1.000000] INFO: lockdep is turned off.",
    "[    1.000000] INFO: NMI handler (perf_event_nmi_handler) took too long to run: 1.2 msecs",
    "[    1.000000] sched: RT throttling activated",
    "[    1.000000] workqueue: kswapd hogged CPU for >10000us 4 times, consider switching to WQ_UNBOUND",
    // Messages of one place of the source alone, of which the first ten were printed.
    "[    1.000000] some_function: 12 callbacks suppressed",
    "[    1.000000] printk: legacy console [ttyS0] enabled",
    "[    1.000000] VFS: Mounted root (tmpfs filesystem) readonly on device 0:2.",
    "[    1.000000] agent: BUG kmalloc-64 (Not tainted): quoted",
];

#[test]
fn faults_are_found_and_distinguished() {
    for (line, kind) in CONSOLE_FAULTS {
        let found = console_faults(format!("{FIRST}{line}").as_bytes());
        let kinds: Vec<FaultKind> = found
            .iter()
            .map(|console_fault| console_fault.kind)
            .collect();
        assert_eq!(kinds, [kind], "{line}");
    }
}

#[test]
fn what_only_looks_like_a_fault_is_none() {
    for line in FINE {
        assert_eq!(
            console_faults(format!("{FIRST}{line}").as_bytes()),
            [],
            "{line}"
        );
    }
}

#[test]
fn a_kernel_without_time_stamps_is_believed() {
    let text = b"Linux version 6.12.117\nBUG: kernel NULL pointer dereference, address: 0\n";
    let found = console_faults(text);
    assert_eq!((found[0].kind, found[0].line), (FaultKind::Oops, 2));
}

#[test]
fn line_ends_escapes_and_broken_text_hide_nothing() {
    let forms: [&[u8]; 6] = [
        b"x\r\n[    1.000000] BUG: bad\r\n",
        b"\x1b[0m\x1b[1;31m[    1.000000] BUG: bad\x1b[0m\n",
        b"\xff\xfe\n[    1.000000] BUG: bad \xc3\n",
        b"\0\0[    1.000000] BUG: bad",
        b"a prompt without an end[    1.000000] BUG: bad\n",
        b"\x1b]0;title\x07[    1.000000] BUG: bad\n",
    ];
    for form in forms {
        let found = console_faults(form);
        assert_eq!(found.len(), 1, "{:?}", String::from_utf8_lossy(form));
        assert!(found[0].message.starts_with("BUG: bad"));
    }
}

#[test]
fn an_excerpt_holds_the_call_trace() {
    let text = "[    1.000000] fine\n\
        [    2.000000] WARNING: CPU: 0 PID: 1 at a.c:1 f+0x1/0x2\n\
        [    2.000000] Call Trace:\n\
        [    2.000000]  <TASK>\n\
        [    3.000000] BUG: next\n";
    let found = console_faults(text.as_bytes());
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].line, 2);
    assert_eq!(found[0].severity, Severity::Warning);
    assert!(
        found[0]
            .excerpt
            .ends_with("Call Trace:\n[    2.000000]  <TASK>")
    );
    assert_eq!((found[1].kind, found[1].line), (FaultKind::Bug, 5));
    assert_eq!(found[1].severity, Severity::Fatal);
}

#[test]
fn a_call_trace_alone_is_a_notice() {
    let found = console_faults(b"[    1.000000] Call Trace:\n");
    assert_eq!(found[0].kind, FaultKind::CallTrace);
    assert_eq!(found[0].severity, Severity::Notice);
}

#[test]
fn a_guest_that_warns_without_end_is_bounded() {
    let mut console = Console::default();
    for _ in 0..1000 {
        console.push(b"[    1.000000] BUG: again\n");
    }
    console.push(&vec![b'x'; 10 * LINE_LIMIT]);
    assert_eq!(console.console_faults().len(), FAULTS);
    assert_eq!(console.suppressed().count(), 900);
    assert_eq!(console.suppressed().worst(), Some(FaultKind::Bug));
    assert!(console.pending.len() <= LINE_LIMIT);
    let (_, _, last) = console.into_parts();
    assert_eq!(last.len(), LAST_LINES);
}

#[test]
fn notices_use_up_no_room_of_what_is_certain() {
    let mut console = Console::default();
    for _ in 0..150 {
        console.push(b"[    1.000000] Call Trace:\n");
        for _ in 0..=EXCERPT_LINES {
            console.push(b"[    1.000000]  line\n");
        }
    }
    assert_eq!(console.suppressed().at_least(Severity::Warning), 0);
    assert_eq!(console.suppressed().count(), 50);
    assert_eq!(console.suppressed().worst(), Some(FaultKind::CallTrace));
    let told = console.push(b"[    2.000000] WARNING: CPU: 0 PID: 1 at a.c:1\n");
    assert_eq!(told.len(), 1);
    for _ in 0..150 {
        console.push(b"[    3.000000] INFO: task a:1 blocked for more than 120 seconds.\n");
    }
    assert_eq!(console.push(b"[    4.000000] BUG: bad\n").len(), 1);
    let suppressed = console.suppressed();
    assert_eq!(suppressed.at_least(Severity::Warning), 50);
    assert_eq!(suppressed.at_least(Severity::Fatal), 0);
    assert_eq!(suppressed.worst(), Some(FaultKind::HungTask));
    let kinds: Vec<_> = suppressed.kinds().collect();
    assert_eq!(
        kinds,
        [(FaultKind::HungTask, 50), (FaultKind::CallTrace, 50)]
    );
}

#[test]
fn what_is_certain_is_the_worst_of_what_was_not_kept() {
    let mut suppressed = Suppressed::default();
    assert_eq!(suppressed.worst(), None);
    for kind in [
        FaultKind::CallTrace,
        FaultKind::Warning,
        FaultKind::RcuStall,
    ] {
        suppressed.add(kind);
    }
    assert_eq!(suppressed.worst(), Some(FaultKind::Warning));
    suppressed.add(FaultKind::Oops);
    assert_eq!(suppressed.worst(), Some(FaultKind::Oops));
}

#[test]
fn what_follows_a_trouble_that_is_not_kept_belongs_to_no_other() {
    let mut console = Console::default();
    for _ in 0..=FAULTS {
        console.push(b"[    1.000000] BUG: again\n");
    }
    console.push(b"[    1.000000] of the last\n[    1.000000] Call Trace:\n");
    assert_eq!(console.console_faults().len(), FAULTS);
    assert_eq!(
        console.console_faults()[FAULTS - 1].excerpt,
        "[    1.000000] BUG: again"
    );
    assert_eq!(console.suppressed().count(), 1);
}

#[test]
fn troubles_are_told_when_their_line_ends() {
    let mut console = Console::default();
    assert_eq!(console.push(b"[    1.000000] BU"), []);
    assert_eq!(console.push(b"G: split"), []);
    assert_eq!(console.push(b"\n[    1.0").len(), 1);
    assert_eq!(console.finish(), []);
}

proptest! {
    // Where the pieces are cut decides nothing.
    #[test]
    fn pieces_give_what_the_whole_gives(cuts in proptest::collection::vec(1_usize..40, 1..40)) {
        let text = CONSOLE_FAULTS.iter().map(|(line, _)| *line).chain(FINE);
        let text = text.collect::<Vec<_>>().join("\r\n");
        let mut console = Console::default();
        let mut rest = text.as_bytes();
        for cut in cuts.iter().cycle() {
            let (piece, after) = rest.split_at(rest.len().min(*cut));
            console.push(piece);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        console.finish();
        prop_assert_eq!(console.into_parts().0, console_faults(text.as_bytes()));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        console_faults(&bytes);
    }
}
