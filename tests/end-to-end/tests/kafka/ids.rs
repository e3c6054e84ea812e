//! How many transactional ids a job takes.

use std::collections::BTreeMap;

use super::cluster::Relayed;
use super::site::{Site, Start};
use super::support::data;
use super::support::model::Variant;

/// For the transaction that is written, those whose commits are under way, and the one that is warmed up.
const IDS_OF_A_SUBTASK: usize = 4;

/// Checkpoints with transactions that a job has to make to show it.
const WANTED: usize = 200;

#[test]
fn hundreds_of_checkpoints_take_a_few_transactional_ids() {
    // A busy machine makes fewer checkpoints of the same input; then it comes slower.
    let enough = (1..=3).any(|slowness| hundreds_of_checkpoints(slowness) >= WANTED);
    assert!(enough, "too few checkpoints wrote");
}

/// How many checkpoints wrote something.
fn hundreds_of_checkpoints(slowness: u64) -> usize {
    let files = data::generate(41, &[8000, 8000, 8000, 8000]);
    let place = Relayed::shared().place();
    let site = Site::new(&place, "ids", &files, Variant::Tumbling);
    let start = Start {
        parallelism: 2,
        interval: 20,
        batch_delay: 100 * slowness,
        retained: 10_000,
        ..Start::default()
    };
    // Two epochs.
    let first = start.clone().crash_at("after:commit:30");
    let end = site.run(&first);
    assert!(end.was_aborted(), "{end:#?}");
    let end = site.run(&Start {
        parallelism: 1,
        ..start
    });
    let report = end.report();
    let decisions = site.log().decisions;
    let wrote = decisions.values().filter(|named| !named.is_empty()).count();
    let mut ids: BTreeMap<String, usize> = BTreeMap::new();
    for one in site.transactions() {
        if let Some((subtask, slot)) = one.transactional_id.rsplit_once('.')
            && slot != "start"
        {
            *ids.entry(subtask.to_owned()).or_default() += 1;
        }
    }
    println!("{} checkpoints, {wrote} wrote: {ids:?}", decisions.len());
    assert!(ids.len() >= 4, "{ids:?}: {report}");
    for (subtask, count) in ids {
        assert!(count <= IDS_OF_A_SUBTASK, "{subtask}: {count}");
    }
    site.assert_exact("hundreds of checkpoints");
    wrote
}
