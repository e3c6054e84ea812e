//! Who may read: TLS, passwords, tokens, rights.

use std::error::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cofferdam::{ErrorKind, Source};
use cofferdam_kafka::{BearerToken, KafkaConnection, KafkaSource, Sasl, Tls, TokenSource};
use cofferdam_services::security::{ALICE, BOB};
use cofferdam_services::{Kafka, Operation, Resource};

use super::cluster::Topic;
use super::reading::{Told, first};

/// Unsigned, as the test's brokers take them.
struct Tokens(&'static str);

impl TokenSource for Tokens {
    fn token(&self) -> Result<BearerToken, Box<dyn Error + Send + Sync>> {
        let now = SystemTime::now();
        let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap().as_secs();
        let expires = now + Duration::from_secs(300);
        let (from, to) = (since(now), since(expires));
        let claims = format!(r#"{{"sub":"{}","iat":{from},"exp":{to}}}"#, self.0);
        let part = |text: &str| {
            let text = openssl::base64::encode_block(text.as_bytes());
            text.trim_end_matches('=')
                .replace('+', "-")
                .replace('/', "_")
        };
        let token = format!("{}.{}.", part(r#"{"alg":"none"}"#), part(&claims));
        Ok(BearerToken::new(token, self.0, expires))
    }
}

#[tokio::test]
async fn who_may_not_read_is_told_so() {
    let started = tokio::task::spawn_blocking(|| Kafka::builder().secure().start().unwrap());
    let kafka = started.await.unwrap();
    let security = kafka.security().unwrap().clone();
    let topic = Topic::create(kafka.bootstrap(), 1).await;
    topic.send(0, ["a"]);
    let split = topic.split(0);
    let secured = || {
        KafkaConnection::new(&security.sasl_ssl)
            .tls(Tls::new().ca_file(&security.authority))
            .patience(Duration::from_secs(10))
    };
    let alice = || secured().sasl(Sasl::scram_sha_256(ALICE.name, ALICE.password));
    let source = |connection: &KafkaConnection| KafkaSource::utf8(connection, [&*topic.name]);

    let wrong = secured().sasl(Sasl::plain(ALICE.name, "wrong"));
    let error = source(&wrong).splits(&[]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    let plain =
        KafkaConnection::new(kafka.bootstrap()).tls(Tls::new().ca_file(&security.authority));
    let error = source(&plain.patience(Duration::from_secs(5)))
        .splits(&[])
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    let error = source(&alice()).splits(&[]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(error.to_string().contains("READ"), "{error}");

    // No right to any group: nothing is missed. With a password, and with a token.
    let reading = [Operation::Read, Operation::Describe];
    for user in [ALICE, BOB] {
        kafka
            .allow(user.name, &reading, Resource::Topic(&topic.name))
            .unwrap();
    }
    let bob = secured().sasl(Sasl::oauth_bearer(Tokens(BOB.name)));
    for connection in [alice(), bob] {
        let source = source(&connection);
        let mut reader = loop {
            // Brokers follow rules a moment later.
            match first(&source).await {
                Ok(reader) => break reader,
                Err(error) => assert!(error.to_string().contains("READ"), "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        let mut told = Told::default();
        told.until(&mut reader, |told| told.offset(&split) == Some(1))
            .await
            .unwrap();
        assert_eq!(told.of(&split), ["a"]);
    }

    // A right that is taken away ends the job.
    let mut reader = first(&source(&alice())).await.unwrap();
    kafka
        .deny(ALICE.name, &[Operation::Read], Resource::Topic(&topic.name))
        .unwrap();
    let mut told = Told::default();
    let error = told.until(&mut reader, |_| false).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(error.to_string().contains("READ"), "{error}");
}
