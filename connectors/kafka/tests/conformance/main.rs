//! The conformance suite, on the transactional sink and real brokers.

mod place;
mod relay;

use std::net::SocketAddr;
use std::time::Duration;

use cofferdam::async_trait;
use cofferdam_conformance::{Factory, GoldenHandle, Odd, Reality, Trouble, conformance_tests};
use cofferdam_kafka::{EncodeError, Encoder, KafkaConnection, KafkaSink, OutgoingRecord};

use self::place::Topic;

#[derive(Debug, Default)]
struct TransactionalTopic;

/// A record: its text, or one that can't be written.
#[derive(Debug)]
enum Record {
    Text(String),
    Oversize,
    Refused,
    Panicking,
}

/// Writes texts as values, with keys that spread them over partitions.
#[derive(Debug)]
struct Texts;

impl Encoder<Record> for Texts {
    fn encode(&self, value: &Record, record: &mut OutgoingRecord) -> Result<(), EncodeError> {
        match value {
            Record::Text(text) => {
                record.key().extend_from_slice(text.as_bytes());
                record.value().extend_from_slice(text.as_bytes());
                Ok(())
            }
            // The client takes as much; the topic does not.
            Record::Oversize => {
                record.value().resize(place::LARGEST_RECORD + 1, b'x');
                Ok(())
            }
            Record::Refused => Err("this value has no form".into()),
            Record::Panicking => panic!("a fault in the user's own code"),
        }
    }
}

impl TransactionalTopic {
    fn sink(place: &Topic, bootstrap: &str) -> KafkaSink<Record, Texts> {
        let kafka = KafkaConnection::new(bootstrap).patience(Duration::from_secs(5));
        KafkaSink::with(&kafka, place.topic(), Texts)
            .name_prefix(place.topic())
            .transaction_timeout(place::TRANSACTION_TIMEOUT)
    }
}

#[async_trait]
impl Factory for TransactionalTopic {
    type Sink = KafkaSink<Record, Texts>;
    type Place = Topic;

    fn name(&self) -> String {
        "Kafka".to_owned()
    }

    fn reality(&self) -> Reality {
        Reality::Real
    }

    async fn place(&self) -> Result<Topic, Trouble> {
        Topic::create().await
    }

    async fn open(&self, place: &Topic) -> Result<Self::Sink, Trouble> {
        Ok(Self::sink(place, &place.bootstrap()))
    }

    fn record(&self, text: &str) -> Record {
        Record::Text(text.to_owned())
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(20)
    }

    fn odd_record(&self, odd: Odd) -> Result<Record, Trouble> {
        Ok(match odd {
            Odd::Refused => Record::Refused,
            Odd::Oversize => Record::Oversize,
            Odd::Panicking => Record::Panicking,
        })
    }

    fn golden_handles(&self) -> Vec<GoldenHandle> {
        vec![GoldenHandle {
            version: "0.1.0".to_owned(),
            json: include_str!("../golden/handle-0.1.0.json").to_owned(),
        }]
    }

    async fn open_through(&self, place: &Topic, proxy: SocketAddr) -> Result<Self::Sink, Trouble> {
        place.lead_through(proxy);
        Ok(Self::sink(place, &place.bootstrap()))
    }

    async fn attach(&self, address: &str) -> Result<Topic, Trouble> {
        Topic::attach(address)
    }
}

conformance_tests!(TransactionalTopic, report = "tests/conformance/report.json");
