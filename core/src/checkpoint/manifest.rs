//! The manifest: all that a decided checkpoint consists of.

use std::collections::BTreeMap;

use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};

use crate::identity::{
    CheckpointId, MAX_STORED_NUMBER, OperatorId, SinkId, SourceId, SubtaskIndex, TransactionId,
};
use crate::shard::MAX_SHARDS;
use crate::source::SplitId;
use crate::time::Timestamp;

/// A decided checkpoint, as it stands in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) checkpoint: CheckpointId,
    /// The number of subtasks of each part of the pipeline. A restart may choose another.
    #[serde(deserialize_with = "shards")]
    pub(crate) parallelism: u32,
    /// The number of shards of keyed state: fixed over the life of the job.
    #[serde(deserialize_with = "shards")]
    pub(crate) shards: u32,
    /// Whether all input has ended: then there is nothing to go on with.
    pub(crate) complete: bool,
    /// The sinks of the pipeline, whether or not they have written anything.
    pub(crate) sinks: Vec<SinkId>,
    pub(crate) splits: Vec<SplitSnapshot>,
    pub(crate) state: Vec<StatePart>,
    /// Prepared transactions whose commit was not confirmed when the participants voted.
    pub(crate) transactions: Vec<PreparedTransaction>,
    /// Totals of the job at this cut, by name.
    #[serde(deserialize_with = "counts")]
    pub(crate) counts: BTreeMap<String, u64>,
}

/// How far a split was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SplitSnapshot {
    pub(crate) source: SourceId,
    pub(crate) split: SplitId,
    /// As the source wrote it; `None` while nothing of it was read.
    pub(crate) position: Option<serde_json::Value>,
    /// The newest event time seen in it: its watermark goes on from there.
    pub(crate) newest: Option<Timestamp>,
    pub(crate) finished: bool,
}

/// The state of one operator in one subtask, stored beside the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StatePart {
    pub(crate) operator: OperatorId,
    pub(crate) subtask: SubtaskIndex,
    #[serde(deserialize_with = "super::name::state_object")]
    pub(crate) object: String,
}

/// A prepared transaction with its handle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PreparedTransaction {
    pub(crate) id: TransactionId,
    /// In its envelope.
    pub(crate) handle: String,
}

/// Decodes a number of shards or subtasks.
fn shards<'de, D: Deserializer<'de>>(input: D) -> Result<u32, D::Error> {
    let shards = u64::deserialize(input)?;
    let fits = u32::try_from(shards).ok();
    fits.filter(|shards| (1..=MAX_SHARDS).contains(shards))
        .ok_or_else(|| {
            let expected = format!("a number from 1 to {MAX_SHARDS}");
            D::Error::invalid_value(Unexpected::Unsigned(shards), &expected.as_str())
        })
}

/// Decodes totals that a run counts on from.
fn counts<'de, D: Deserializer<'de>>(input: D) -> Result<BTreeMap<String, u64>, D::Error> {
    let counts = BTreeMap::<String, u64>::deserialize(input)?;
    if let Some((name, count)) = counts.iter().find(|(_, count)| **count > MAX_STORED_NUMBER) {
        let expected = format!("a total of {name} up to {MAX_STORED_NUMBER}");
        return Err(D::Error::invalid_value(
            Unexpected::Unsigned(*count),
            &expected.as_str(),
        ));
    }
    Ok(counts)
}
