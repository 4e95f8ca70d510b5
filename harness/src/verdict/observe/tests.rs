//! What records say, and what they do not.

use camino::Utf8Path;
use numalab_protocol::CONTRACT;

use super::*;
use crate::scenario::{Assertion, Bound, Observable, Scenario, Unit};
use crate::verdict::{FaultSummary, Verdict, judge};

const SCENARIO: &str = r#"summary: two measurements
machine: { nodes: 2 }
tasks: { t: {} }
steps:
  - measure: m
    run: [ { task: t, touch: 1MiB, for: 1s } ]
expect:
  - { measure: m, counter: numa_pte_updates, at-least: 1, because: it is scanned }
"#;

fn plan() -> Plan {
    let scenario = Scenario::parse(Utf8Path::new("own/test.yaml"), SCENARIO).unwrap();
    scenario.plan(&scenario.machine, 7)
}

fn opening(contract: u32, seed: u64) -> Vec<Record> {
    let uptime_ns = 0;
    vec![
        Record::Ready {
            contract,
            release: "6.12".into(),
            uptime_ns,
        },
        Record::Window { uptime_ns },
        Record::Start {
            seed,
            facts: Values::new(),
            uptime_ns,
        },
    ]
}

fn end() -> Record {
    Record::End {
        complete: true,
        tainted: 0,
        uptime_ns: 0,
    }
}

fn whole(records: Vec<Record>) -> Vec<Record> {
    [opening(CONTRACT, 7), records, vec![end()]].concat()
}

fn seen(records: Vec<Record>) -> Observations {
    let seen = Observations::new(&plan(), &whole(records));
    assert_eq!(seen.gave_up, None);
    seen
}

fn reading(edge: Edge, vmstat: &[(&str, i64)], seq: i64) -> Record {
    let values = |pairs: &[(&str, i64)]| {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect::<Values>()
    };
    let state = TaskState {
        sched: values(&[("numa_scan_seq", seq)]),
        memory_stat: Values::new(),
        stat: Values::new(),
    };
    Record::Snapshot {
        measure: "m".into(),
        edge,
        uptime_ns: 0,
        vmstat: values(vmstat),
        tasks: [("t".to_owned(), state)].into(),
    }
}

fn assertion(observable: Observable, bound: Bound) -> Assertion {
    Assertion {
        observable,
        bound,
        because: "a test".into(),
    }
}

fn counter(name: &str) -> Assertion {
    let subject = Observable::Counter {
        measure: "m".into(),
        name: name.into(),
    };
    assertion(subject, Bound::AtLeast(0))
}

#[test]
fn everything_that_was_measured_is_listed() {
    let seen = seen(vec![
        reading(
            Edge::Begin,
            &[("numa_pte_updates", 7), ("pgfault", 3), ("pgmajfault", 3)],
            2,
        ),
        reading(
            Edge::End,
            &[("numa_pte_updates", 7), ("pgfault", 5), ("pgmajfault", 3)],
            9,
        ),
    ]);
    let values = seen.values();
    let shown: Vec<String> = values
        .iter()
        .map(|(what, value)| format!("{what} {value}"))
        .collect();
    assert_eq!(
        shown[..4],
        [
            "m: numa_pte_updates 0",
            "m: pgfault 2",
            "m, t: numa_scan_seq 9",
            "m, t: change of numa_scan_seq 7"
        ]
    );
}

#[test]
fn a_counter_is_the_difference_of_two_readings() {
    let seen = seen(vec![
        reading(Edge::Begin, &[("numa_pte_updates", 7)], 2),
        reading(Edge::End, &[("numa_pte_updates", 8232)], 9),
    ]);
    assert_eq!(seen.value(&counter("numa_pte_updates")), Ok(8225));
    let name = "numa_scan_seq".to_owned();
    let (measure, task) = ("m".to_owned(), "t".to_owned());
    let sched = Observable::Sched {
        measure: measure.clone(),
        task: task.clone(),
        name: name.clone(),
    };
    assert_eq!(seen.value(&assertion(sched, Bound::AtLeast(0))), Ok(9));
    let change = Observable::SchedChange {
        measure,
        task,
        name,
    };
    assert_eq!(seen.value(&assertion(change, Bound::AtLeast(0))), Ok(7));
}

#[test]
fn what_was_not_recorded_is_missing_and_not_zero() {
    let unfinished = seen(vec![reading(Edge::Begin, &[("numa_pte_updates", 7)], 2)]);
    let missing = unfinished.value(&counter("numa_pte_updates")).unwrap_err();
    assert_eq!(missing.to_string(), "measurement m was not finished");

    let without = seen(vec![
        reading(Edge::Begin, &[("pgfault", 7)], 2),
        reading(Edge::End, &[("pgfault", 7)], 2),
    ]);
    let missing = without.value(&counter("numa_pte_updates")).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "this kernel does not print numa_pte_updates in /proc/vmstat, or prints it twice"
    );
}

fn probe(faults: Vec<u64>, unit: Unit, bound: Bound) -> Result<i64, Missing> {
    let record = Record::Probe {
        step: 0,
        task: "t".into(),
        region: "late".into(),
        pages_per_vma: 4,
        faults,
    };
    let subject = Observable::Probe {
        task: "t".into(),
        region: "late".into(),
        unit,
    };
    seen(vec![record]).value(&assertion(subject, bound))
}

#[test]
fn a_share_is_rounded_away_from_its_bound() {
    let mut faults = vec![4; 121];
    faults.extend([0; 7]);
    let of = |unit, bound| probe(faults.clone(), unit, bound).unwrap();
    assert_eq!(of(Unit::Vmas, Bound::AtLeast(0)), 121);
    assert_eq!(of(Unit::Pages, Bound::AtLeast(0)), 484);
    // 121 of 128 are 94.53 %.
    assert_eq!(of(Unit::PercentOfVmas, Bound::AtLeast(95)), 94);
    assert_eq!(of(Unit::PercentOfVmas, Bound::AtMost(94)), 95);
    assert!(!Bound::Equals(94).holds(of(Unit::PercentOfVmas, Bound::Equals(94))));
    assert!(!Bound::Equals(95).holds(of(Unit::PercentOfVmas, Bound::Equals(95))));

    // One page of many is not none.
    let mut one = vec![0; 1000];
    one[17] = 1;
    let of = |bound| probe(one.clone(), Unit::PercentOfPages, bound).unwrap();
    assert!(!Bound::Equals(0).holds(of(Bound::Equals(0))));
    assert!(!Bound::AtMost(0).holds(of(Bound::AtMost(0))));
    assert!(Bound::AtMost(1).holds(of(Bound::AtMost(1))));
}

#[test]
fn numbers_out_of_range_are_missing() {
    let value = probe(vec![u64::MAX, 1], Unit::Pages, Bound::AtLeast(0));
    assert_eq!(
        value.unwrap_err().to_string(),
        "the guest's numbers are out of range"
    );
    let value = probe(vec![u64::MAX], Unit::PercentOfPages, Bound::AtLeast(0));
    assert!(value.is_err());
}

#[test]
fn a_signal_is_no_exit_status() {
    let status = ExitStatus::Signal(9);
    let seen = seen(vec![Record::Exited {
        task: "t".into(),
        status,
    }]);
    let value = seen.value(&assertion(
        Observable::ExitStatus { task: "t".into() },
        Bound::Equals(0),
    ));
    assert_eq!(
        value.unwrap_err().to_string(),
        "task t was ended by signal 9"
    );
}

#[test]
fn records_of_another_run_are_refused() {
    let begin = || reading(Edge::Begin, &[], 0);
    let mut other = begin();
    if let Record::Snapshot { measure, .. } = &mut other {
        *measure = "other".into();
    }
    let table = [
        (opening(CONTRACT + 1, 7), "of the protocol"),
        (opening(CONTRACT, 8), "ran seed 8, not 7"),
        (
            vec![end()]
                .into_iter()
                .chain(opening(CONTRACT, 7))
                .collect(),
            "",
        ),
        (whole(vec![begin(), begin()]), "was read twice"),
        (whole(vec![other]), "no measurement \"other\""),
        (whole(vec![end()]), "records after the last one"),
        (
            whole(vec![opening(CONTRACT, 7).remove(2)]),
            "record 3 is out of order",
        ),
        (
            opening(CONTRACT, 7).split_off(1),
            "record 0 is out of order",
        ),
    ];
    for (records, words) in table {
        let gave_up = Observations::new(&plan(), &records).gave_up;
        assert!(
            gave_up.as_ref().is_some_and(|t| t.contains(words)),
            "{words}: {gave_up:?}"
        );
    }
}

#[test]
fn a_guest_may_break_off_with_an_error_at_any_place() {
    let error = Record::Error {
        stage: "plan".into(),
        message: "it is mangled".into(),
    };
    let records = [opening(CONTRACT, 7)[..2].to_vec(), vec![error, end()]].concat();
    let seen = Observations::new(&plan(), &records);
    assert_eq!(seen.gave_up.as_deref(), Some("plan: it is mangled"));
}

#[test]
fn a_scenario_that_expects_nothing_is_measured_and_never_passes() {
    let (text, _) = SCENARIO.split_once("expect:").unwrap();
    let scenario = Scenario::parse(Utf8Path::new("own/test.yaml"), text).unwrap();
    let whole = seen(vec![
        reading(Edge::Begin, &[], 2),
        reading(Edge::End, &[], 9),
    ]);
    assert_eq!(judge(&scenario, &whole, None).verdict, Verdict::Measured);
    // A run that did not end, or whose kernel is at fault, measured nothing to rely on.
    let broken_off = Observations::new(&plan(), &opening(CONTRACT, 7));
    let faulty = FaultSummary {
        certain: true,
        what: "the kernel printed: BUG: x".into(),
    };
    for judgement in [
        judge(&scenario, &broken_off, None),
        judge(&scenario, &whole, Some(faulty)),
    ] {
        assert_eq!(judgement.verdict, Verdict::Inconclusive);
        assert!(!judgement.reasons.is_empty());
    }
}
