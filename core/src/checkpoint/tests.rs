//! The log and the stores, under races, lost answers, zombies and damage.

mod damage;
mod directory;
mod faulty;
mod golden;
mod log;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{
    CheckpointLog, CheckpointStore, Decisions, Manifest, MemoryCheckpointStore, Nonce, StatePart,
    Written, write_state,
};
use crate::identity::{CheckpointId, JobId, OperatorId, SubtaskIndex};

fn job() -> JobId {
    JobId::new("orders").unwrap()
}

fn memory() -> Arc<dyn CheckpointStore> {
    Arc::new(MemoryCheckpointStore::new())
}

fn manifest(checkpoint: u64) -> Manifest {
    Manifest {
        checkpoint: CheckpointId(checkpoint),
        parallelism: 1,
        shards: 128,
        complete: false,
        sinks: Vec::new(),
        splits: Vec::new(),
        state: Vec::new(),
        transactions: Vec::new(),
        counts: BTreeMap::new(),
    }
}

fn record(number: u64) -> String {
    format!("log/{number:020}.json")
}

async fn take_over(store: &Arc<dyn CheckpointStore>) -> CheckpointLog {
    let log = CheckpointLog::take_over(Arc::clone(store), job(), Nonce::random());
    log.await.unwrap()
}

/// Takes over and reads what is there; returns the ids, too.
async fn recover(store: &Arc<dyn CheckpointStore>) -> (CheckpointLog, Vec<u64>) {
    let mut log = take_over(store).await;
    let Decisions { newest, kept, .. } = log.recover().await.unwrap();
    assert_eq!(newest.map(|newest| newest.checkpoint), kept.last().copied());
    (log, kept.iter().map(|checkpoint| checkpoint.0).collect())
}

async fn decide(log: &mut CheckpointLog, checkpoint: u64) {
    assert_eq!(
        log.decide(&manifest(checkpoint)).await.unwrap(),
        Written::Done
    );
}

/// A manifest with a state part that is stored.
async fn with_state(
    store: &Arc<dyn CheckpointStore>,
    log: &CheckpointLog,
    checkpoint: u64,
) -> Manifest {
    let mut manifest = manifest(checkpoint);
    manifest.state.push(part(store, log, checkpoint).await);
    manifest
}

async fn part(store: &Arc<dyn CheckpointStore>, log: &CheckpointLog, checkpoint: u64) -> StatePart {
    let operator = OperatorId::new("window").unwrap();
    let (checkpoint, subtask) = (CheckpointId(checkpoint), SubtaskIndex(0));
    let part = write_state(
        &**store,
        log.epoch(),
        checkpoint,
        &operator,
        subtask,
        b"state",
    );
    part.await.unwrap()
}
