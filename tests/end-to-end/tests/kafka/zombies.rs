//! Two processes run one job.

use super::cluster::Relayed;
use super::site::{LONG, Site, Start};
use super::support::data;
use super::support::model::Variant;
use super::support::victim::{End, Victim, eventually};

fn site(seed: u64) -> Site {
    let files = data::generate(seed, &[5000, 6000]);
    let place = Relayed::shared().place();
    Site::new(&place, "zombie", &files, Variant::Sliding)
}

fn slow(parallelism: u32) -> Start {
    Start {
        parallelism,
        ..Start::slow()
    }
}

/// Runs it until it has committed something.
fn working(site: &Site, start: &Start) -> Victim {
    let mut victim = site.spawn(start);
    eventually("a commit", || victim.has_reached("after confirm", 2));
    assert!(victim.is_running());
    victim
}

fn assert_taken_over(end: &End) {
    let error = end.error();
    // The log tells it, or the sink, whichever it asks first.
    let clear = ["was taken over", "took the transactional id over"];
    assert!(clear.iter().any(|clear| error.contains(clear)), "{error}");
    // To start again would be to take the job back.
    assert!(!end.stderr.contains("it starts again"), "{}", end.stderr);
}

/// What it left open or prepared after it woke stays invisible, and goes with the next start.
fn assert_swept(site: &Site) {
    let report = site.complete(1);
    assert_eq!(report["end"], "AlreadyComplete");
    site.assert_exact("after a further start");
}

#[test]
fn a_sleeper_that_wakes_after_its_successor_is_done_changes_nothing() {
    let mut left = 0;
    for seed in 0..3 {
        let site = site(seed);
        let sleeper = working(&site, &slow(2));
        sleeper.signal("STOP");
        eventually("the stop", || sleeper.is_stopped());
        site.complete(2);
        site.assert_exact("before it wakes");
        let lines = site.lines();
        sleeper.signal("CONT");
        assert_taken_over(&sleeper.wait_within(LONG));
        assert_eq!(site.lines(), lines, "the sleeper changed something");
        left += site.ongoing().len();
        assert_swept(&site);
    }
    println!("sleepers left {left} transactions to the next start");
}

#[test]
fn a_sleeper_that_wakes_while_its_successor_runs_disturbs_nothing() {
    for seed in 10..12 {
        let site = site(seed);
        let sleeper = working(&site, &slow(2));
        sleeper.signal("STOP");
        eventually("the stop", || sleeper.is_stopped());
        let successor = working(&site, &slow(1));
        sleeper.signal("CONT");
        assert_taken_over(&sleeper.wait_within(LONG));
        assert_eq!(successor.wait_within(LONG).report()["restarts"], 0);
        assert_swept(&site);
    }
}

#[test]
fn of_two_that_run_the_older_stops() {
    for seed in 20..22 {
        let site = site(seed);
        let older = working(&site, &slow(2));
        let younger = site.spawn(&slow(2));
        assert_taken_over(&older.wait_within(LONG));
        assert_eq!(younger.wait_within(LONG).report()["restarts"], 0);
        assert_swept(&site);
    }
}
