//! Ctrl-C.

use std::time::Duration;

use crate::support::data::{self, Format};
use crate::support::model::Variant;
use crate::support::site::{Site, Start};
use crate::support::victim::eventually;

fn site() -> Site {
    let files = data::generate(3, &[8000, 8000]);
    Site::new(&files, Format::JsonLines, Variant::Sliding)
}

#[test]
fn ctrl_c_makes_a_last_checkpoint() {
    for signal in ["INT", "TERM"] {
        let site = site();
        // No checkpoint comes by itself: the last one is the only one.
        let slow = Start {
            interval: 3_600_000,
            batch_delay: 50,
            ..Start::default()
        };
        for parallelism in [1, 2, 4] {
            let decided = site.log().decisions.len();
            let victim = site.spawn(&Start {
                parallelism,
                ..slow.clone()
            });
            eventually("records", || victim.has_reached("after abort_stale", 2));
            // Time to read something: how much is not of interest.
            std::thread::sleep(Duration::from_millis(150));
            victim.signal(signal);
            let report = victim.wait().report();
            assert_eq!(report["end"], "Stopped", "{report}");
            assert_eq!(site.log().decisions.len(), decided + 1, "{report}");
            site.assert_nothing_staged(signal);
            site.assert_nothing_doubled(signal);
        }
        assert_eq!(site.run(&Start::default()).report()["end"], "Completed");
        site.assert_exact(signal);
    }
}

#[test]
fn a_second_ctrl_c_leaves_at_once_and_loses_nothing() {
    let site = site();
    let early = site.spawn(&Start {
        batch_delay: 40,
        ..Start::default()
    });
    eventually("a commit", || early.has_reached("after confirm", 2));
    drop(early);
    // The last checkpoint would take an hour.
    let victim = site.spawn(&Start {
        batch_delay: 40,
        interval: 3_600_000,
        decision_delay: 3_600_000,
        ..Start::default()
    });
    eventually("records", || victim.has_reached("after abort_stale", 2));
    std::thread::sleep(Duration::from_millis(150));
    victim.signal("INT");
    eventually("the last decision", || {
        victim.has_reached("before decide", 1)
    });
    victim.signal("INT");
    let report = victim.wait_within(Duration::from_secs(5)).report();
    assert_eq!(report["end"], "Left");
    site.assert_nothing_doubled("left");
    assert_eq!(site.run(&Start::default()).report()["end"], "Completed");
    site.assert_exact("left");
}
