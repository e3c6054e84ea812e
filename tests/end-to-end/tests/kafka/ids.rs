//! How many transactional ids a job takes.

use std::collections::BTreeMap;

use super::cluster::Relayed;
use super::site::{Site, Start};
use super::support::data;
use super::support::model::Variant;

/// For the transaction that is written, those whose commits are under way, and the one that is warmed up.
const IDS_OF_A_SUBTASK: usize = 4;

#[test]
fn hundreds_of_checkpoints_take_a_few_transactional_ids() {
    let files = data::generate(41, &[14_000, 14_000]);
    let place = Relayed::shared().place();
    let site = Site::new(&place, "ids", &files, Variant::Tumbling);
    let mut decided = 0;
    // Ended in the middle once, so that there are two epochs.
    let first = Start {
        parallelism: 2,
        interval: 20,
        batch_delay: 60,
        retained: 10_000,
        ..Start::default()
    };
    for start in [first.clone().crash_at("after:decide:120"), first] {
        let end = site.run(&start);
        assert!(
            end.was_aborted() || end.status.success(),
            "{:#?}",
            end.stderr
        );
        decided += end
            .trace
            .lines()
            .filter(|line| *line == "after decide")
            .count();
    }
    let used: usize = site
        .log()
        .decisions
        .into_values()
        .filter(|named| !named.is_empty())
        .count();
    let mut ids: BTreeMap<String, usize> = BTreeMap::new();
    for one in site.transactions() {
        if let Some((subtask, slot)) = one.transactional_id.rsplit_once('.')
            && slot != "start"
        {
            *ids.entry(subtask.to_owned()).or_default() += 1;
        }
    }
    println!("{decided} checkpoints, {used} with transactions: {ids:?}");
    assert!(used >= 200, "{used} of {decided} checkpoints wrote");
    assert!(ids.len() >= 6, "{ids:?}");
    for (subtask, count) in ids {
        assert!(count <= IDS_OF_A_SUBTASK, "{subtask}: {count}");
    }
    site.assert_exact("hundreds of checkpoints");
}
