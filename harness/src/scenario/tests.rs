//! What is accepted, and how it is read.

mod mistakes;
mod vacuous;

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
