//! Each way to sign in moves records, both ways, with the rights of the operator's page and no others.

use cofferdam_kafka::{KafkaConnection, Sasl, Tls};
use cofferdam_services::security::{ALICE, BOB, CERTIFICATE_USER, KEY_PASSWORD, User};

use crate::broker::{committed, sasl_ssl, secure, security, texts, topic, topic_with};
use crate::job::{Work, user};
use crate::rules::allow;

async fn whole_jobs_run(user: &str, kafka: &KafkaConnection) {
    let (broker, all) = (secure(), texts(0..300));
    let input = topic_with(broker, "in", &all).await;
    let output = topic(broker, "out").await;
    let work = Work::new(&input, &output);
    allow(broker, user, &work.rights()).await;
    work.job(kafka, true).run().await.expect("the job runs");
    assert_eq!(committed(broker, &output), all);
    assert_eq!(work.read(kafka).await.expect("the job runs"), all);

    let from_memory = Work::new(&input, &topic(broker, "out").await);
    allow(broker, user, &from_memory.rights_of_sink()).await;
    from_memory
        .write(kafka, all.clone())
        .await
        .expect("the job runs");
    assert_eq!(committed(broker, &from_memory.output), all);
}

async fn with_password(User { name, password }: User, sasl: fn(&str, &str) -> Sasl) {
    whole_jobs_run(name, &sasl_ssl().sasl(sasl(name, password))).await;
}

fn certificate() -> Tls {
    Tls::new().ca_file(&security().authority)
}

#[tokio::test(flavor = "multi_thread")]
async fn plain() {
    with_password(ALICE, |name, password| Sasl::plain(name, password)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scram_sha_256() {
    with_password(BOB, |name, password| Sasl::scram_sha_256(name, password)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scram_sha_512() {
    with_password(ALICE, |name, password| Sasl::scram_sha_512(name, password)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn oauth_bearer() {
    let (user, kafka) = user();
    whole_jobs_run(&user, &kafka).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate() {
    let tls = certificate().client_certificate(&security().certificate, &security().key);
    let kafka = KafkaConnection::new(&security().mutual_tls).tls(tls);
    whole_jobs_run(CERTIFICATE_USER, &kafka).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_with_an_encrypted_key() {
    let (certificate_file, key) = (&security().certificate, &security().encrypted_key);
    let tls = certificate().encrypted_client_certificate(certificate_file, key, KEY_PASSWORD);
    let kafka = KafkaConnection::new(&security().mutual_tls).tls(tls);
    whole_jobs_run(CERTIFICATE_USER, &kafka).await;
}
