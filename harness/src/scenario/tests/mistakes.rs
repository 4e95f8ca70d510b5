//! Mistakes in a scenario, the words that name them, and their places.

use super::{GOOD, parse, problems, shown};

/// A part of the good text, what replaces it, and the problem that this makes.
const MISTAKES: [(&str, &str, &str); 23] = [
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

#[test]
fn each_mistake_is_reported_where_it_stands() {
    let wrong = MISTAKES.into_iter().filter_map(|(from, to, expected)| {
        let found = problems(from, to);
        let as_expected = found.contains(expected);
        (!as_expected).then(|| format!("{from:?} -> {to:?}:\n{found}\nexpected: {expected}\n"))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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
