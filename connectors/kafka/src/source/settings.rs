//! The settings of the consumer.

use cofferdam::SourceError;
use rdkafka::ClientConfig;

use super::offsets::Isolation;
use crate::connection::{KafkaConnection, Options, Reserved};

/// The group that the client is told of when none is set: it can't be assigned partitions without one. Nothing is
/// committed to it.
const NO_GROUP: &str = "cofferdam";

/// Settings that a user can't give the source.
const RESERVED: Reserved = &[
    ("auto.commit.", "positions come from checkpoints"),
    (
        "auto.offset.reset",
        "use `start`; positions come from checkpoints",
    ),
    ("enable.auto.", "positions come from checkpoints"),
    ("enable.partition.eof", "positions depend on it"),
    ("group.", "use `group`; partitions are divided by the job"),
    ("isolation.level", "use `read_uncommitted`"),
    ("offset.store.", "positions come from checkpoints"),
    ("partition.assignment.", "partitions are divided by the job"),
];

/// The settings of a consumer.
pub(super) fn consumer(
    connection: &KafkaConnection,
    group: Option<&str>,
    isolation: Isolation,
    options: &Options,
) -> Result<ClientConfig, SourceError> {
    let mut config = connection.client_config();
    // As much ahead as speed needs, and no more memory than that takes: a small record takes some 400 bytes of the
    // client's own, so their number is bounded too. When the queue is full, the next fetch waits for a moment, not
    // for a second.
    config
        .set("queued.min.messages", "10000")
        .set("queued.max.messages.kbytes", "16384")
        .set("fetch.message.max.bytes", "524288")
        .set("fetch.max.bytes", "16777216")
        .set("fetch.queue.backoff.ms", "2")
        .set("fetch.error.backoff.ms", "100")
        // A trickle comes in 50 answers a second, not in one for each batch of whoever writes it: results wait for
        // the next checkpoint anyway. It's also how long the end of a partition goes unnoticed.
        .set("fetch.min.bytes", "65536")
        .set("fetch.wait.max.ms", "20")
        .set("group.id", group.unwrap_or(NO_GROUP))
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "error")
        .set("enable.partition.eof", "true")
        .set("allow.auto.create.topics", "false")
        .set(
            "isolation.level",
            match isolation {
                Isolation::Committed => "read_committed",
                Isolation::Uncommitted => "read_uncommitted",
            },
        );
    Ok(options.add_to(config, "source", RESERVED)?)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't go on panics")]
mod tests {
    use super::*;

    fn config(name: &str, value: &str) -> Result<ClientConfig, SourceError> {
        let mut options = Options::default();
        options.set(name, value);
        let connection = KafkaConnection::new("nowhere:1");
        consumer(&connection, None, Isolation::Committed, &options)
    }

    #[test]
    fn what_a_user_sets_wins_over_what_is_chosen_for_speed() {
        let config = config("fetch.wait.max.ms", "7").unwrap();
        assert_eq!(config.get("fetch.wait.max.ms"), Some("7"));
        assert_eq!(config.get("isolation.level"), Some("read_committed"));
    }

    #[test]
    fn what_positions_depend_on_is_refused() {
        for name in [
            "auto.offset.reset",
            "enable.auto.commit",
            "group.id",
            "sasl.password",
            "isolation.level",
        ] {
            let error = config(name, "x").unwrap_err();
            assert_eq!(error.kind(), cofferdam::ErrorKind::Configuration);
            assert!(error.to_string().contains(name), "{error}");
        }
    }

    #[test]
    fn what_librdkafka_does_not_know_is_refused_before_anything_is_read() {
        assert!(config("fetch.wiat.max.ms", "7").is_err());
        assert!(config("fetch.wait.max.ms", "soon").is_err());
    }
}
