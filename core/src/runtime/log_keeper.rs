//! Writes decisions and deletes retired checkpoints, so that the coordinator never waits for the store.

use std::sync::Arc;

use tokio::sync::mpsc;
use tracing::{Instrument, info_span};

use super::failure::{Failure, JobError};
use super::patience::ask_store;
use super::run::Event;
use crate::checkpoint::{CheckpointLog, Manifest, Written};
use crate::error::chain;
use crate::identity::{CheckpointId, JobId};
use crate::protocol::CoordinatorEvent;

/// What the keeper is asked to do.
#[derive(Debug)]
pub(super) enum LogRequest {
    /// Write the decision, with the newest older checkpoint that is settled.
    Decide(Arc<Manifest>, Option<CheckpointId>),
    /// Record that a decided checkpoint is settled.
    Settle(CheckpointId),
    /// Delete a decided checkpoint.
    Retire(CheckpointId),
    /// Delete state parts of dropped checkpoints.
    Discard(Vec<String>),
}

/// Keeps the log of a run until there are no more requests.
pub(super) async fn keep_log(
    job: JobId,
    mut log: CheckpointLog,
    mut requests: mpsc::Receiver<LogRequest>,
    events: mpsc::Sender<Event>,
) -> Result<(), Failure> {
    let epoch = log.epoch();
    while let Some(request) = requests.recv().await {
        let event = match request {
            LogRequest::Retire(checkpoint) => {
                let span = info_span!("retire", %job, %epoch, %checkpoint);
                let retired = ask_store!(log.retire(checkpoint)).instrument(span);
                retired.await.map_err(JobError::Checkpoint)?;
                continue;
            }
            LogRequest::Settle(checkpoint) => {
                let span = info_span!("record_settled", %job, %epoch, %checkpoint);
                let settled = ask_store!(log.settle(checkpoint, &[])).instrument(span);
                match settled.await.map_err(JobError::Checkpoint)? {
                    Written::Done => CoordinatorEvent::Settled(checkpoint),
                    Written::Fenced { by, .. } => CoordinatorEvent::Fenced(by),
                }
            }
            LogRequest::Discard(objects) => {
                let span = info_span!("discard", %job, %epoch);
                let discarded = ask_store!(log.discard(&objects)).instrument(span);
                discarded.await.map_err(JobError::Checkpoint)?;
                continue;
            }
            LogRequest::Decide(manifest, settled) => {
                let checkpoint = manifest.checkpoint;
                if let Some(settled) = settled {
                    log.note_settled(settled);
                }
                let span = info_span!("decide", %job, %epoch, %checkpoint);
                let decided = ask_store!(log.decide(&manifest)).instrument(span);
                match decided.await {
                    Ok(Written::Done) => CoordinatorEvent::Decided(checkpoint),
                    Ok(Written::Fenced { by, unwritten }) => {
                        if unwritten && events.send(Event::Unwritten).await.is_err() {
                            return Err(Failure::Cancelled);
                        }
                        CoordinatorEvent::Fenced(by)
                    }
                    // Unknown: whether it is decided is for recovery to read.
                    Err(error) => {
                        let event = CoordinatorEvent::Undecidable(checkpoint, chain(&error));
                        // Whoever can't receive this any more has given up already.
                        let _told = events.send(Event::Protocol(event)).await;
                        return Err(JobError::Checkpoint(error).into());
                    }
                }
            }
        };
        if events.send(Event::Protocol(event)).await.is_err() {
            return Err(Failure::Cancelled);
        }
    }
    Ok(())
}
