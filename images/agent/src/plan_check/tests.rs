//! Each mistake in a plan has its own message.

use numalab_protocol::plan::*;

use super::*;

fn region(size: u64, count: u32, gap: u64, pages: PageKind) -> Region {
    Region {
        name: "r".into(),
        size,
        count,
        gap,
        pages,
        sharing: Sharing::Private,
        access: Access::ReadWrite,
        populate: Populate::Yes,
    }
}

fn actor(task: Option<&str>, commands: Vec<Command>) -> Actor {
    Actor {
        task: task.map(Into::into),
        commands,
    }
}

fn plan(actors: Vec<Actor>) -> Plan {
    let task = Task {
        cpus: vec![],
        cgroup: None,
        threads: 1,
        policy: None,
    };
    Plan {
        watch: Watch::default(),
        contract: numalab_protocol::CONTRACT,
        seed: 1,
        topology: Topology { nodes: vec![] },
        cgroup_version: CgroupVersion::V2,
        settings: vec![],
        cgroups: vec![],
        tasks: [("a".to_owned(), task)].into(),
        steps: vec![Step {
            measure: None,
            prepare: vec![],
            actors,
        }],
    }
}

#[track_caller]
fn refused(plan: &Plan, words: &str) {
    assert_eq!(check(plan).unwrap_err().to_string(), words);
}

#[test]
fn a_consistent_plan_is_accepted() {
    let consistent = plan(vec![
        actor(None, vec![Command::Sleep { ms: 1 }]),
        actor(
            Some("a"),
            vec![
                Command::Map(region(4096, 2, 4096, PageKind::Base)),
                Command::Exit { status: 0 },
            ],
        ),
    ]);
    assert_eq!(check(&consistent), Ok(()));
}

#[test]
fn lanes_name_tasks_that_exist_and_only_once() {
    refused(
        &plan(vec![actor(Some("b"), vec![])]),
        "step 0 names the task \"b\", which the plan does not have",
    );
    refused(
        &plan(vec![actor(Some("a"), vec![]), actor(Some("a"), vec![])]),
        "step 0 names the task \"a\" twice",
    );
}

#[test]
fn actors_get_commands_that_they_can_execute() {
    let probe = Command::Probe { region: "r".into() };
    refused(
        &plan(vec![actor(None, vec![probe])]),
        "step 0 gives the agent a command that it cannot execute",
    );
    let set = Command::Set(Setting {
        tunable: Tunable::ScanDelayMs,
        value: 1,
    });
    refused(
        &plan(vec![actor(Some("a"), vec![set])]),
        "step 0 gives the task \"a\" a command that it cannot execute",
    );
}

#[test]
fn nothing_follows_an_exit() {
    let commands = vec![Command::Exit { status: 0 }, Command::Sleep { ms: 1 }];
    refused(
        &plan(vec![actor(Some("a"), commands)]),
        "step 0 gives the task \"a\" commands after its exit",
    );
}

#[test]
fn regions_are_whole_pages_and_do_not_merge() {
    let map = |region| plan(vec![actor(Some("a"), vec![Command::Map(region)])]);
    refused(
        &map(region(4095, 1, 0, PageKind::Base)),
        "step 0 maps \"r\" with size 4095, not a positive multiple of 4096",
    );
    refused(
        &map(region(4096, 1, 0, PageKind::TransparentHuge)),
        "step 0 maps \"r\" with size 4096, not a positive multiple of 2097152",
    );
    refused(
        &map(region(4096, 2, 0, PageKind::Base)),
        "step 0 maps \"r\" with gap 0, not a positive multiple of 4096",
    );
    const HUGE: u64 = 2 << 20;
    refused(
        &map(region(HUGE, 2, 4096, PageKind::TransparentHuge)),
        "step 0 maps \"r\" with gap 4096, not a positive multiple of 2097152",
    );
    for pages in [PageKind::TransparentHuge, PageKind::Hugetlb] {
        assert_eq!(check(&map(region(HUGE, 1, 4096, pages))), Ok(()));
        assert_eq!(check(&map(region(HUGE, 2, HUGE, pages))), Ok(()));
    }
    refused(
        &map(region(4096, 0, 0, PageKind::Base)),
        "step 0 maps \"r\" without any VMA",
    );
}

#[test]
fn cgroups_have_plain_paths_and_parents() {
    let with = |paths: &[&str]| {
        let mut plan = plan(vec![]);
        plan.cgroups = paths
            .iter()
            .map(|path| Cgroup {
                path: (*path).into(),
                mems: None,
                cpus: None,
            })
            .collect();
        plan
    };
    assert_eq!(check(&with(&["a", "a/b"])), Ok(()));
    for path in ["", "/a", "a/", "../a", "cgroup.procs"] {
        refused(
            &with(&[path]),
            &format!("{path:?} is not a path of a control group"),
        );
    }
    for paths in [&["a/b"][..], &["a", "a"]] {
        let last = paths[paths.len() - 1];
        refused(
            &with(paths),
            &format!("the control group {last:?} is made before its parent, or twice"),
        );
    }
    let mut odd = with(&["a"]);
    odd.cgroups[0].mems = Some("zero".into());
    refused(
        &odd,
        "the control group \"a\" has \"zero\" in its cpuset, which is not a list",
    );
}

#[test]
fn tasks_have_threads_and_a_cgroup_that_is_made() {
    let with = |threads, cgroup: Option<&str>| {
        let mut plan = plan(vec![]);
        let task = plan.tasks.get_mut("a").unwrap();
        task.threads = threads;
        task.cgroup = cgroup.map(Into::into);
        plan
    };
    refused(
        &with(0, None),
        "the task \"a\" has 0 threads; it must have 1 to 4096",
    );
    refused(
        &with(1, Some("x")),
        "the task \"a\" is in the control group \"x\", which the plan does not make",
    );
}

#[test]
fn an_event_that_would_be_another_path_is_refused() {
    let mut plan = plan(vec![]);
    plan.watch.events = vec!["sched:sched_move_numa".into()];
    assert_eq!(check(&plan), Ok(()));
    for event in [
        "sched",
        "sched:",
        ":x",
        "../sched:x",
        "sched:x/../y",
        "a:b:c",
    ] {
        plan.watch.events = vec![event.into()];
        refused(
            &plan,
            &format!("{event:?} is not a trace event such as sched:sched_move_numa"),
        );
    }
}
