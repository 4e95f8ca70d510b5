//! What is accepted, what is refused, and with which words.

use camino::Utf8Path;

use super::Scenario;

const GOOD: &str = r#"summary: a pinned task is not scanned
machine: { nodes: 2 }
tasks:
  pinned: { cpus: "1", cpuset-mems: "0" }
  control: { cpus: "1", threads: 2 }
steps:
  - measure: pinned
    run: [ { task: pinned, touch: 4MiB, for: 3s } ]
  - measure: control
    run: [ { task: control, touch: 4MiB, for: 3s } ]
guards:
  - { measure: control, counter: numa_pte_updates, at-least: 1000, because: balancing is on }
expect:
  - { measure: pinned, counter: numa_pte_updates, equals: 0, because: it returns early }
"#;

fn parse(text: &str) -> Result<Scenario, String> {
    Scenario::parse(Utf8Path::new("suites/cpuset/example.yaml"), text).map_err(|error| {
        let problems: Vec<String> = error.problems.iter().map(ToString::to_string).collect();
        problems.join("\n")
    })
}

/// The problems of the good text with `from` replaced by `to`.
#[track_caller]
fn problems(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from:?} is not in the text");
    parse(&GOOD.replacen(from, to, 1)).expect_err("it should be refused")
}

#[test]
fn a_scenario_is_named_after_its_folder_and_file() {
    let scenario = parse(GOOD).unwrap();
    assert_eq!(scenario.name, "cpuset/example");
    assert!(scenario.is_about_behaviour());
    let plan = scenario.plan(&scenario.machine, 3);
    assert_eq!(plan.seed, 3);
    assert_eq!(plan.steps.len(), 2);
    assert_eq!(
        plan.steps[0].prepare.len(),
        1,
        "the region is mapped before the measurement"
    );
    assert_eq!(plan.cgroups[0].path, "pinned");
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_text() {
    let marked = format!("\u{feff}{GOOD}");
    assert_eq!(
        parse(&marked).unwrap().summary,
        parse(GOOD).unwrap().summary
    );
}

#[test]
fn each_mistake_is_reported_where_it_stands() {
    let table = [
        // An unknown key, a wrong type, a missing key, a key given twice, no YAML at all.
        (
            "for: 3s",
            "during: 3s",
            "8:41: unknown key `during` in steps[0].run[0]",
        ),
        (
            "threads: 2",
            "threads: many",
            "5:34: tasks.control.threads: invalid type: string",
        ),
        (
            "summary: a pinned task is not scanned\n",
            "",
            "missing field `summary`",
        ),
        (
            "guards:\n",
            "steps: []\nguards:\n",
            "11:1: `steps` is given twice",
        ),
        (
            "machine: { nodes: 2 }",
            "machine: { nodes: 2 ]",
            "did not find expected",
        ),
        // A wrong unit, a wrong name, a wrong list.
        (
            "for: 3s",
            "for: 3 parsecs",
            "8:46: \"3 parsecs\" is no duration such as",
        ),
        (
            "touch: 4MiB",
            "touch: 4MB",
            "8:35: \"4MB\" is no size in whole pages",
        ),
        (
            "task: pinned",
            "task: pinnd",
            "8:20: there is no task \"pinnd\"",
        ),
        (
            "cpus: \"1\"",
            "cpus: \"1-\"",
            "4:19: \"1-\" is not a list of numbers",
        ),
        (
            "cpus: \"1\"",
            "cpus: \"7\"",
            "4:19: the machine has no CPU 7",
        ),
        (
            "measure: control, c",
            "measure: contrl, c",
            "12:16: there is no measurement",
        ),
        // Words that do not fit together.
        (
            "for: 3s",
            "for: 3s, passes: 2",
            "8:12: `touch` needs exactly one of",
        ),
        (
            "for: 3s",
            "for: 3s, count: 2",
            "`count` does not go with `touch`",
        ),
        (
            "touch: 4MiB, for: 3s",
            "for: 3s",
            "8:12: an action needs exactly one verb",
        ),
        (
            "touch: 4MiB",
            "touch: heap",
            "there is no region of task \"pinned\"",
        ),
        (
            "equals: 0",
            "equals: 0, at-most: 3",
            "14:5: an assertion needs exactly one of `equals`",
        ),
        (
            "equals: 0, because: it returns early",
            "equals: 0",
            "needs a `because`",
        ),
        (
            "counter: numa_pte_updates, equals",
            "sched: numa_scan_seq, node: 1, equals",
            "14:52: `node` does not go with `sched`",
        ),
        (
            "nodes: 2",
            "nodes: 2, each-node: []",
            "either `nodes` or `each-node`",
        ),
        (
            "  control: {",
            "  idler: {}\n  control: {",
            "5:10: no step uses task \"idler\"",
        ),
        (
            "measure: control\n",
            "measure: pinned\n",
            "there already is a measurement \"pinned\"",
        ),
        (
            "guards:\n",
            "since: { release: v6, because: x }\nguards:\n",
            "11:19: \"v6\" is no release such as v6.12",
        ),
        (
            "guards:\n",
            "since: { release: v6.12, because: \"\" }\nguards:\n",
            "11:35: `because` is empty",
        ),
    ];
    let wrong = table.into_iter().filter_map(|(from, to, expected)| {
        let found = problems(from, to);
        let as_expected = found.contains(expected);
        (!as_expected).then(|| format!("{from:?} -> {to:?}:\n{found}\nexpected: {expected}\n"))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_scenario_may_be_about_later_kernels_alone() {
    assert_eq!(parse(GOOD).unwrap().does_not_apply("2.6.39"), None);
    let text = format!("{GOOD}since: {{ release: v6.12, because: the counter came }}\n");
    let scenario = parse(&text).unwrap();
    assert_eq!(scenario.does_not_apply("6.12.0-rc3"), None);
    let reason = scenario.does_not_apply("6.1.192").unwrap();
    assert_eq!(
        reason.to_string(),
        "cpuset/example does not apply to 6.1.192: it is about v6.12 and later: the counter came"
    );
}

#[test]
fn all_problems_are_reported_at_once() {
    let text = GOOD
        .replace("for: 3s", "for: ever")
        .replace("equals: 0", "at-least: no");
    assert!(
        parse(&text).unwrap_err().contains("invalid type"),
        "the type comes first"
    );
    let text = GOOD
        .replace("for: 3s", "for: ever")
        .replace("cpus: \"1\"", "cpus: \"x\"");
    assert_eq!(parse(&text).unwrap_err().lines().count(), 4);
}

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

#[test]
fn what_lies_outside_of_the_machine_is_refused() {
    let table = [
        (
            "cpus: \"1\"",
            "cpus: \"2\"",
            "the machine has no CPU 2: its CPUs are 0 to 1",
        ),
        (
            "cpuset-mems: \"0\"",
            "cpuset-mems: \"2\"",
            "the machine has no node 2",
        ),
        (
            "cpuset-mems: \"0\"",
            "cpuset-mems: \"\"",
            "the list names no node",
        ),
        (
            "touch: 4MiB",
            "touch: 4MiB, on-node: 7",
            "the machine has no node 7",
        ),
        (
            "threads: 2",
            "policy: bind, policy-nodes: \"5\"",
            "the machine has no node 5",
        ),
        (
            "measure: control, counter: numa_pte_updates",
            "measure: control, memory-stat: numa_pte_updates",
            "in no control group of its own",
        ),
        (
            "measure: control, counter: numa_pte_updates",
            "fact: node0.cpu",
            "no fact \"node0.cpu\"",
        ),
    ];
    for (from, to, words) in table {
        let found = problems(from, to);
        assert!(found.contains(words), "{from:?} -> {to:?}:\n{found}");
    }
}

#[test]
fn what_no_guest_can_show_is_refused() {
    // The value, and what it is compared with, by the assertion and another line of the text.
    let guard = "measure: control, counter: numa_pte_updates, at-least: 1000";
    let table = [
        // Bounds outside of what there is.
        (
            guard,
            guard,
            "equals: 0,",
            "equals: -7,",
            "is never less than 0",
        ),
        (
            guard,
            guard,
            "equals: 0,",
            "at-most: -1,",
            "is never less than 0",
        ),
        (
            guard,
            guard,
            "equals: 0,",
            "at-least: -3,",
            "every run satisfies this",
        ),
        (
            guard,
            "measure: control, sched: numa_preferred_nid, at-least: 2",
            "",
            "",
            "`control: numa_preferred_nid` is always between -1 and 1",
        ),
        // No balancing, and none yet.
        (
            "nodes: 2",
            "nodes: 1, cpus-per-node: 2",
            "",
            "",
            "with one node the kernel does not",
        ),
        (
            "steps:",
            "balancing: { mode: 0 }\nsteps:",
            "",
            "",
            "switches NUMA balancing off",
        ),
        (
            "for: 3s",
            "for: 900ms",
            "for: 3s",
            "for: 900ms",
            "after the scan delay of 1000 ms",
        ),
        (
            "steps:",
            "balancing: { scan-delay: 5s }\nsteps:",
            "",
            "",
            "no task of it has run for more than 3000 ms",
        ),
        // More memory than there is.
        (
            "touch: 4MiB",
            "touch: 600MiB",
            "",
            "",
            "8:35: task \"pinned\" would have 600 MiB",
        ),
        (
            "touch: 4MiB",
            "touch: 300MiB, on-node: 1",
            "",
            "",
            "but node 1 has only 256 MiB",
        ),
    ];
    for (from, to, also_from, also_to, words) in table {
        let text = GOOD.replacen(from, to, 1).replacen(also_from, also_to, 1);
        // Memory is refused where it stands, and so is a bound.
        let found = parse(&text).expect_err(words);
        assert!(found.contains(words), "{words}:\n{found}");
    }
    // A tunable that is set, or a task that was started before, makes the difference.
    for (from, to) in [
        ("steps:", "balancing: { scan-delay: 100ms }\nsteps:"),
        ("steps:", "balancing: { mode: 1 }\nsteps:"),
        (
            "steps:\n",
            "steps:\n  - run: [ { task: control, sleep: 2s } ]\n",
        ),
    ] {
        let text = GOOD.replace("for: 3s", "for: 1s").replacen(from, to, 1);
        assert!(parse(&text).is_ok(), "{to}: {:?}", parse(&text));
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
fn merge_keys_are_resolved() {
    let text = GOOD
        .replace("  pinned: { cpus", "  pinned: &base { threads: 3, cpus")
        .replace(
            "control: { cpus: \"1\"",
            "control: { <<: *base, cpuset-mems: \"0-1\"",
        );
    let scenario = parse(&text).unwrap();
    let plan = scenario.plan(&scenario.machine, 1);
    assert_eq!(
        (plan.tasks["pinned"].threads, plan.tasks["control"].threads),
        (3, 2)
    );
    assert_eq!(plan.tasks["control"].cpus, [1]);
    // Mistakes stand where they stand.
    let wrong = text.replacen("for: 3s", "for: [3s]", 1);
    let found = parse(&wrong).unwrap_err();
    assert!(
        found.contains(":8:46: steps[0].run[0].for: invalid type"),
        "{found}"
    );
    let wrong = text.replacen("touch: 4MiB", "toch: 4MiB", 1);
    let found = parse(&wrong).unwrap_err();
    assert!(found.contains(":8:28: unknown key `toch`"), "{found}");
    assert!(parse(&text.replace("*base", "3")).is_err());
}

/// The problems with their help.
fn shown(text: &str) -> String {
    let error = Scenario::parse(Utf8Path::new("own/x.yaml"), text).unwrap_err();
    let mut shown = String::new();
    miette::GraphicalReportHandler::new_themed(miette::GraphicalTheme::unicode_nocolor())
        .with_width(400)
        .render_report(&mut shown, &error)
        .unwrap();
    shown
}

#[test]
fn an_unknown_key_is_answered_with_those_that_fit() {
    let help = |from: &str, to: &str| {
        let text = shown(&GOOD.replacen(from, to, 1));
        let help = text.lines().find_map(|line| line.split_once("help: "));
        help.unwrap_or_else(|| panic!("{text}")).1.to_owned()
    };
    // `for` goes with one verb only.
    assert_eq!(
        help("touch", "toch"),
        "did you mean touch? There are: touch"
    );
    assert_eq!(
        help("for: 3s", "fo: 3s"),
        "did you mean for? There are: for, on-node, pages, passes, shared, until-scan-seq, within"
    );
    assert_eq!(
        help(
            "counter: numa_pte_updates, equals",
            "counter: numa_pte_updates, nod: 1, equals"
        ),
        "there are: at-least, at-most"
    );
    assert_eq!(
        help("threads: 2", "thread: 2"),
        "did you mean threads? There are: cgroup, cpuset-cpus, cpuset-mems, policy, \
         policy-balancing, policy-nodes, threads"
    );
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

#[test]
fn huge_pages_have_a_gap_of_their_own() {
    let huge = GOOD.replacen("touch: 4MiB", "touch: 4MiB, pages: transparent-huge", 1);
    let scenario = parse(&huge).unwrap();
    let plan = serde_json::to_value(scenario.plan(&scenario.machine, 1)).unwrap();
    let region = &plan["steps"][0]["prepare"][0]["commands"][0]["map"];
    assert_eq!(region["gap"], 2 << 20);
}

#[test]
fn a_file_may_lie_anywhere() {
    let parse = |file: &str| Scenario::parse(Utf8Path::new(file), GOOD);
    let name = |file: &str| parse(file).unwrap().name;
    assert_eq!(name("/tmp/.tmpA1/Test.v2.yaml"), "own/Test.v2");
    assert_eq!(name("2nd.yaml"), "own/2nd");
    assert_eq!(name("suites/vma/late.yaml"), "vma/late");
    // Under another name it would not be found.
    for file in ["my test.yaml", "-x.yaml", "ä.yaml"] {
        let problem = parse(file).unwrap_err().problems.remove(0);
        assert!(problem.message.contains("rename the file"), "{problem}");
    }
}

#[test]
fn every_mistake_is_shown_with_its_line() {
    let text = GOOD.replacen("task: pinned", "task: pinnd", 1);
    let error = Scenario::parse(Utf8Path::new("suites/cpuset/example.yaml"), &text).unwrap_err();
    let mut shown = String::new();
    miette::GraphicalReportHandler::new_themed(miette::GraphicalTheme::unicode_nocolor())
        .render_report(&mut shown, &error)
        .unwrap();
    insta::assert_snapshot!(shown);
}

proptest::proptest! {
    // Whatever stands in a file, reading it ends and does not panic.
    #[test]
    fn no_text_makes_it_panic(at in 0_usize..600, cut in 0_usize..40, with in "\\PC{0,12}") {
        let mut text: Vec<char> = GOOD.chars().collect();
        let at = at.min(text.len());
        let end = (at + cut).min(text.len());
        text.splice(at..end, with.chars());
        let _ = parse(&text.into_iter().collect::<String>());
    }
}

#[test]
fn a_counter_that_is_probably_misspelt_is_doubted_where_it_stands() {
    let yaml = |counter: &str, sched: &str| {
        format!(
            "summary: mine\nmachine: {{ nodes: 2 }}\ntasks: {{ t: {{ cpus: \"1\", threads: 2 }} }}\n\
             steps: [ {{ measure: m, run: [ {{ task: t, touch: 1MiB, for: 1s }} ] }} ]\n\
             guards: [ {{ measure: m, counter: numa_hint_faults, at-least: 1, because: x }} ]\n\
             expect:\n  - {{ measure: m, counter: {counter}, at-least: 1, because: x }}\n  \
             - {{ measure: m, sched: {sched}, at-least: 1, because: x }}\n"
        )
    };
    let doubts = |counter: &str, sched: &str| {
        let text = yaml(counter, sched);
        Scenario::parse(Utf8Path::new("own/mine.yaml"), &text)
            .unwrap()
            .doubts()
    };
    assert_eq!(
        doubts("numa_pte_update", "numa_scan_sec"),
        [
            "own/mine.yaml:7:28: numalab knows no counter numa_pte_update: did you mean \
             numa_pte_updates?",
            "own/mine.yaml:8:26: numalab knows no counter numa_scan_sec: did you mean \
             numa_scan_seq?"
        ]
    );
    // What a newer kernel may count is nobody's mistake.
    for new in ["numa_pte_updates", "numa_hint_faults_remote", "pgfault"] {
        assert_eq!(doubts(new, "numa_scan_seq"), [""; 0]);
    }
}
