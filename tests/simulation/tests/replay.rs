//! The same schedule gives the same log: what a schedule finds can be found again.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

use cofferdam_simulation::{Schedule, draw, simulate};

#[test]
fn a_schedule_run_twice_gives_the_same_log() {
    for seed in 0..400 {
        let schedule = draw(seed, None);
        let (first, second) = (simulate(&schedule), simulate(&schedule));
        let differ = first
            .log
            .iter()
            .zip(&second.log)
            .find(|(first, second)| first != second);
        assert_eq!(differ, None, "seed {seed}");
        assert_eq!(first, second, "seed {seed}");
        assert!(!first.log.is_empty());
    }
}

#[test]
fn schedules_differ() {
    let logs: Vec<_> = (0..400)
        .map(|seed| simulate(&draw(seed, None)).log)
        .collect();
    for (seed, log) in logs.iter().enumerate() {
        assert!(!logs[..seed].contains(log), "seed {seed}");
    }
}

#[test]
fn a_schedule_means_the_same_as_text() {
    for seed in 0..400 {
        let schedule = draw(seed, None);
        assert_eq!(Schedule::parse(&schedule.text()).unwrap(), schedule);
    }
    let text = draw(0, None).text();
    assert!(Schedule::parse(&text.replace("\"splits\"", "\"slits\"")).is_err());
}
