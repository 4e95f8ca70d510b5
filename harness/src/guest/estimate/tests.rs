//! A step's limits follow what it asks for.

use numalab_protocol::plan::{
    Access, CgroupVersion, Node, PageKind, Sharing, Step, Task, Topology,
};

use super::*;

fn plan(steps: Vec<Step>) -> Plan {
    let node = Node {
        cpus: vec![0, 1],
        memory_kib: 256 * 1024,
        distances: vec![10],
    };
    let task = Task {
        cpus: vec![],
        cgroup: None,
        threads: 1,
        policy: None,
    };
    Plan {
        watch: numalab_protocol::plan::Watch::default(),
        contract: numalab_protocol::CONTRACT,
        seed: 1,
        topology: Topology { nodes: vec![node] },
        cgroup_version: CgroupVersion::V2,
        settings: vec![],
        cgroups: vec![],
        tasks: [("a".to_owned(), task.clone()), ("b".to_owned(), task)].into(),
        steps,
    }
}

fn lane(task: &str, commands: Vec<Command>) -> Actor {
    Actor {
        task: Some(task.into()),
        commands,
    }
}

fn step(prepare: Vec<Actor>, lanes: Vec<Actor>) -> Step {
    Step {
        measure: None,
        prepare,
        actors: lanes,
    }
}

fn sleep(seconds: u64) -> Command {
    let ms = seconds.saturating_mul(1000);
    Command::Sleep { ms }
}

fn touch(until: Until) -> Command {
    let region = "r".into();
    Command::Touch { region, until }
}

fn map(populate: Populate) -> Command {
    Command::Map(Region {
        name: "r".into(),
        size: 4096 * 1000,
        count: 10,
        gap: 4096,
        pages: PageKind::Base,
        sharing: Sharing::Private,
        access: Access::ReadWrite,
        populate,
    })
}

/// Seconds of CPU time that a step gets beyond the standard, of which there is as much in
/// silence as in all.
fn more(plan: &Plan, shift: Option<u8>) -> f64 {
    let (made, standard) = (Deadlines::for_plan(plan, shift), Deadlines::STANDARD);
    assert_eq!(
        Deadlines {
            step: standard.step,
            ..made
        },
        standard
    );
    let more = made.step.silent - standard.step.silent;
    assert_eq!(more, made.step.total - standard.step.total);
    more.as_secs_f64()
}

#[test]
fn an_idle_plan_has_the_standard_limits() {
    let idle = plan(vec![step(vec![], vec![lane("a", vec![])])]);
    for shift in [None, Some(0), Some(10)] {
        assert_eq!(Deadlines::for_plan(&idle, shift), Deadlines::STANDARD);
    }
}

#[test]
fn a_step_s_guest_time_is_that_of_its_longest_lanes() {
    let elapsed = touch(Until::Elapsed { ms: 5000 });
    let scan = touch(Until::ScanSeq {
        at_least: 3,
        within_ms: 4000,
    });
    let asked = plan(vec![
        step(
            vec![lane("a", vec![sleep(1)])],
            vec![
                lane("a", vec![elapsed, sleep(1), scan]),
                lane("b", vec![sleep(9)]),
            ],
        ),
        step(vec![], vec![lane("a", vec![sleep(8)])]),
    ]);
    // 1 s, and then 10 s in the longer lane.
    assert_eq!(more(&asked, Some(0)), 4.0 * 20.0 * 11.0);
    assert_eq!(more(&asked, Some(3)), 4.0 * 2.5 * 11.0);
    // Two CPUs, and everything else.
    assert_eq!(more(&asked, None), 4.0 * 3.0 * 11.0);
}

#[test]
fn a_large_shift_leaves_the_timer_ticks() {
    let asked = plan(vec![step(vec![], vec![lane("a", vec![sleep(10)])])]);
    let least = 4.0 * 10.0 * TICKS.as_secs_f64();
    for shift in [6, 10, 200] {
        assert_eq!(more(&asked, Some(shift)), least);
    }
}

#[test]
fn what_is_asked_for_by_number_costs_its_pages() {
    let passes = touch(Until::Passes { count: 1000 });
    let asked = |commands: Vec<Command>| {
        let lanes = vec![lane("a", commands.clone()), lane("b", commands)];
        plan(vec![step(vec![], lanes)])
    };
    // 10,000 pages in each of two actors, which one thread executes.
    let passes = asked(vec![map(Populate::No), passes]);
    assert_eq!(more(&passes, Some(5)), 4.0 * 2.0 * 50.0);
    let region = || "r".into();
    let faults = asked(vec![
        map(Populate::Yes),
        Command::Probe { region: region() },
        Command::Placement { region: region() },
    ]);
    assert_eq!(more(&faults, Some(5)), 4.0 * 2.0 * 3.0);
}

#[test]
fn wall_time_stays_below_the_test_runner_s_unless_the_plan_asks_for_more() {
    let wall = |seconds, shift| {
        let asked = plan(vec![step(vec![], vec![lane("a", vec![sleep(seconds)])])]);
        Deadlines::for_plan(&asked, shift).step.wall.as_secs()
    };
    assert_eq!(wall(1, Some(0)), 600);
    assert_eq!(wall(10, Some(0)), 800);
    assert_eq!(wall(21, Some(0)), 840);
    assert_eq!(wall(60, Some(0)), 2400);
    // In live mode guest time is wall time.
    assert_eq!(wall(100, None), 600);
    assert_eq!(wall(3600, None), 7200);
}

#[test]
fn no_plan_is_too_long_to_be_reckoned() {
    let forever = vec![
        map(Populate::Yes),
        sleep(u64::MAX),
        touch(Until::Passes { count: u64::MAX }),
        touch(Until::Elapsed { ms: u64::MAX }),
    ];
    let asked = plan(vec![step(
        vec![lane("a", forever.clone())],
        vec![lane("a", forever)],
    )]);
    for shift in [None, Some(0), Some(255)] {
        let made = Deadlines::for_plan(&asked, shift).step;
        assert!(made.wall > Duration::from_secs(1 << 40), "{made:?}");
        assert!(made.silent <= made.total);
    }
}
