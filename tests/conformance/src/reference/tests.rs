//! The sink at work on a running system.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod faults;
mod life;

use cofferdam::{
    CheckpointId, Epoch, Fence, JobId, SinkId, SubtaskIndex, TransactionId,
    TwoPhaseCommitSinkFunction,
};

use super::*;
use crate::factory::Factory;
use crate::observer::Observer;

type Sink = ReferenceSink<ReferenceRecord>;

fn id(epoch: u64, checkpoint: u64) -> TransactionId {
    TransactionId {
        job: JobId::new("orders").unwrap(),
        sink: SinkId::new("rows").unwrap(),
        epoch: Epoch(epoch),
        subtask: SubtaskIndex(0),
        checkpoint: CheckpointId(checkpoint),
    }
}

fn fence(epoch: u64, newest: Option<u64>) -> Fence<ReferenceHandle> {
    let (job, sink) = (JobId::new("orders").unwrap(), SinkId::new("rows").unwrap());
    let mut fence = Fence::new(job, sink, Epoch(epoch));
    fence.newest = newest.map(CheckpointId);
    fence
}

/// Rows enough for several flushes, and a rest.
fn records(of: &TransactionId) -> Vec<ReferenceRecord> {
    let text = |number| format!("{}-{}-{number:03}", of.epoch, of.checkpoint);
    (0..100)
        .map(|number| ReferenceRecord::Text(text(number)))
        .collect()
}

async fn begin(sink: &Sink, id: &TransactionId) -> OpenTransaction {
    let mut transaction = sink.begin(id).await.unwrap();
    sink.write(&mut transaction, records(id)).await.unwrap();
    transaction
}

async fn prepare(sink: &Sink, id: &TransactionId) -> ReferenceHandle {
    let transaction = begin(sink, id).await;
    sink.pre_commit(transaction).await.unwrap().unwrap()
}

async fn place() -> ReferencePlace {
    ReferenceFactory.place().await.unwrap()
}

async fn open(place: &ReferencePlace) -> Sink {
    ReferenceFactory.open(place).await.unwrap()
}

async fn count_visible(place: &ReferencePlace) -> usize {
    place.visible().await.unwrap().len()
}
