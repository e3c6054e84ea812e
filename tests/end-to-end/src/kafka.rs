//! The pipeline from topics into topics.

use std::time::Duration;

use cofferdam::{Job, StoreError};
use cofferdam_kafka::{KafkaConnection, KafkaSink, KafkaSource};

use crate::job::{self, LateRow, Reading, Row};
use crate::options::KafkaOptions;

/// A call that gets no answer is given up after so long: a broker may be dead.
const PATIENCE: Duration = Duration::from_secs(5);

/// The job that the options ask for.
///
/// # Errors
/// If the checkpoint store can't be opened.
pub fn kafka_job(options: &KafkaOptions) -> Result<Job, StoreError> {
    let kafka = KafkaConnection::new(&options.brokers).patience(PATIENCE);
    let topic = |part: &str| format!("{}.{part}", options.job.job);
    let source = KafkaSource::json::<Reading>(&kafka, [topic("input")])
        .bounded()
        // Small batches, from all partitions in turn.
        .option("fetch.message.max.bytes", "10000")
        .option("queued.min.messages", "1");
    let mut results = KafkaSink::json(&kafka, topic("results"));
    let mut late = KafkaSink::json(&kafka, topic("late"));
    if let Some(timeout) = options.transaction_timeout.map(Duration::from_millis) {
        results = results.transaction_timeout(timeout);
        late = late.transaction_timeout(timeout);
    }
    let results = results.key(|row: &Row, key| key.extend_from_slice(row.sensor.as_bytes()));
    let late = late.key(|row: &LateRow, key| key.extend_from_slice(row.sensor.as_bytes()));
    let mut job = job::job(&options.job, source, results, late)?;
    if let Some(timeout) = options.checkpoint_timeout {
        job = job.checkpoint_timeout(Duration::from_millis(timeout));
    }
    if let Some(failures) = options.tolerable_failures {
        job = job.tolerable_checkpoint_failures(failures);
    }
    for lost in &options.accept_loss {
        job = job.accept_loss(lost.clone());
    }
    Ok(job)
}
