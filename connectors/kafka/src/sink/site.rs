//! What all transactions of a sink share.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cofferdam::SinkError;
use rdkafka::ClientConfig;

use crate::connection::ClientEvents;
use crate::transactions::{Names, Transactions};

/// Settings of librdkafka that are the sink's own business, or the connection's. Those that end in a dot are many.
const RESERVED: &[&str] = &[
    "acks",
    "bootstrap.servers",
    "client.id",
    "delivery.report.only.error",
    "enable.gapless.guarantee",
    "enable.idempotence",
    "metadata.broker.list",
    "request.required.acks",
    "sasl.",
    "security.protocol",
    "ssl.",
    "transaction.timeout.ms",
    "transactional.id",
];

/// The cluster, the topic and the settings.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) transactions: Transactions,
    pub(super) names: Names,
    pub(super) topic: Arc<str>,
    /// How long the cluster keeps a prepared transaction, in milliseconds.
    pub(super) timeout: i32,
    /// Settings of librdkafka that the user adds.
    pub(super) options: Vec<(String, String)>,
}

/// Options by name alone: somebody may have tried to give a password so, before that is refused.
impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options: Vec<&str> = self.options.iter().map(|(name, _)| &**name).collect();
        f.debug_struct("Site")
            .field("transactions", &self.transactions)
            .field("names", &self.names)
            .field("topic", &self.topic)
            .field("timeout", &self.timeout)
            .field("options", &options)
            .finish()
    }
}

impl Site {
    /// The time limit as the contract has it; `None` if there is none.
    pub(super) fn expiry(&self) -> Option<Duration> {
        let millis = u64::try_from(self.timeout).unwrap_or(0);
        (self.timeout < i32::MAX).then(|| Duration::from_millis(millis))
    }

    /// Whether the user's settings leave alone what the sink depends on.
    pub(super) fn check_options(&self) -> Result<(), SinkError> {
        let ours = |key: &str| {
            RESERVED
                .iter()
                .any(|ours| key == *ours || (ours.ends_with('.') && key.starts_with(ours)))
        };
        match self.options.iter().find(|(key, _)| ours(key)) {
            None => Ok(()),
            Some((key, _)) => Err(SinkError::configuration(format!(
                "setting {key} can't be given to the sink as an option: what it does depends on it"
            ))
            .hint("set the connection's own settings, or the sink's transaction_timeout")),
        }
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
            // The first records of a transaction are refused for a moment while the next partition is added to it: by
            // default that would cost a tenth of a second.
            .set("retry.backoff.ms", "5")
            .set("batch.size", "1000000")
            .set("batch.num.messages", "100000")
            .set("queue.buffering.max.messages", "60000")
            .set("queue.buffering.max.kbytes", "16384")
            .set("topic.metadata.propagation.max.ms", "10000")
            .set("socket.nagle.disable", "true");
        for (key, value) in &self.options {
            config.set(key, value);
        }
        config
    }
}
