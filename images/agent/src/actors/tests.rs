//! Times and counts of actors. Whole steps are tested in guests.

use super::*;

#[test]
fn placements_have_a_count_for_each_node() {
    assert_eq!(by_node(3, &[(1, 7)]), [0, 7, 0]);
    assert_eq!(by_node(1, &[(0, 1), (2, 5)]), [1, 0, 5]);
    assert_eq!(by_node(2, &[]), [0, 0]);
}

#[test]
fn commands_have_their_own_duration() {
    let touch = |until| Command::Touch {
        region: "r".into(),
        until,
    };
    assert_eq!(duration_ns(&touch(Until::Elapsed { ms: 3000 })), 3000 * MS);
    assert_eq!(duration_ns(&touch(Until::Passes { count: 9 })), 0);
    let seq = Until::ScanSeq {
        at_least: 4,
        within_ms: 50,
    };
    assert_eq!(duration_ns(&touch(seq)), 50 * MS);
    assert_eq!(duration_ns(&Command::Sleep { ms: u64::MAX }), u64::MAX);
}

fn actor(task: Option<&str>) -> Actor {
    Actor {
        task: task.map(Into::into),
        commands: vec![Command::Sleep { ms: 1 }],
    }
}

#[test]
fn the_earliest_moment_wakes_the_agent() {
    let (agent, task) = (actor(None), actor(Some("a")));
    let progress = |actor, wait| Progress {
        actor,
        next: 1,
        wait,
    };
    let all = [
        progress(&agent, Wait::Sleep { until_ns: 30 }),
        progress(
            &task,
            Wait::Reply {
                to: &task.commands[0],
                until_ns: 20,
            },
        ),
        progress(&agent, Wait::Finished),
    ];
    assert_eq!(earliest(&all), 20);
}

#[test]
fn a_sleep_ends_and_a_missing_reply_is_an_error() {
    let (agent, task) = (actor(None), actor(Some("a")));
    let mut sleeping = Progress {
        actor: &agent,
        next: 1,
        wait: Wait::Sleep { until_ns: 30 },
    };
    sleeping.check_time(29).unwrap();
    assert_eq!(sleeping.wait, Wait::Sleep { until_ns: 30 });
    sleeping.check_time(30).unwrap();
    assert_eq!(sleeping.wait, Wait::Ready);
    let mut waiting = Progress {
        actor: &task,
        next: 1,
        wait: Wait::Reply {
            to: &task.commands[0],
            until_ns: 20,
        },
    };
    assert_eq!(
        waiting.check_time(21).unwrap_err().to_string(),
        "the task \"a\" was asked to sleep, and has not replied within 3600 s of guest time"
    );
}
