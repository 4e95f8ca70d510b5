//! Times and counts of lanes; their course is seen in guests.

use super::*;

#[test]
fn placements_have_a_count_for_each_node() {
    assert_eq!(by_node(3, &[(1, 7)]), [0, 7, 0]);
    assert_eq!(by_node(1, &[(0, 1), (2, 5)]), [1, 0, 5]);
    assert_eq!(by_node(2, &[]), [0, 0]);
}

#[test]
fn a_wait_has_the_time_that_it_is_told_and_more() {
    let touch = |until| Command::Touch {
        region: "r".into(),
        until,
    };
    assert_eq!(told_ns(&touch(Until::Elapsed { ms: 3000 })), 3000 * MS);
    assert_eq!(told_ns(&touch(Until::Passes { count: 9 })), 0);
    let seq = Until::ScanSeq {
        at_least: 4,
        within_ms: 50,
    };
    assert_eq!(told_ns(&touch(seq)), 50 * MS);
    assert_eq!(told_ns(&Command::Sleep { ms: u64::MAX }), u64::MAX);
}

fn lane(task: Option<&str>) -> Lane {
    Lane {
        task: task.map(Into::into),
        commands: vec![Command::Sleep { ms: 1 }],
    }
}

#[test]
fn the_earliest_moment_wakes_the_agent() {
    let (agent, task) = (lane(None), lane(Some("a")));
    let progress = |lane, wait| Progress {
        lane,
        next: 1,
        wait,
    };
    let all = [
        progress(&agent, Wait::Time { until_ns: 30 }),
        progress(
            &task,
            Wait::Answer {
                to: &task.commands[0],
                until_ns: 20,
            },
        ),
        progress(&agent, Wait::Over),
    ];
    assert_eq!(earliest(&all), 20);
}

#[test]
fn a_sleep_ends_and_an_answer_that_stays_out_is_an_error() {
    let (agent, task) = (lane(None), lane(Some("a")));
    let mut sleeping = Progress {
        lane: &agent,
        next: 1,
        wait: Wait::Time { until_ns: 30 },
    };
    sleeping.check_time(29).unwrap();
    assert_eq!(sleeping.wait, Wait::Time { until_ns: 30 });
    sleeping.check_time(30).unwrap();
    assert_eq!(sleeping.wait, Wait::Due);
    let mut waiting = Progress {
        lane: &task,
        next: 1,
        wait: Wait::Answer {
            to: &task.commands[0],
            until_ns: 20,
        },
    };
    assert_eq!(
        waiting.check_time(21).unwrap_err().to_string(),
        "the task \"a\" has not answered to sleep within 3600 s of guest time"
    );
}
