//! What all transactions of a sink share.

use std::sync::Arc;
use std::time::Duration;

use cofferdam::SinkError;
use rdkafka::ClientConfig;

use crate::connection::{ClientEvents, Options, Reserved};
use crate::transactions::{Names, Transactions};

/// Settings that a user can't give the sink.
const RESERVED: Reserved = &[
    ("acks", "that no record gets lost depends on it"),
    (
        "delivery.report.only.error",
        "that no record gets lost depends on it",
    ),
    (
        "enable.gapless.guarantee",
        "that no record gets lost depends on it",
    ),
    ("enable.idempotence", "transactions depend on it"),
    (
        "request.required.acks",
        "that no record gets lost depends on it",
    ),
    ("transaction.timeout.ms", "use `transaction_timeout`"),
    ("transactional.id", "use `name_prefix`"),
];

/// The same partition for the same key as Java clients choose.
pub(super) const PARTITIONER: &str = "murmur2_random";

/// The cluster, the topic and the settings.
#[derive(Debug, Clone)]
pub(super) struct Site {
    pub(super) transactions: Transactions,
    pub(super) names: Names,
    pub(super) topic: Arc<str>,
    /// How long the cluster keeps a prepared transaction, in milliseconds.
    pub(super) timeout: i32,
    /// Settings of librdkafka that the user adds.
    pub(super) options: Options,
}

impl Site {
    /// The time limit as the contract has it; `None` if there is none.
    pub(super) fn expiry(&self) -> Option<Duration> {
        let millis = u64::try_from(self.timeout).unwrap_or(0);
        (self.timeout < i32::MAX).then(|| Duration::from_millis(millis))
    }

    pub(super) fn events(&self) -> ClientEvents {
        ClientEvents::new(self.transactions.cluster.connection())
    }

    /// The settings of the producer of one transaction.
    pub(super) fn producer_config(
        &self,
        transactional_id: &str,
    ) -> Result<ClientConfig, SinkError> {
        let mut config = self.transactions.cluster.connection().client_config();
        config
            .set("transactional.id", transactional_id)
            .set("transaction.timeout.ms", self.timeout.to_string())
            .set("partitioner", PARTITIONER)
            // A report for each record that is delivered would cost as much as the record; with these alone, none in
            // flight and none reported means that all are there.
            .set("delivery.report.only.error", "true")
            // Topics are for their owners to create. A producer would, if brokers let it.
            .set("allow.auto.create.topics", "false")
            .set("linger.ms", "5")
            // The first records of a transaction are refused for a moment while the next partition is added to it: by
            // default that would cost a tenth of a second.
            .set("retry.backoff.ms", "5")
            .set("batch.size", "1000000")
            .set("batch.num.messages", "100000")
            .set("queue.buffering.max.messages", "20000")
            .set("queue.buffering.max.kbytes", "16384")
            .set("topic.metadata.propagation.max.ms", "10000")
            .set("socket.nagle.disable", "true");
        Ok(self.options.add_to(config, "sink", RESERVED)?)
    }
}
