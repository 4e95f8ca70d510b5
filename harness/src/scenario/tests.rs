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
            "8:41: steps[0].run[0]: unknown field `during`",
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
            "8:12: an action has exactly one verb",
        ),
        (
            "touch: 4MiB",
            "touch: heap",
            "there is no region of task \"pinned\"",
        ),
        (
            "equals: 0",
            "equals: 0, at-most: 3",
            "14:5: exactly one of `equals`",
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
            "there is a measurement \"pinned\" already",
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
fn a_claim_that_an_idle_task_satisfies_needs_a_control() {
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
            found.contains("a guard must demand activity of numa_pte_updates"),
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
            "would hold on a kernel that never scans",
        );
    }
    // Moving a cpuset's pages counts as a migration, too.
    refused(
        "  - { measure: m, run: [ { task: t, touch: 1MiB, for: 1s }, { task: t, placement: 1MiB } ] }",
        "guards:\n  - { measure: m, counter: pgmigrate_success, at-least: 1, because: b }\n\
         expect:\n  - { placement: 1MiB, node: 1, at-least: 9, because: b }",
        "a guard must demand activity of numa_pages_migrated",
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
            "touching `for` no longer a time",
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
            "no node is named",
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
fn huge_pages_have_a_gap_of_their_own() {
    let huge = GOOD.replacen("touch: 4MiB", "touch: 4MiB, pages: transparent-huge", 1);
    let scenario = parse(&huge).unwrap();
    let plan = serde_json::to_value(scenario.plan(&scenario.machine, 1)).unwrap();
    let region = &plan["steps"][0]["prepare"][0]["commands"][0]["map"];
    assert_eq!(region["gap"], 2 << 20);
}

#[test]
fn a_file_may_lie_anywhere() {
    let name = |file: &str| Scenario::parse(Utf8Path::new(file), GOOD).unwrap().name;
    assert_eq!(name("/tmp/.tmpA1/My Test.v2.yaml"), "own/my-test-v2");
    assert_eq!(name("2nd.yaml"), "own/s2nd");
    assert_eq!(name("suites/vma/late.yaml"), "vma/late");
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
