//! A job comes back with another parallelism, and transactions of subtasks that are no more are there.

use std::collections::BTreeSet;

use super::cluster::Relayed;
use super::site::{Site, Start};
use super::support::data;
use super::support::model::Variant;

#[test]
fn what_subtasks_left_that_are_no_more_is_settled_at_the_start() {
    // Undecided: to be aborted. Decided: to be committed.
    for (point, parallelism) in [
        ("before:decide:5", 1),
        ("before:commit:4", 1),
        ("before:decide:5", 8),
    ] {
        let files = data::generate(51, &[4000, 4000, 4000, 4000]);
        let place = Relayed::shared().place();
        let site = Site::new(&place, "rescale", &files, Variant::Tumbling);
        let wide = Start {
            parallelism: 4,
            batch_delay: 150,
            ..Start::slow()
        };
        let end = site.run(&wide.crash_at(point));
        assert!(end.was_aborted(), "{end:#?}");
        let left = site.ongoing();
        let subtask = |id: &str| id.rsplit('.').nth(1).expect("a subtask").to_owned();
        let subtasks: BTreeSet<String> = left
            .iter()
            .map(|one| subtask(&one.transactional_id))
            .collect();
        assert!(subtasks.len() > 1, "{point}: only {subtasks:?}: {left:?}");
        let high = site.high_watermarks();

        // The next start begins nothing.
        let next = Start {
            parallelism,
            ..Start::slow()
        };
        assert!(site.run(&next.crash_at("before:begin:1")).was_aborted());
        let left = site.ongoing();
        assert!(left.is_empty(), "{point}: {left:?}");
        assert_eq!(site.last_stable_offsets(), site.high_watermarks());
        assert!(high.iter().sum::<i64>() > 0);
        site.complete(parallelism);
        site.assert_exact(point);
    }
}
