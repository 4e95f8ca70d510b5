//! What is the same fault, and what is not.

use super::*;
use crate::guest::console::Console;

fn faults(console: &str, boot_end_us: Option<u64>) -> Vec<Fault> {
    let mut seen = Console::default();
    seen.push(console.as_bytes());
    seen.finish();
    of_console(seen.console_faults(), boot_end_us)
}

fn place(console: &str) -> String {
    let faults = faults(console, None);
    assert_eq!(faults.len(), 1, "{faults:?}");
    faults[0].sign.place.clone()
}

#[track_caller]
fn same(one: &str, other: &str) {
    assert_eq!(place(one), place(other));
}

#[track_caller]
fn differ(one: &str, other: &str) {
    assert_ne!(place(one), place(other));
}

#[test]
fn a_warning_is_its_function_and_its_words() {
    let warning = |cpu: u32, pid: u32, line: u32, function: &str, words: &str| {
        format!(
            "[    1.000000] ------------[ cut here ]------------\n\
             [    1.000001] {words}\n\
             [    1.000002] WARNING: CPU: {cpu} PID: {pid} at kernel/sched/fair.c:{line} {function}+0x1c/0x90\n\
             [    1.000003] RIP: 0010:{function}+0x1c/0x90\n"
        )
    };
    let one = warning(
        0,
        1,
        120,
        "task_numa_work",
        "a page at 0xffff888003a2d2c0 is lost",
    );
    assert_eq!(
        place(&one),
        "kernel/sched/fair.c task_numa_work: a page at # is lost"
    );
    same(
        &one,
        &warning(
            1,
            99,
            127,
            "task_numa_work",
            "a page at 0xffff88800aaaa000 is lost",
        ),
    );
    differ(
        &one,
        &warning(
            0,
            1,
            120,
            "task_numa_work",
            "a VMA at 0xffff888003a2d2c0 is lost",
        ),
    );
    differ(
        &one,
        &warning(
            0,
            1,
            120,
            "task_numa_fault",
            "a page at 0xffff888003a2d2c0 is lost",
        ),
    );
    // Without CONFIG_DEBUG_BUGVERBOSE.
    assert_eq!(
        place(
            "[    1.000000] ------------[ cut here ]------------\n\
             [    1.000000] on purpose\n\
             [    1.000000] WARNING: CPU: 0 PID: 0 at init_sched_fair_class+0x141/0x150\n"
        ),
        "init_sched_fair_class: on purpose"
    );
    // The form since v6.19 has the same place.
    assert_eq!(
        place(
            "[    1.000000] WARNING: kernel/sched/fair.c:9 at task_numa_work+0x1/0x2, CPU#1: a/9"
        ),
        place(
            "[    1.000000] WARNING: CPU: 0 PID: 1 at kernel/sched/fair.c:7 task_numa_work+0x3/0x4"
        ),
    );
}

#[test]
fn a_lockdep_report_is_its_locks_and_where_they_are_taken() {
    let report = |address: &str, held: &str| {
        format!(
            "[    1.000000] WARNING: possible circular locking dependency detected\n\
             [    1.000001] 6.12.117 #1 Not tainted\n\
             [    1.000002] agent/71 is trying to acquire lock:\n\
             [    1.000003] {address} (&mm->mmap_lock){{++++}}-{{3:3}}, at: task_numa_work+0x1a/0x5d0\n\
             [    1.000004] \n\
             [    1.000005] but task is already holding lock:\n\
             [    1.000006] ffffffff82a5a0d8 ({held}){{+.+.}}-{{3:3}}, at: task_numa_work+0x10/0x5d0\n"
        )
    };
    let one = report("ffff888003a2d2c0", "a_mutex");
    assert_eq!(
        place(&one),
        "WARNING: possible circular locking dependency detected: \
         &mm->mmap_lock in task_numa_work < a_mutex in task_numa_work"
    );
    same(&one, &report("ffff888004444440", "a_mutex"));
    differ(&one, &report("ffff888003a2d2c0", "another_mutex"));
    differ(
        "[    1.000000] WARNING: suspicious RCU usage\n[    1.000001] mm/a.c:12 suspicious rcu_dereference_check() usage!\n",
        "[    1.000000] WARNING: suspicious RCU usage\n[    1.000001] mm/b.c:12 suspicious rcu_dereference_check() usage!\n",
    );
}

#[test]
fn a_leak_is_its_size_and_who_allocated_it() {
    let leak = |address: &str, pid: u32, size: u32, caller: &str| {
        format!(
            "unreferenced object 0x{address} (size {size}):\n\
             \x20 comm \"task\", pid {pid}, jiffies 4294892318\n\
             \x20 hex dump (first 32 bytes):\n\
             \x20   00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00  ................\n\
             \x20 backtrace (crc 0):\n\
             \x20   [<00000000f8a9f9d5>] __kmalloc_cache_noprof+0x12/0x34\n\
             \x20   [<00000000f8a9f9d6>] {caller}+0x12/0x34\n\
             \x20   [<00000000f8a9f9d7>] task_work_run+0x12/0x34\n"
        )
    };
    let one = leak("ffff888003a2d2c0", 71, 64, "task_numa_work");
    assert_eq!(place(&one), "64 bytes: task_numa_work < task_work_run");
    // By which way the kernel was entered is no difference, and neither is what follows.
    same(&one, &format!("{one}    irqentry_exit+0x1/0x2\n"));
    same(&one, &format!("{one}[  130.248337] ACPI: PM: Preparing\n"));
    same(&one, &leak("ffff888003a00000", 99, 64, "task_numa_work"));
    differ(&one, &leak("ffff888003a2d2c0", 71, 96, "task_numa_work"));
    differ(&one, &leak("ffff888003a2d2c0", 71, 64, "kthread"));
    let both = format!(
        "{one}{}",
        leak("ffff888003a00000", 99, 64, "task_numa_work")
    );
    let both = faults(&both, None);
    assert_eq!((both.len(), both[0].count), (1, 2));
}

#[test]
fn what_differs_from_kernel_to_kernel_is_taken_out_and_nothing_else() {
    use place::plain;
    for (text, expected) in [
        (
            "BUG: KASAN: slab-use-after-free in task_numa_fault+0x1b/0x20",
            "BUG: KASAN: slab-use-after-free in task_numa_fault",
        ),
        (
            "BUG: unable to handle page fault for address: ffffc90000123456",
            "BUG: unable to handle page fault for address: #",
        ),
        ("kernel BUG at mm/slub.c:448!", "kernel BUG at mm/slub.c!"),
        (
            "BUG: scheduling while atomic: swapper/0/0/0x00000002",
            "BUG: scheduling while atomic: swapper/#/#",
        ),
        (
            "watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [agent:71]",
            "watchdog: BUG: soft lockup - CPU# stuck for #s! [agent:71]",
        ),
        ("Oops: 0000 [#1] PREEMPT SMP", "Oops: 0000 PREEMPT SMP"),
        (
            "agent: page allocation failure: order:4, mode:0x40dc0",
            "agent: page allocation failure: order:4, mode:#",
        ),
    ] {
        assert_eq!(plain(text), expected);
    }
}

#[test]
fn a_fault_of_the_boot_is_not_one_of_the_scenario() {
    let warning = |seconds: u32| {
        format!(
            "[    {seconds}.000000] WARNING: CPU: 0 PID: 1 at kernel/sched/fair.c:7 f+0x3/0x4\n"
        )
    };
    let phases = |text: &str, end: Option<u64>| -> Vec<Phase> {
        faults(text, end)
            .iter()
            .map(|fault| fault.sign.phase)
            .collect()
    };
    let text = warning(1) + &warning(9);
    assert_eq!(phases(&text, Some(5_000_000)), [Phase::Boot, Phase::Plan]);
    // A guest that does not come as far never ran a scenario.
    assert_eq!(phases(&text, None), [Phase::Boot]);
    // What has no time stamp is not taken for a harmless one of the boot.
    let unstamped = "WARNING: CPU: 0 PID: 1 at kernel/sched/fair.c:7 f+0x3/0x4\n";
    assert_eq!(phases(unstamped, Some(5_000_000)), [Phase::Plan]);
}
