//! A subtask: a chain, and its part in checkpoints.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::{Instrument, info_span};

use super::failure::{Failure, JobError};
use super::patience::ask_store;
use super::run::Event;
use crate::checkpoint::{
    CheckpointStore, PreparedTransaction, SplitSnapshot, StatePart, write_state,
};
use crate::error::chain;
use crate::identity::{CheckpointId, Epoch, JobId, OperatorId, SubtaskIndex};
use crate::pipeline::{Cut, Record, Signal, Stage};
use crate::protocol::{Barrier, CoordinatorEvent, ParticipantId, Vote};

/// What a participant adds to a checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) splits: Vec<SplitSnapshot>,
    pub(crate) state: Vec<StatePart>,
    pub(crate) transactions: Vec<PreparedTransaction>,
    pub(crate) counts: BTreeMap<String, u64>,
    /// How many bytes of state were stored.
    pub(crate) size: u64,
}

/// Who a subtask is, and whom it answers.
#[derive(Debug, Clone)]
pub(crate) struct Seat {
    pub(crate) participant: ParticipantId,
    pub(crate) job: JobId,
    pub(crate) epoch: Epoch,
    pub(crate) subtask: SubtaskIndex,
    pub(crate) store: Arc<dyn CheckpointStore>,
    pub(crate) events: mpsc::Sender<Event>,
}

/// A running chain with its seat.
pub(crate) struct Subtask<T, N> {
    seat: Seat,
    stage: N,
    /// State on its way to the store: records go on meanwhile.
    voting: JoinSet<Result<(), Failure>>,
    records: PhantomData<fn(T)>,
}

impl<T: Send + 'static, N: Stage<T>> Subtask<T, N> {
    pub(crate) fn new(seat: Seat, stage: N) -> Self {
        Self {
            seat,
            stage,
            voting: JoinSet::new(),
            records: PhantomData,
        }
    }

    /// Takes a record through the chain.
    #[inline]
    pub(crate) fn push(&mut self, record: Record<T>) {
        self.stage.push(record);
    }

    /// Takes a signal behind records through the chain.
    pub(crate) async fn signal(&mut self, signal: Signal) -> Result<(), Failure> {
        self.stage.signal(signal, &mut Cut::default()).await
    }

    /// Takes a barrier through the chain and votes; the vote is cast once the state is stored.
    pub(crate) async fn barrier(
        &mut self,
        barrier: Barrier,
        splits: Vec<SplitSnapshot>,
        count: impl FnOnce(&mut Cut),
    ) -> Result<(), Failure> {
        let Seat {
            job,
            epoch,
            subtask,
            ..
        } = &self.seat;
        let checkpoint = barrier.checkpoint;
        let span = info_span!("snapshot", %job, %epoch, %subtask, %checkpoint);
        let mut cut = Cut::default();
        count(&mut cut);
        self.stage
            .signal(Signal::Barrier(barrier), &mut cut)
            .instrument(span)
            .await?;
        let seat = self.seat.clone();
        self.voting.spawn(seat.vote(checkpoint, splits, cut));
        Ok(())
    }

    /// Waits until a vote could not be cast; for ever, if all can.
    pub(crate) async fn vote_failed(&mut self) -> Failure {
        loop {
            match self.voting.join_next().await {
                None => return std::future::pending().await,
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(failure))) => return failure,
                Some(Err(error)) => return JobError::Panicked(error.to_string()).into(),
            }
        }
    }

    /// Waits until all votes are cast.
    pub(crate) async fn votes_cast(&mut self) -> Result<(), Failure> {
        while let Some(vote) = self.voting.join_next().await {
            vote.map_err(|error| JobError::Panicked(error.to_string()))??;
        }
        Ok(())
    }

    /// Lets go of what is open.
    pub(crate) async fn cancel(&mut self) {
        // The stages have no way to fail in this: they have said what is left to recovery.
        if let Err(Failure::Error(error)) =
            self.stage.signal(Signal::Cancel, &mut Cut::default()).await
        {
            tracing::warn!(error = chain(&*error), "not let go of");
        }
    }
}

impl Seat {
    async fn vote(
        self,
        checkpoint: CheckpointId,
        splits: Vec<SplitSnapshot>,
        cut: Cut,
    ) -> Result<(), Failure> {
        let mut state = Vec::with_capacity(cut.state.len());
        let size = cut
            .state
            .iter()
            .map(|(_, content)| content.len() as u64)
            .sum();
        for (operator, content) in cut.state {
            state.push(self.store_state(checkpoint, &operator, &content).await?);
        }
        let snapshot = Snapshot {
            splits,
            state,
            transactions: Vec::new(),
            counts: cut.counts,
            size,
        };
        let Seat {
            job,
            epoch,
            subtask,
            participant,
            ..
        } = &self;
        let span = info_span!("vote", %job, %epoch, %subtask, %checkpoint);
        let vote = Vote::Commit(snapshot);
        let voted = CoordinatorEvent::Voted {
            checkpoint,
            participant: *participant,
            vote,
        };
        let told = self
            .events
            .send(Event::Protocol(voted))
            .instrument(span)
            .await;
        told.map_err(|_| Failure::Cancelled)
    }

    /// Stores a state part. No answer is tried again for some seconds; after that the run is given up.
    async fn store_state(
        &self,
        checkpoint: CheckpointId,
        operator: &OperatorId,
        content: &[u8],
    ) -> Result<StatePart, JobError> {
        let (epoch, subtask) = (self.epoch, self.subtask);
        let store = &*self.store;
        ask_store!(write_state(
            store, epoch, checkpoint, operator, subtask, content
        ))
        .await
        .map_err(JobError::Checkpoint)
    }
}
