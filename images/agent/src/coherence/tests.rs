//! Each mistake in a plan has its own words.

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

fn lane(task: Option<&str>, commands: Vec<Command>) -> Lane {
    Lane {
        task: task.map(Into::into),
        commands,
    }
}

fn plan(lanes: Vec<Lane>) -> Plan {
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
            lanes,
        }],
    }
}

#[track_caller]
fn refused(plan: &Plan, words: &str) {
    assert_eq!(check(plan).unwrap_err().to_string(), words);
}

#[test]
fn a_sound_plan_is_taken() {
    let sound = plan(vec![
        lane(None, vec![Command::Sleep { ms: 1 }]),
        lane(
            Some("a"),
            vec![
                Command::Map(region(4096, 2, 4096, PageKind::Base)),
                Command::Exit { status: 0 },
            ],
        ),
    ]);
    assert_eq!(check(&sound), Ok(()));
}

#[test]
fn lanes_name_tasks_that_exist_and_only_once() {
    refused(
        &plan(vec![lane(Some("b"), vec![])]),
        "step 0 names the task \"b\", which the plan does not have",
    );
    refused(
        &plan(vec![lane(Some("a"), vec![]), lane(Some("a"), vec![])]),
        "step 0 has two lanes for the task \"a\" that would run side by side",
    );
}

#[test]
fn commands_are_given_to_those_who_can() {
    let probe = Command::Probe { region: "r".into() };
    refused(
        &plan(vec![lane(None, vec![probe])]),
        "step 0 gives the agent a command that is not one of its own",
    );
    let set = Command::Set(Setting {
        knob: Knob::ScanDelayMs,
        value: 1,
    });
    refused(
        &plan(vec![lane(Some("a"), vec![set])]),
        "step 0 gives the task \"a\" a command that is not one of its own",
    );
}

#[test]
fn nothing_follows_an_exit() {
    let commands = vec![Command::Exit { status: 0 }, Command::Sleep { ms: 1 }];
    refused(
        &plan(vec![lane(Some("a"), commands)]),
        "step 0 gives the task \"a\" commands after its exit",
    );
}

#[test]
fn regions_are_whole_pages_and_do_not_merge() {
    let map = |region| plan(vec![lane(Some("a"), vec![Command::Map(region)])]);
    refused(
        &map(region(4095, 1, 0, PageKind::Base)),
        "step 0 maps \"r\" with a size, which is not a positive multiple of 4096 bytes",
    );
    refused(
        &map(region(4096, 1, 0, PageKind::TransparentHuge)),
        "step 0 maps \"r\" with a size, which is not a positive multiple of 2097152 bytes",
    );
    refused(
        &map(region(4096, 2, 0, PageKind::Base)),
        "step 0 maps \"r\" with a gap, which is not a positive multiple of 4096 bytes",
    );
    const HUGE: u64 = 2 << 20;
    refused(
        &map(region(HUGE, 2, 4096, PageKind::TransparentHuge)),
        "step 0 maps \"r\" with a gap, which is not a positive multiple of 2097152 bytes",
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
        assert_eq!(
            check(&with(&[path])),
            Err(PlanError::CgroupPath { path: path.into() })
        );
    }
    for paths in [&["a/b"][..], &["a", "a"]] {
        assert!(matches!(
            check(&with(paths)),
            Err(PlanError::CgroupOrder { .. })
        ));
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
        "the task \"a\" has 0 threads; 1 to 4096 are possible",
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
            &format!("{event:?} is no trace event such as sched:sched_move_numa"),
        );
    }
}
