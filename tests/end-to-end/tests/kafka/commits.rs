//! Commits that the broker does not hear of, whose answers are lost, or that have to wait.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use super::cluster::Relayed;
use super::relay::Catch;
use super::site::{Site, Start};
use super::support::data;
use super::support::model::Variant;
use super::support::victim::eventually;

fn site(name: &str) -> (&'static Relayed, Site) {
    let relayed = Relayed::shared();
    let files = data::generate(11, &[5000, 4000, 5000]);
    let site = Site::new(&relayed.through_relay(), name, &files, Variant::Sliding);
    (relayed, site)
}

#[test]
fn a_process_is_killed_between_the_decision_and_the_commit() {
    for (catch, parallelism) in [(Catch::Request, 2), (Catch::Answer, 1)] {
        let (relayed, site) = site("commit");
        for kill in 1..=3 {
            let what = format!("{catch:?} of the commit, kill {kill}");
            let trap = relayed.relay.hold(&site.job, catch, 1);
            let mut victim = site.spawn(&Start {
                parallelism,
                ..Start::slow()
            });
            eventually("a commit", || trap.caught() == 1);
            victim.kill();
            assert!(victim.wait().was_killed());
            trap.release();
            assert!(!site.log().decisions.is_empty(), "{what}");
            if catch == Catch::Request {
                assert!(!site.ongoing().is_empty(), "{what}: it is committed");
            }
            site.assert_nothing_doubled(&what);
        }
        site.complete(2);
        site.assert_exact("killed before the commit");
    }
}

#[test]
fn requests_to_commit_and_their_answers_are_lost() {
    for catch in [Catch::Request, Catch::Answer] {
        let (relayed, site) = site("lost");
        let trap = relayed.relay.lose(&site.job, catch, 12);
        let report = site
            .run(&Start {
                parallelism: 2,
                ..Start::slow()
            })
            .report();
        assert_eq!(trap.caught(), 12, "{catch:?}");
        assert_eq!(report["restarts"], 0, "{catch:?}: {report}");
        site.assert_exact(&format!("each {catch:?} lost"));
    }
}

/// While the broker hears of no commit, checkpoints go on: their transactions wait for it, oldest first.
#[test]
fn commits_of_several_checkpoints_that_wait_are_done_in_order_by_the_next_process() {
    let (relayed, site) = site("waiting");
    let trap = relayed.relay.hold(&site.job, Catch::Request, u32::MAX);
    let mut victim = site.spawn(&Start {
        parallelism: 2,
        ..Start::slow()
    });
    let waits = |pending: &Pending| pending.values().any(|waiting| waiting.len() >= 2);
    eventually("two checkpoints that wait", || waits(&pending(&site)));
    victim.kill();
    assert!(victim.wait().was_killed());
    trap.release();
    let (pending, before) = (pending(&site), relayed.relay.ends(&site.job));
    assert!(before.is_empty(), "some were committed: {before:?}");
    println!("they wait: {pending:?}");
    assert!(site.lines().results.is_empty(), "it is visible");

    site.complete(1);
    site.assert_exact("commits that waited");
    let ends = relayed.relay.ends(&site.job);
    for (subtask, waiting) in pending {
        let position = |id: &String| ends.iter().position(|end| end == id);
        let order: Vec<_> = waiting.values().map(position).collect();
        assert!(order.iter().all(Option::is_some), "{subtask}: {order:?}");
        assert!(order.is_sorted(), "{subtask}: {waiting:?} in {ends:?}");
    }
}

/// The transactional ids that the newest decision names, of each subtask, by checkpoint.
type Pending = BTreeMap<String, BTreeMap<u64, String>>;

fn pending(site: &Site) -> Pending {
    let mut pending = Pending::new();
    let text = site.log().records.pop().map(fs::read_to_string);
    let Some(Ok(text)) = text else {
        return pending;
    };
    let (_, content) = text.split_once('\n').expect("a header");
    let record: Value = serde_json::from_str(content).expect("JSON");
    let named = record["manifest"]["transactions"].as_array();
    for transaction in named.into_iter().flatten() {
        let id = transaction["id"].as_str().expect("an id");
        let (subtask, checkpoint) = id.rsplit_once('/').expect("a checkpoint");
        let (_, handle) = transaction["handle"]
            .as_str()
            .and_then(|handle| handle.split_once('\n'))
            .expect("a handle");
        let handle: Value = serde_json::from_str(handle).expect("JSON");
        let transactional_id = handle["transactional_id"].as_str().expect("an id");
        pending.entry(subtask.to_owned()).or_default().insert(
            checkpoint.parse().expect("a number"),
            transactional_id.to_owned(),
        );
    }
    pending
}
