//! Scenarios that a guest in which nothing happens would satisfy.

use super::{GOOD, parse, problems, shown};

#[test]
fn an_assertion_that_an_idle_task_satisfies_needs_a_control() {
    // No guard, a guard of another counter, a guard that an idle task satisfies.
    let guard = "  - { measure: control, counter: numa_pte_updates, at-least: 1000, because: balancing is on }\n";
    for other in [
        "  - { measure: control, sched: numa_scan_seq, at-least: 1, because: it is on }\n",
        "  - { measure: control, counter: numa_hint_faults, at-least: 1000, because: it is on }\n",
        "  - { measure: control, counter: numa_pte_updates, at-least: 0, because: it is on }\n",
        "  - { measure: control, counter: numa_pte_updates, at-most: 9, because: it is on }\n",
    ] {
        let found = problems(guard, other);
        assert!(
            found.contains("a guard must require activity of numa_pte_updates"),
            "{found}"
        );
    }
    // With its control, any bound is accepted.
    assert!(parse(&GOOD.replacen("equals: 0", "at-most: 10", 1)).is_ok());
    // One that activity alone can satisfy needs no control.
    let active = GOOD
        .replacen("equals: 0", "at-least: 10", 1)
        .replacen(guard, "  []\n", 1);
    assert!(parse(&active.replace("guards:\n  []", "guards: []")).is_ok());
}

/// A scenario whose subject is `t`, with a control measured before it.
#[track_caller]
fn refused(actions: &str, assertions: &str, words: &str) {
    let text = format!(
        "summary: s\nmachine: {{ nodes: 2 }}\ntasks: {{ t: {{}} }}\nsteps:\n{actions}\n{assertions}\n"
    );
    let found = parse(&text).expect_err("it should be refused");
    assert!(found.contains(words), "{found}");
}

// Each of these holds on a guest that never scans.
#[test]
fn what_an_idle_kernel_gives_is_refused() {
    let touch = "  - { measure: m, run: [ { task: t, touch: 1MiB, for: 1s } ] }";
    // Faults of a first touch are no faults of a scan.
    refused(
        "  - run: [ { task: t, map: r, size: 16KiB, populate: false }, { task: t, probe: r } ]",
        "expect:\n  - { probe: r, at-least: 4, because: it is scanned }",
        "a probe needs a region that was populated",
    );
    // These move without a scan.
    for name in [
        "counter: numa_local",
        "counter: pgfault",
        "sched: nr_switches",
    ] {
        refused(
            touch,
            &format!("expect:\n  - {{ measure: m, {name}, at-least: 1, because: it moves }}"),
            "would also hold on a kernel that never scans",
        );
    }
    // Moving a cpuset's pages counts as a migration, too.
    refused(
        "  - { measure: m, run: [ { task: t, touch: 1MiB, for: 1s }, { task: t, placement: 1MiB } ] }",
        "guards:\n  - { measure: m, counter: pgmigrate_success, at-least: 1, because: b }\n\
         expect:\n  - { placement: 1MiB, node: 1, at-least: 9, because: b }",
        "a guard must require activity of numa_pte_updates or numa_hint_faults or",
    );
    // A subject that does nothing.
    let control =
        "guards:\n  - { measure: m, counter: numa_pte_updates, at-least: 9, because: b }\n";
    refused(
        &format!("{touch}\n  - {{ measure: idle, run: [ {{ task: t, sleep: 1s }} ] }}"),
        &format!(
            "{control}expect:\n  - {{ measure: idle, counter: numa_pte_updates, equals: 0, because: b }}"
        ),
        "no task touches memory",
    );
    // One that is measured for less time than its control.
    let short = "  - { measure: short, run: [ { task: t, touch: 1MiB, TIME } ] }";
    let expect =
        "expect:\n  - { measure: short, counter: numa_pte_updates, equals: 0, because: b }";
    for time in ["for: 900ms", "passes: 1", "until-scan-seq: 1, within: 9s"] {
        refused(
            &format!("{touch}\n{}", short.replace("TIME", time)),
            &format!("{control}{expect}"),
            "would also satisfy `short: numa_pte_updates = 0`",
        );
    }
    for nothing in ["passes: 0", "for: 0ms"] {
        let text = format!("  - {{ measure: m, run: [ {{ task: t, touch: 1MiB, {nothing} }} ] }}");
        let assertions =
            format!("{control}expect:\n  - {{ exit-status: t, equals: 0, because: b }}");
        refused(&text, &assertions, "does nothing");
    }
}

/// A scenario that states where the memory of a task on node 0 is.
fn placed(task: &str, action: &str, expect: &str) -> String {
    format!(
        "summary: s\nmachine: {{ nodes: 2, memory-per-node: 256MiB }}\n\
         tasks: {{ t: {{ {task} }} }}\n\
         steps: [ {{ run: [ {{ task: t, {action} }}, {{ task: t, placement: r }} ] }} ]\n\
         expect:\n  - {{ placement: r, {expect}, because: b }}\n"
    )
}

#[test]
fn a_placement_that_no_idle_guest_has_needs_no_control() {
    let bound = "cpus: \"0\", policy: bind, policy-nodes: \"1\"";
    let local = "cpus: \"0\"";
    let map = "map: r, size: 4MiB";
    let accepted = [
        (bound, map, "node: 1, equals: 1024"),
        (bound, map, "node: 0, equals: 0"),
        (bound, map, "node: 1, in: percent-of-pages, at-least: 90"),
        (
            local,
            "map: r, size: 4MiB, on-node: 1",
            "node: 0, at-least: 1",
        ),
    ];
    for (task, action, expect) in accepted {
        let found = parse(&placed(task, action, expect));
        assert!(found.is_ok(), "{expect}: {found:?}");
    }
    let refused = [
        // Where the pages are anyway, whatever the policy does.
        (local, map, "node: 0, equals: 1024"),
        (bound, map, "node: 1, at-most: 1024"),
        (bound, map, "node: 0, at-most: 1024"),
        // The task may run on either node; the pages may not be there at all, or not all fit.
        (
            "policy: bind, policy-nodes: \"1\"",
            map,
            "node: 1, equals: 1024",
        ),
        (
            bound,
            "map: r, size: 4MiB, populate: false",
            "node: 0, equals: 0",
        ),
        (bound, "map: r, size: 200MiB", "node: 1, at-least: 1"),
    ];
    for (task, action, expect) in refused {
        let found = parse(&placed(task, action, expect)).expect_err(expect);
        assert!(found.contains("would also satisfy"), "{expect}: {found}");
    }
}

#[test]
fn a_missing_control_is_answered_with_a_guard_to_add() {
    let guard = "  - { measure: control, counter: numa_pte_updates, at-least: 1000, because: balancing is on }\n";
    let text = shown(&GOOD.replacen(
        guard,
        "  - { measure: control, sched: numa_scan_seq, at-least: 1, because: it is on }\n",
        1,
    ));
    let line =
        "- { measure: control, counter: numa_pte_updates, at-least: 1, because: balancing is on }";
    assert!(text.contains(line), "{text}");
    assert!(
        text.contains(
            "guards[0] (`control: numa_scan_seq >= 1`) does not count: it is not about \
             numa_pte_updates"
        ),
        "{text}"
    );
    // The line can be pasted.
    let added = GOOD.replacen(guard, &format!("  {line}\n"), 1);
    assert!(parse(&added).is_ok(), "{:?}", parse(&added));
}
