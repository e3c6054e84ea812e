//! What keeps a job from a cluster is told clearly, and soon, by everything that begins there.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use cofferdam::{ErrorKind, Source, TwoPhaseCommitSinkFunction};
use cofferdam_kafka::{KafkaConnection, KafkaSink, KafkaSource, Sasl, Tls, TransactionAdmin};
use cofferdam_services::security::ALICE;

use crate::broker::{sasl_ssl, secure, security};
use crate::job::{fence, told};

/// How long a call may take, by the connection.
const LIMIT: Duration = Duration::from_secs(4);

/// What else the machine may take.
const SLACK: Duration = Duration::from_secs(20);

/// Starts everything that can be started, and compares each error with what it should be.
async fn refused(kafka: &KafkaConnection, kind: ErrorKind, words: &[&str]) {
    let kafka = &kafka.clone().patience(LIMIT);
    let begun = Instant::now();
    let sink = KafkaSink::<String, _>::bytes(kafka, "anything");
    let error = sink
        .abort_stale(&fence("refused"))
        .await
        .expect_err("a sink starts");
    check("the sink", error.kind(), &error, begun, (kind, words));

    let begun = Instant::now();
    let source = KafkaSource::utf8(kafka, ["anything"]);
    let error = source.splits(&[]).await.expect_err("a source starts");
    check("the source", error.kind(), &error, begun, (kind, words));

    let begun = Instant::now();
    let error = TransactionAdmin::new(kafka)
        .list("")
        .await
        .expect_err("it lists");
    check("the admin", error.kind(), &error, begun, (kind, words));
}

fn check(
    who: &str,
    found: ErrorKind,
    error: &(dyn Error + 'static),
    begun: Instant,
    (kind, words): (ErrorKind, &[&str]),
) {
    let (text, took) = (told(error), begun.elapsed());
    println!("{who}, after {took:.1?}: {text}");
    // Nobody has to tell one that passes by itself from another.
    let same = found == kind || (found.is_retriable() && kind.is_retriable());
    assert!(same, "{who} says {found:?}, not {kind:?}: {text}");
    for word in words {
        assert!(text.contains(word), "{who} does not say {word:?}: {text}");
    }
    assert!(
        error.to_string().contains(" ("),
        "{who} gives no hint: {text}"
    );
    assert!(took < LIMIT + SLACK, "{who} took {took:?}: {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_and_an_unknown_user() {
    let address = &*security().sasl_ssl;
    for (name, password) in [(ALICE.name, "wrong"), ("nobody", ALICE.password)] {
        for sasl in [
            Sasl::plain(name, password),
            Sasl::scram_sha_256(name, password),
            Sasl::scram_sha_512(name, password),
        ] {
            let words = [address, "SaslAuthenticationFailed"];
            refused(&sasl_ssl().sasl(sasl), ErrorKind::Configuration, &words).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_is_not_trusted() {
    let address = &*security().sasl_ssl;
    let kafka = KafkaConnection::new(address)
        .sasl(Sasl::plain(ALICE.name, ALICE.password))
        .tls(Tls::new());
    let words = [address, "certificate verify failed"];
    refused(&kafka, ErrorKind::Configuration, &words).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_the_certificate_does_not_have() {
    let broker = security().sasl_ssl.parse().expect("an address");
    let address = serve("127.0.0.2:0", move |client| relay(client, broker)).to_string();
    let kafka = KafkaConnection::new(&address)
        .sasl(Sasl::plain(ALICE.name, ALICE.password))
        .tls(Tls::new().ca_file(&security().authority));
    let words = [&*address, "IP address mismatch"];
    refused(&kafka, ErrorKind::Configuration, &words).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_certificate_where_one_is_asked_for() {
    let address = &*security().mutual_tls;
    let kafka = KafkaConnection::new(address).tls(Tls::new().ca_file(&security().authority));
    let words = [address, "no TLS", "alert", "certificate"];
    refused(&kafka, ErrorKind::Configuration, &words).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_can_not_be_used() {
    let security = security();
    let missing = Tls::new().ca_file("/nowhere/ca.pem");
    let wrong = Tls::new()
        .ca_file(&security.authority)
        .encrypted_client_certificate(&security.certificate, &security.encrypted_key, "wrong");
    let no_password = Tls::new()
        .ca_file(&security.authority)
        .client_certificate(&security.certificate, &security.encrypted_key);
    let key = security.encrypted_key.to_str().expect("a path");
    for (tls, file) in [
        (missing, "/nowhere/ca.pem"),
        (wrong, key),
        (no_password, key),
    ] {
        let kafka = KafkaConnection::new(&security.mutual_tls).tls(tls);
        refused(&kafka, ErrorKind::Configuration, &[file]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_where_nobody_speaks_it() {
    let address = secure().bootstrap();
    let kafka = KafkaConnection::new(&address).tls(Tls::new().ca_file(&security().authority));
    let words = [&*address, "no TLS", "does not speak it"];
    refused(&kafka, ErrorKind::Configuration, &words).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_who_hangs_up_on_tls() {
    let address = serve("127.0.0.1:0", |mut client| {
        client.read(&mut [0; 1024]).map(drop)
    });
    let address = address.to_string();
    // As a broker does that is just dying: that passes.
    let kafka = KafkaConnection::new(&address).tls(Tls::new());
    let words = [&*address, "no TLS", "is that a TLS listener"];
    refused(&kafka, ErrorKind::Transient, &words).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_tls_where_it_is_asked_for() {
    let address = &*security().sasl_ssl;
    let kafka = KafkaConnection::new(address);
    refused(&kafka, ErrorKind::Configuration, &[address, "TLS"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_at_all() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    drop(listener);
    let words = [&*address, "can't connect", "refused"];
    refused(
        &KafkaConnection::new(&address),
        ErrorKind::Transient,
        &words,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_without_an_address() {
    let kafka = KafkaConnection::new("no-such-host.invalid:9092");
    // A resolver without a network may need longer than there is time.
    refused(&kafka, ErrorKind::Transient, &["no-such-host.invalid:9092"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn something_else_than_a_broker() {
    let address = serve("127.0.0.1:0", |mut client| {
        client.read(&mut [0; 1024]).map(drop)?;
        client.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
    });
    let address = address.to_string();
    let words = [&*address, "no Kafka broker"];
    refused(
        &KafkaConnection::new(&address),
        ErrorKind::Configuration,
        &words,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_who_says_nothing() {
    for tls in [None, Some(Tls::new())] {
        let address = serve("127.0.0.1:0", |mut client| {
            std::io::copy(&mut client, &mut std::io::sink()).map(drop)
        });
        let address = address.to_string();
        let mut kafka = KafkaConnection::new(&address);
        if let Some(tls) = tls {
            kafka = kafka.tls(tls);
        }
        refused(&kafka, ErrorKind::Transient, &[&address, "no answer"]).await;
    }
}

/// Does the same with each connection, for as long as the process lives.
fn serve(
    at: &str,
    answer: impl Fn(TcpStream) -> std::io::Result<()> + Clone + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind(at).expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let answer = answer.clone();
            thread::spawn(move || answer(client));
        }
    });
    address
}

fn relay(client: TcpStream, broker: SocketAddr) -> std::io::Result<()> {
    let broker = TcpStream::connect(broker)?;
    let (mut from, mut to) = (client.try_clone()?, broker.try_clone()?);
    thread::spawn(move || std::io::copy(&mut from, &mut to));
    let (mut from, mut to) = (broker, client);
    std::io::copy(&mut from, &mut to).map(drop)
}
