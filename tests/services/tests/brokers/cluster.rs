use crate::support::{PATIENCE, ask, processes_with};
use cofferdam_services::{Kafka, KafkaVersion, ServiceError};
use std::fs;
use std::io::ErrorKind;
use std::time::Duration;

#[test]
fn two_run_side_by_side_and_the_shared_one_is_one() {
    let own = Kafka::builder()
        .version(KafkaVersion::V3_9)
        .start()
        .unwrap();
    let shared = Kafka::shared().unwrap();
    assert!(std::ptr::eq(shared, Kafka::shared().unwrap()));
    assert_ne!(own.bootstrap(), shared.bootstrap());
    for kafka in [&own, shared] {
        ask(kafka.address(1), PATIENCE).unwrap();
    }
    // Each is the release that it says: the broker's first lines name it.
    for (kafka, number) in [(&own, "3.9.1"), (shared, "4.4.0")] {
        assert_eq!(kafka.version().number(), number);
        let log = fs::read_to_string(kafka.node_folder(1).join("log")).unwrap();
        assert!(log.contains(&format!("Kafka version: {number}")), "{log}");
    }
}

#[test]
fn a_node_of_three_is_killed_and_comes_back_with_its_data_and_nothing_is_left_after_a_drop() {
    let kafka = Kafka::builder().nodes(3).start().unwrap();
    assert_eq!(kafka.bootstrap().split(',').count(), 3);
    for node in 1..=3 {
        ask(kafka.address(node), PATIENCE).unwrap();
    }
    let first = kafka.process_id(2).unwrap();
    let kept = kafka.node_folder(2).join("data/meta.properties");
    let identity = fs::read(&kept).unwrap();
    kafka.kill(2).unwrap();
    kafka.kill(2).unwrap(); // one that is dead stays so
    assert_eq!(kafka.process_id(2), None);
    assert_eq!(
        ask(kafka.address(2), PATIENCE).unwrap_err().kind(),
        ErrorKind::ConnectionRefused
    );
    ask(kafka.address(1), PATIENCE).unwrap();
    assert_eq!(fs::read(&kept).unwrap(), identity);

    kafka.start_node(2).unwrap();
    ask(kafka.address(2), PATIENCE).unwrap();
    assert_ne!(kafka.process_id(2).unwrap(), first);
    assert_eq!(fs::read(&kept).unwrap(), identity);
    let second = kafka.process_id(2);
    kafka.start_node(2).unwrap(); // one that runs goes on
    assert_eq!(kafka.process_id(2), second);

    kafka.kill(3).unwrap();
    kafka.pause(1).unwrap();
    let folder = kafka.node_folder(1).parent().unwrap().to_owned();
    assert!(processes_with(&folder) > 0);
    drop(kafka); // whatever state its nodes are in
    assert_eq!(processes_with(&folder), 0);
    assert!(!folder.exists());
}

#[test]
fn a_paused_node_answers_only_when_it_goes_on_and_a_stopped_one_ends_in_order() {
    let kafka = Kafka::builder()
        .set("num.partitions", "7")
        .feature("transaction.version", 1)
        .start()
        .unwrap();
    let properties = fs::read_to_string(kafka.node_folder(1).join("server.properties")).unwrap();
    assert_eq!(properties.matches("num.partitions=7\n").count(), 1);
    assert!(!properties.contains("\nnum.partitions=1\n"));
    kafka.pause(1).unwrap();
    let waited = ask(kafka.address(1), Duration::from_millis(300)).unwrap_err();
    assert!(
        matches!(waited.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        "{waited}"
    );
    kafka.resume(1).unwrap();
    ask(kafka.address(1), PATIENCE).unwrap();

    kafka.stop(1).unwrap();
    assert_eq!(kafka.process_id(1), None);
    let log = kafka.log_tail(1).unwrap();
    assert!(log.contains("kafka.server for 1 unregistered"), "{log}");
    kafka.start_node(1).unwrap();
    ask(kafka.address(1), PATIENCE).unwrap();
    assert!(
        !kafka
            .log_tail(1)
            .unwrap()
            .contains("kafka.server for 1 unregistered"),
        "it is of the run before"
    );
}

#[test]
fn a_broker_that_does_not_start_says_why() {
    let error = Kafka::builder()
        .set("num.io.threads", "none")
        .start()
        .unwrap_err();
    assert!(matches!(error, ServiceError::NotReady { node: 1, .. }));
    assert!(error.to_string().contains("num.io.threads"), "{error}");
}

#[test]
fn a_node_that_is_not_there_is_a_mistake_of_the_test() {
    let kafka = Kafka::shared().unwrap();
    let asked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| kafka.address(2)));
    let message = *asked.unwrap_err().downcast::<String>().unwrap();
    assert_eq!(message, "there is no node 2, only 1 to 1");
}
