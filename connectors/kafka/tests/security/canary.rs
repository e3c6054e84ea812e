//! No secret is ever shown: not by `Debug`, not by errors, not in any log, however much is logged.

use std::error::Error;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use cofferdam::{
    MemoryCheckpointStore, NoEventTime, Pipeline, RestartStrategy, Source,
    TwoPhaseCommitSinkFunction,
};
use cofferdam_kafka::{
    KafkaConnection, KafkaSink, KafkaSource, Sasl, Tls, TokenSource, TransactionAdmin,
};
use cofferdam_services::security::{ALICE, BOB, CERTIFICATE_USER, KEY_PASSWORD};

use crate::broker::{committed, sasl_ssl, secure, security, texts, topic, topic_with};
use crate::job::{Tokens, Work, fence, told};
use crate::rules::allow;

/// A password that is wrong, and secret still.
const WRONG: &str = "canary-of-a-wrong-password";

/// All that is logged.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        let log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&log).into_owned()
    }
}

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn shown(error: &(dyn Error + 'static)) -> String {
    format!("{} {error:?} {error:#?}", told(error))
}

/// A job with all that the client library can tell.
async fn talkative_job(work: &Work, kafka: &KafkaConnection) -> String {
    let source = KafkaSource::utf8(kafka, [&*work.input])
        .option("debug", "all")
        .bounded();
    let sink = KafkaSink::bytes(kafka, &*work.output).option("debug", "all");
    let mut text = format!(
        "{kafka:?} {source:?} {sink:?} {:?}",
        TransactionAdmin::new(kafka)
    );
    let ended = Pipeline::new(&*work.name)
        .source("from", source, NoEventTime)
        .sink("to", sink)
        .job(MemoryCheckpointStore::new())
        .restart(RestartStrategy::Never)
        .run()
        .await;
    if let Err(error) = ended {
        text += &shown(&error);
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_shown_nowhere() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .init();

    let (broker, all) = (secure(), texts(0..100));
    let input = topic_with(broker, "in", &all).await;
    let tokens = Tokens {
        user: "canary".to_owned(),
    };
    let token = tokens.text();
    let tls = Tls::new()
        .ca_file(&security().authority)
        .encrypted_client_certificate(
            &security().certificate,
            &security().encrypted_key,
            KEY_PASSWORD,
        );
    let mut seen = format!(
        "{tls:?} {:?} {:?}",
        tokens.token().expect("a token"),
        Sasl::plain("a", WRONG)
    );
    let mutual = KafkaConnection::new(&security().mutual_tls).tls(tls);
    for (user, kafka) in [
        (
            ALICE.name,
            sasl_ssl().sasl(Sasl::plain(ALICE.name, ALICE.password)),
        ),
        (
            BOB.name,
            sasl_ssl().sasl(Sasl::scram_sha_256(BOB.name, BOB.password)),
        ),
        (
            ALICE.name,
            sasl_ssl().sasl(Sasl::scram_sha_512(ALICE.name, ALICE.password)),
        ),
        ("canary", sasl_ssl().sasl(Sasl::oauth_bearer(tokens))),
        (CERTIFICATE_USER, mutual),
    ] {
        let work = Work::new(&input, &topic(broker, "out").await);
        allow(broker, user, &work.rights()).await;
        seen += &talkative_job(&work, &kafka).await;
        assert_eq!(committed(broker, &work.output), all, "{user}");
    }
    for sasl in [
        Sasl::plain(ALICE.name, WRONG),
        Sasl::scram_sha_256(ALICE.name, WRONG),
        Sasl::scram_sha_512(ALICE.name, WRONG),
    ] {
        let work = Work::new(&input, "anything");
        seen += &talkative_job(&work, &sasl_ssl().sasl(sasl)).await;
    }
    // Where it does not belong, which is refused.
    let kafka = sasl_ssl();
    let source = KafkaSource::utf8(&kafka, [&*input]).option("sasl.password", WRONG);
    let sink = KafkaSink::<String, _>::bytes(&kafka, "anything").option("sasl.password", WRONG);
    seen += &format!("{source:?} {sink:?}");
    seen += &shown(&source.splits(&[]).await.expect_err("a reserved option"));
    seen += &shown(
        &sink
            .abort_stale(&fence("job"))
            .await
            .expect_err("a reserved option"),
    );

    let log = log.text();
    for heard in [
        "librdkafka",
        "SCRAM-SHA-512",
        "OAUTHBEARER",
        "ssl.key.password",
    ] {
        assert!(log.contains(heard), "{heard} is not even logged");
    }
    let parts = token.split('.').filter(|part| part.len() > 20);
    let secrets = [ALICE.password, BOB.password, KEY_PASSWORD, WRONG];
    for secret in secrets.into_iter().chain(parts) {
        for (place, text) in [("the log", &log), ("Debug or an error", &seen)] {
            if let Some(at) = text.find(secret) {
                let around: String = text[..at].chars().rev().take(200).collect();
                let before: String = around.chars().rev().collect();
                panic!("{secret} is shown in {place}, after {before}");
            }
        }
    }
}
