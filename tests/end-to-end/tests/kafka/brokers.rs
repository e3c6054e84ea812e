//! Brokers die between pre-commit and commit.

use std::fs;
use std::time::Duration;

use cofferdam_services::Kafka;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use super::cluster::Place;
use super::site::{LONG, Site, Start};
use super::support::data;
use super::support::model::Variant;
use super::support::victim::{Victim, eventually};

/// The internal topic that transactions are kept in; whoever leads a partition of it coordinates its ids.
const TRANSACTION_STATE: &str = "__transaction_state";

fn site(kafka: &Kafka, name: &str) -> Site {
    let files = data::generate(71, &[4000, 3000, 4000]);
    Site::new(&Place::of(kafka), name, &files, Variant::Tumbling)
}

/// Whether a checkpoint is being decided that has something to commit.
fn is_deciding(victim: &Victim) -> bool {
    let trace = fs::read_to_string(&victim.trace).expect("a trace");
    let mut parts = trace.rsplit("before decide\n");
    let (since, before) = (parts.next(), parts.next());
    before.is_some_and(|before| before.contains("after pre_commit\n"))
        && since.is_some_and(|since| !since.contains("after decide\n"))
}

/// Runs a job up to where a checkpoint is prepared by all, and not decided; and stops it there.
fn prepared(site: &Site) -> Victim {
    let start = Start {
        parallelism: 2,
        decision_delay: 500,
        restarts: 1000,
        ..Start::slow()
    };
    let victim = site.spawn(&start);
    eventually("a commit", || victim.has_reached("after commit", 1));
    eventually("a checkpoint that is prepared", || {
        if !is_deciding(&victim) {
            return false;
        }
        victim.signal("STOP");
        eventually("the stop", || victim.is_stopped());
        let in_time = is_deciding(&victim);
        if !in_time {
            victim.signal("CONT");
        }
        in_time
    });
    victim
}

/// Lets it go on until it has decided, for which it needs no broker; the decision has something to commit.
fn decide(site: &Site, victim: &Victim) {
    let decided = victim.reached("after decide");
    victim.signal("CONT");
    eventually("a decision", || {
        victim.has_reached("after decide", decided + 1)
    });
    let (_, named) = site.log().decisions.pop_last().expect("a decision");
    assert!(!named.is_empty(), "nothing is to be committed");
}

#[test]
fn a_broker_that_dies_between_pre_commit_and_commit_commits_when_it_is_back() {
    let kafka = Kafka::builder().start().expect("a broker");
    let site = site(&kafka, "broker");
    let victim = prepared(&site);
    kafka.kill(1).expect("a death");
    decide(&site, &victim);
    kafka.start_node(1).expect("a broker");
    let report = victim.wait_within(LONG).report();
    assert_eq!(report["end"], "Completed");
    println!("the broker was away: {report}");
    site.assert_exact("the broker was away");
}

#[test]
fn a_broker_and_the_job_die_between_pre_commit_and_commit() {
    let kafka = Kafka::builder().start().expect("a broker");
    let site = site(&kafka, "both");
    let mut victim = prepared(&site);
    kafka.kill(1).expect("a death");
    decide(&site, &victim);
    victim.kill();
    assert!(victim.wait().was_killed());
    // It waits for the broker.
    let next = site.spawn(&Start {
        parallelism: 4,
        restarts: 1000,
        ..Start::default()
    });
    eventually("recovery", || next.has_reached("before settle", 1));
    kafka.start_node(1).expect("a broker");
    next.wait_within(LONG).report();
    site.assert_exact("the broker and the job were away");
}

#[test]
fn the_coordinator_of_transactions_dies_between_pre_commit_and_commit() {
    let kafka = Kafka::builder().nodes(3).start().expect("three brokers");
    let site = site(&kafka, "nodes");
    let victim = prepared(&site);
    let ongoing = site.ongoing();
    let node = coordinator(&site, &ongoing[0].transactional_id);
    let leads = leaders(&site, &site.topic("results")).contains(&node);
    assert!(leads, "node {node} leads no partition of the output");
    kafka
        .kill(usize::try_from(node).expect("a node"))
        .expect("a death");
    victim.signal("CONT");
    let report = victim.wait_within(LONG).report();
    assert_eq!(report["end"], "Completed");
    println!("node {node} is away: {report}");
    site.assert_exact("a node is away");
}

/// The node that coordinates a transactional id, by the rule of the protocol.
fn coordinator(site: &Site, transactional_id: &str) -> i32 {
    let hash = transactional_id.bytes().fold(0_i32, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(byte.into())
    });
    let leaders = leaders(site, TRANSACTION_STATE);
    let partitions = i32::try_from(leaders.len()).expect("a few partitions");
    let partition = (hash & i32::MAX) % partitions;
    leaders[usize::try_from(partition).expect("a partition")]
}

/// The leaders of a topic's partitions.
fn leaders(site: &Site, topic: &str) -> Vec<i32> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &site.place.eyes)
        .create()
        .expect("a consumer");
    let metadata = consumer.fetch_metadata(Some(topic), Duration::from_secs(30));
    let metadata = metadata.expect("metadata");
    let mut partitions: Vec<(i32, i32)> = metadata.topics()[0]
        .partitions()
        .iter()
        .map(|partition| (partition.id(), partition.leader()))
        .collect();
    partitions.sort_unstable();
    partitions.into_iter().map(|(_, leader)| leader).collect()
}
