//! A run under construction: the place where chains become subtasks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::call::Calls;
use super::committer::Committer;
use super::counts::{Count, Counters};
use super::erased::ErasedSink;
use super::failure::Failure;
use super::run::Event;
use super::subtask::Seat;
use crate::checkpoint::{CheckpointStore, SplitSnapshot};
use crate::identity::{
    CheckpointId, Epoch, JobId, OperatorId, SinkId, SubtaskIndex, TransactionId,
};
use crate::protocol::{Barrier, Decision, ParticipantEvent, ParticipantId};
use crate::shard::Sharding;

/// A subtask or committer, ready to run.
pub(super) type Task = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// How many barriers a source subtask may be behind: more than may be dropped in a row.
const BARRIERS: usize = 64;
/// How many prepared transactions a committer may be behind.
const PREPARED: usize = 16;

/// All that a run consists of, before it begins.
pub struct Launch {
    pub(crate) job: JobId,
    pub(crate) calls: Calls,
    pub(crate) epoch: Epoch,
    /// The first checkpoint of the run.
    pub(crate) first: CheckpointId,
    pub(crate) parallelism: u32,
    pub(crate) sharding: Sharding,
    pub(crate) store: Arc<dyn CheckpointStore>,
    /// Restored state: objects and their content.
    pub(crate) state: BTreeMap<OperatorId, Vec<(String, Vec<u8>)>>,
    /// Restored splits.
    pub(crate) splits: Vec<SplitSnapshot>,
    pub(crate) counters: Counters,
    pub(crate) events: mpsc::Sender<Event>,
    /// True if the pipeline has window operators.
    pub(crate) windows: bool,
    /// What has been built.
    pub(super) tasks: Vec<Task>,
    pub(super) barriers: Vec<mpsc::Sender<Barrier>>,
    pub(super) holds: Vec<watch::Sender<bool>>,
    /// One channel a committer: receivers of a shared one would be woken in an order that is left to chance, and no run
    /// could be repeated step by step.
    pub(super) decisions: Vec<watch::Sender<Option<Decision>>>,
    pub(super) participants: usize,
    pub(super) committers: BTreeSet<ParticipantId>,
}

impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch")
            .field("job", &self.job)
            .finish_non_exhaustive()
    }
}

impl Launch {
    fn participant(&mut self) -> ParticipantId {
        self.participants += 1;
        ParticipantId(self.participants - 1)
    }

    /// A seat for a subtask, which votes.
    pub(crate) fn seat(&mut self, subtask: SubtaskIndex) -> Seat {
        Seat {
            participant: self.participant(),
            job: self.job.clone(),
            epoch: self.epoch,
            subtask,
            store: Arc::clone(&self.store),
            events: self.events.clone(),
        }
    }

    /// A way for barriers into a source subtask.
    pub(crate) fn barriers(&mut self) -> mpsc::Receiver<Barrier> {
        let (sender, receiver) = mpsc::channel(BARRIERS);
        self.barriers.push(sender);
        receiver
    }

    /// Tells a source subtask whether it is held back.
    pub(crate) fn hold(&mut self) -> watch::Receiver<bool> {
        let (sender, receiver) = watch::channel(false);
        self.holds.push(sender);
        receiver
    }

    /// Adds a subtask to the run.
    pub(crate) fn task(
        &mut self,
        task: impl Future<Output = Result<(), Failure>> + Send + 'static,
    ) {
        self.tasks.push(Box::pin(task));
    }

    /// Where chains of one subtask are built.
    pub(crate) fn site(&mut self, subtask: SubtaskIndex) -> Site<'_> {
        Site {
            launch: self,
            subtask,
        }
    }

    /// All subtasks of a part of the pipeline.
    pub(crate) fn subtasks(&self) -> impl Iterator<Item = SubtaskIndex> + use<> {
        (0..self.parallelism).map(SubtaskIndex)
    }

    pub(crate) fn count(&self, name: impl fmt::Display, what: &str) -> Count {
        self.counters.count(format!("{name}.{what}"))
    }
}

/// Where the chain of one subtask is built.
#[derive(Debug)]
pub struct Site<'a> {
    launch: &'a mut Launch,
    subtask: SubtaskIndex,
}

impl Site<'_> {
    pub(crate) fn sharding(&self) -> Sharding {
        self.launch.sharding.clone()
    }

    pub(crate) fn subtask(&self) -> usize {
        usize::try_from(self.subtask.0).unwrap_or(usize::MAX)
    }

    pub(super) fn calls(&self) -> Calls {
        self.launch.calls
    }

    /// The stored state of an operator, of all subtasks.
    pub(crate) fn state(&self, operator: &OperatorId) -> &[(String, Vec<u8>)] {
        self.launch.state.get(operator).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn count(&self, name: impl fmt::Display, what: &str) -> Count {
        self.launch.count(name, what)
    }

    /// The first transaction of a sink in this subtask.
    pub(crate) fn transaction(&self, sink: &SinkId) -> TransactionId {
        TransactionId {
            job: self.launch.job.clone(),
            sink: sink.clone(),
            epoch: self.launch.epoch,
            subtask: self.subtask,
            checkpoint: self.launch.first,
        }
    }

    /// Adds the committer of a sink subtask to the run. Returns the way to hand it prepared transactions, and the newest
    /// checkpoint whose transaction it has committed.
    pub(super) fn committer(
        &mut self,
        first: &TransactionId,
        sink: Arc<dyn ErasedSink>,
    ) -> (
        mpsc::Sender<ParticipantEvent<String>>,
        watch::Receiver<Option<CheckpointId>>,
    ) {
        let (sender, prepared) = mpsc::channel(PREPARED);
        let (decisions_in, decisions) = watch::channel(None);
        let (committed, committed_out) = watch::channel(None);
        self.launch.decisions.push(decisions_in);
        let participant = self.launch.participant();
        self.launch.committers.insert(participant);
        let committer = Committer {
            participant,
            id: first.clone(),
            sink,
            prepared,
            decisions,
            events: self.launch.events.clone(),
            committed,
            since: BTreeMap::new(),
            calls: self.launch.calls,
        };
        self.launch.task(committer.run());
        (sender, committed_out)
    }
}
