//! Time limits runner in the right order: ours, then the test runner's.

use std::path::Path;
use std::time::Duration;

use numalab::guest::deadline::{Deadlines, GuestStage};

/// What nextest allows for a test before it ends it: `slow-timeout`, period times count.
fn allowed(settings: &toml::Value) -> Duration {
    let timeout = &settings["slow-timeout"];
    let period = timeout["period"]
        .as_str()
        .unwrap()
        .strip_suffix('s')
        .unwrap();
    let count = timeout["terminate-after"].as_integer().unwrap();
    Duration::from_secs(period.parse::<u64>().unwrap() * u64::try_from(count).unwrap())
}

#[test]
fn every_deadline_of_ours_comes_before_the_test_runner_s() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let text = std::fs::read_to_string(root.join(".config/nextest.toml")).unwrap();
    let config: toml::Value = text.parse::<toml::Table>().unwrap().into();
    let overrides = config["profile"]["default"]["overrides"]
        .as_array()
        .unwrap();
    let guests = overrides
        .iter()
        .filter(|rule| rule["filter"].as_str().unwrap().contains("numalab-suites"));
    let mut rules = 0;
    for rule in guests {
        rules += 1;
        let stages = [
            GuestStage::Boot,
            GuestStage::Window,
            GuestStage::Plan,
            GuestStage::Step(0),
            GuestStage::PowerOff,
        ];
        for stage in stages {
            let limit = Deadlines::STANDARD.of(stage);
            assert!(limit.silent <= limit.total, "{stage}");
            assert!(
                limit.wall < allowed(rule),
                "{stage}: {:?} of {:?}",
                limit.wall,
                allowed(rule)
            );
        }
    }
    assert_eq!(
        rules, 3,
        "one rule for exact guests, one for live ones, one for bisecting"
    );
}
