use crate::support::{PATIENCE, ask, eventually};
use cofferdam_services::security::{ALICE, User};
use cofferdam_services::{Kafka, Operation, Resource, fetch};
use std::path::Path;
use std::process::{Command, Output, Stdio};

#[test]
fn guarded_listeners_ask_for_what_they_should_and_rules_hold() {
    let kafka = Kafka::builder().secure().start().unwrap();
    ask(kafka.address(1), PATIENCE).unwrap();
    let security = kafka.security().unwrap();
    let (authority, certificate, key) = (
        security.authority.as_path(),
        security.certificate.as_path(),
        security.key.as_path(),
    );
    let trusting = [("-CAfile", authority)];
    let complete = [
        ("-CAfile", authority),
        ("-cert", certificate),
        ("-key", key),
    ];
    let encrypted = [
        ("-CAfile", authority),
        ("-cert", certificate),
        ("-key", security.encrypted_key.as_path()),
    ];
    assert!(connects(&security.sasl_ssl, &trusting));
    assert!(
        !connects(&security.sasl_ssl, &[("-CAfile", certificate)]),
        "one that trusts somebody else"
    );
    assert!(connects(&security.mutual_tls, &complete));
    assert!(connects(&security.mutual_tls, &encrypted));
    assert!(
        !connects(&security.mutual_tls, &trusting),
        "one without a certificate"
    );

    let (operations, topic) = (
        [Operation::Create, Operation::Describe],
        Resource::Topics("order"),
    );
    let creates = |topic| create_topic(&kafka, ALICE, topic);
    let refused = creates("orders-1");
    assert!(
        String::from_utf8_lossy(&refused.stdout).contains("Authorization failed"),
        "{refused:?}"
    );
    kafka.allow(ALICE.name, &operations, topic).unwrap();
    eventually("what is allowed is done", || {
        creates("orders-2").status.success()
    });
    kafka
        .deny(ALICE.name, &operations, Resource::Topic("orders-3"))
        .unwrap();
    eventually("what is denied is refused", || {
        !creates("orders-3").status.success()
    });
    kafka.take_back(ALICE.name, &operations, topic).unwrap();
    eventually("what is taken back is refused", || {
        !creates("orders-4").status.success()
    });
}

/// Whether a handshake of TLS 1.2 succeeds, in which the server judges the client before the end.
fn connects(address: &str, files: &[(&str, &Path)]) -> bool {
    let mut client = Command::new("openssl");
    client.args([
        "s_client",
        "-tls1_2",
        "-verify_return_error",
        "-verify_ip",
        "127.0.0.1",
        "-pass",
    ]);
    client
        .args(["pass:key-password", "-connect", address])
        .stdin(Stdio::null());
    for (option, file) in files {
        client.arg(option).arg(file);
    }
    client.output().unwrap().status.success()
}

/// With Kafka's own tool, over SCRAM.
fn create_topic(kafka: &Kafka, user: User, topic: &str) -> Output {
    let security = kafka.security().unwrap();
    let configuration = tempfile::NamedTempFile::new().unwrap();
    let User { name, password } = user;
    let scram = "org.apache.kafka.common.security.scram.ScramLoginModule";
    let lines = [
        "security.protocol=SASL_SSL".to_owned(),
        "sasl.mechanism=SCRAM-SHA-256".to_owned(),
        format!("sasl.jaas.config={scram} required username=\"{name}\" password=\"{password}\";"),
        "ssl.truststore.type=PEM".to_owned(),
        format!("ssl.truststore.location={}", security.authority.display()),
    ];
    std::fs::write(configuration.path(), lines.join("\n")).unwrap();
    Command::new("java")
        .args([
            "-XX:TieredStopAtLevel=1",
            "-cp",
            &format!("{}/*", fetch(kafka.version()).unwrap().display()),
        ])
        .args([
            "org.apache.kafka.tools.TopicCommand",
            "--bootstrap-server",
            &security.sasl_ssl,
            "--create",
            "--topic",
            topic,
        ])
        .arg("--command-config")
        .arg(configuration.path())
        .output()
        .unwrap()
}
