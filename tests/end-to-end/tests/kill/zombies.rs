//! Two processes run one job.

use crate::support::data::{self, Format};
use crate::support::model::Variant;
use crate::support::site::{Site, Start};
use crate::support::victim::{End, Victim, eventually};

fn site(seed: u64) -> Site {
    let files = data::generate(seed, &[10_000, 12_000]);
    Site::new(&files, Format::Csv, Variant::Sliding)
}

fn slow(parallelism: u32) -> Start {
    Start {
        parallelism,
        batch_delay: 60,
        ..Start::default()
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
    let clear = ["was taken over", "a newer run of the job has swept it"];
    assert!(clear.iter().any(|clear| error.contains(clear)), "{error}");
}

/// What it prepared after it woke, and state that it stored, belongs to checkpoints that were never decided: it stays
/// invisible, as only a decision may end what is prepared, and goes with the next start.
fn assert_swept(site: &Site) {
    let report = site.run(&Start::default()).report();
    assert_eq!(report["end"], "AlreadyComplete");
    site.assert_exact("after a further start");
    site.assert_retention("after a further start", 3 + 4);
}

#[test]
fn a_sleeper_that_wakes_after_its_successor_is_done_changes_nothing() {
    for seed in 0..6 {
        let site = site(seed);
        let sleeper = working(&site, &slow(2));
        sleeper.signal("STOP");
        eventually("the stop", || sleeper.is_stopped());
        site.run(&Start::default()).report();
        site.assert_exact("before it wakes");
        let (before, lines) = (site.contents(), site.lines());
        sleeper.signal("CONT");
        assert_taken_over(&sleeper.wait());
        assert!(site.contents() == before, "the sleeper changed something");
        assert_swept(&site);
        assert!(site.lines() == lines, "the sweep changed something");
    }
}

#[test]
fn a_sleeper_that_wakes_while_its_successor_runs_disturbs_nothing() {
    for seed in 10..14 {
        let site = site(seed);
        let sleeper = working(&site, &slow(2));
        sleeper.signal("STOP");
        eventually("the stop", || sleeper.is_stopped());
        let successor = working(&site, &slow(1));
        sleeper.signal("CONT");
        assert_taken_over(&sleeper.wait());
        assert_eq!(successor.wait().report()["restarts"], 0);
        site.assert_exact_to_readers("two at once");
        assert_swept(&site);
    }
}

#[test]
fn of_two_that_run_the_older_stops() {
    for seed in 20..26 {
        let site = site(seed);
        let older = working(&site, &slow(2));
        let younger = site.spawn(&slow(2));
        assert_taken_over(&older.wait());
        assert_eq!(younger.wait().report()["restarts"], 0);
        site.assert_exact_to_readers("started twice");
        assert_swept(&site);
    }
}
