//! Checkpoints without records.

use super::cluster::Relayed;
use super::site::{LONG, Site, Start};
use super::support::data;
use super::support::model::Variant;
use super::support::victim::eventually;

#[test]
fn checkpoints_without_records_ask_nothing_of_the_broker() {
    let files = data::generate(31, &[90, 80]);
    let place = Relayed::shared().place();
    let site = Site::new(&place, "quiet", &files, Variant::Tumbling);
    // The first batch comes after four seconds.
    let victim = site.spawn(&Start {
        parallelism: 2,
        interval: 20,
        batch_delay: 4000,
        retained: 10_000,
        ..Start::default()
    });
    eventually("checkpoints", || victim.has_reached("after decide", 30));
    let known = site.transactions();
    // The names that ask the broker, at each start, whether it takes the time limit.
    let starts = known
        .iter()
        .filter(|one| one.transactional_id.ends_with(".start"));
    assert_eq!(starts.count(), known.len(), "{known:#?}");
    let named: Vec<String> = site.log().decisions.into_values().flatten().collect();
    assert!(named.is_empty(), "{named:?}");
    victim.wait_within(LONG).report();
    site.assert_exact("after a long silence");
}
