//! What all transactions of a sink share.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::ClientConfig;

use crate::connection::ClientEvents;
use crate::transactions::Transactions;

/// The cluster, the topic and the settings.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) transactions: Transactions,
    pub(super) topic: Arc<str>,
    /// How long the cluster keeps a prepared transaction, in milliseconds.
    pub(super) timeout: i32,
    /// Settings of librdkafka that the user adds.
    pub(super) options: Vec<(String, String)>,
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
    pub(super) fn producer_config(&self, transactional_id: &str) -> ClientConfig {
        let mut config = self.transactions.cluster.connection().client_config();
        config
            .set("transactional.id", transactional_id)
            .set("transaction.timeout.ms", self.timeout.to_string())
            // The same partition for the same key as Java clients choose.
            .set("partitioner", "murmur2_random")
            // A report for each record that is delivered would cost as much as the record; with these alone, none in
            // flight and none reported means that all are there.
            .set("delivery.report.only.error", "true")
            .set("linger.ms", "5")
            .set("batch.size", "1000000")
            .set("batch.num.messages", "100000")
            .set("queue.buffering.max.messages", "200000")
            .set("queue.buffering.max.kbytes", "32768")
            .set("topic.metadata.propagation.max.ms", "10000")
            .set("socket.nagle.disable", "true");
        for (key, value) in &self.options {
            config.set(key, value);
        }
        config
    }
}
