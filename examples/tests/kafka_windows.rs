//! The job from Kafka to Kafka as a user runs it.

use std::process::{Command, Output};

use cofferdam_services::Kafka;
use cofferdam_services::security::ADMINISTRATOR;

fn kafka_windows(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kafka_windows"));
    command
        .args(arguments)
        .env("KAFKA_PASSWORD", ADMINISTRATOR.password);
    command.output().expect("kafka_windows starts")
}

/// What a run that ends well prints.
fn said(arguments: &[&str]) -> String {
    let output = kafka_windows(arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

const WHOLE: &str = "each order is in one window, once";

#[test]
fn the_demo_shows_that_each_order_is_counted_once() {
    let text = said(&["--demo", "--orders", "20000"]);
    assert!(text.contains("complete") && text.contains(WHOLE), "{text}");
}

#[test]
fn it_signs_in_and_goes_on_where_it_was() {
    let broker = Kafka::builder().secure().start().expect("a broker starts");
    let security = broker.security().expect("it is guarded");
    let folder = tempfile::tempdir().expect("a folder");
    let checkpoints = folder.path().to_str().expect("a path");
    let open = ["--bootstrap", &broker.bootstrap()];
    let authority = security.authority.to_str().expect("a path");
    let guarded = |mechanism, more: &[&'static str]| {
        let way = ["--bootstrap", &security.sasl_ssl, "--ca-file", authority];
        let user = ["--sasl-mechanism", mechanism, "--user", ADMINISTRATOR.name];
        let job = ["--checkpoints", checkpoints, "--bounded"];
        [&way[..], &user, &job, more].concat()
    };
    said(&[&open[..], &["--prepare", "--orders", "20000"]].concat());
    let before = said(&[&open[..], &["--summary"]].concat());
    assert!(!before.contains(WHOLE), "{before}");
    let text = said(&guarded("scram-sha-256", &["--group", "windows"]));
    assert!(text.contains("complete"), "{text}");
    let after = said(&[&open[..], &["--summary"]].concat());
    assert!(after.contains(WHOLE), "{after}");
    let again = said(&guarded("plain", &["--parallelism", "3"]));
    assert!(again.contains("already complete"), "{again}");

    let missing = guarded("plain", &["--password-file", "/nowhere/password"]);
    let refused = kafka_windows(&missing);
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && error.contains("/nowhere/password"),
        "{error}"
    );
}
