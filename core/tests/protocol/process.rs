//! One process of the world: a run of the job, from its takeover to its end.

use std::collections::VecDeque;

use cofferdam::protocol::{
    Barrier, Coordinator, CoordinatorAction, CoordinatorEvent, CoordinatorSettings, Decision,
    Participant, ParticipantAction, ParticipantEvent, ParticipantId, Settlement, SettlementAction,
    Vote,
};
use cofferdam::{CheckpointId, Epoch, JobId, SinkId, SubtaskIndex, TransactionId};

use crate::log::{Decided, Record};
use crate::outside::Handle;

/// What a vote carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Of the source.
    pub position: Option<u64>,
    pub prepared: Vec<(TransactionId, Handle)>,
}

/// A barrier on its way to a participant, with the records before it.
#[derive(Debug, Clone)]
pub struct Segment {
    pub barrier: Barrier,
    pub records: std::ops::Range<u64>,
}

/// A sink subtask: the real participant, and what its drivers hold.
#[derive(Debug)]
pub struct SinkSubtask {
    pub participant: ParticipantId,
    pub sink: SinkId,
    pub subtask: SubtaskIndex,
    pub machine: Participant<Handle>,
    pub inbox: VecDeque<Segment>,
    pub committing: Option<(CheckpointId, Handle)>,
    /// How many of the notifications have reached it, or been overtaken.
    pub told: usize,
    /// It has had the last barrier, and ended.
    pub ended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    Finished,
    RolledBack,
    Fenced,
}

/// The run of a process that has recovered.
#[derive(Debug)]
pub struct Run {
    pub coordinator: Coordinator<Snapshot>,
    pub parallelism: u32,
    pub sinks: Vec<SinkSubtask>,
    pub source_ended: bool,
    pub position: u64,
    pub votes: Vec<(CheckpointId, ParticipantId, Vote<Snapshot>)>,
    pub confirmations: Vec<(CheckpointId, ParticipantId)>,
    /// All that was ever told: any of it may arrive now, or again.
    pub notified: Vec<Decision>,
    pub begun: Vec<CheckpointId>,
    pub deciding: Option<(Barrier, Record)>,
    /// The next record number of this run.
    pub number: usize,
    pub over: Option<Over>,
}

#[derive(Debug)]
pub enum Stage {
    Recovering(Box<Settlement<Handle>>, SettlementAction<Handle>),
    Running(Box<Run>),
    Dead,
}

#[derive(Debug)]
pub struct Process {
    pub nonce: u64,
    pub parallelism: u32,
    pub epoch: Epoch,
    /// The number of its takeover record, and the checkpoint that it recovered from.
    pub takeover: usize,
    pub newest: Option<Decided>,
    pub stage: Stage,
}

pub fn sinks() -> [SinkId; 2] {
    ["files", "table"].map(|name| SinkId::new(name).expect("a name"))
}

impl Process {
    pub fn start(nonce: u64, parallelism: u32) -> Self {
        let (settlement, first) = Settlement::new(sinks(), Vec::new());
        Self {
            nonce,
            parallelism,
            epoch: Epoch(0),
            takeover: 0,
            newest: None,
            stage: Stage::Recovering(Box::new(settlement), first),
        }
    }

    pub fn run(&mut self) -> Option<&mut Run> {
        match &mut self.stage {
            Stage::Running(run) => Some(run),
            Stage::Recovering(..) | Stage::Dead => None,
        }
    }

    pub fn is_running(&self) -> bool {
        matches!(&self.stage, Stage::Running(run) if run.over.is_none())
    }
}

pub fn transaction(
    epoch: Epoch,
    sink: &SinkId,
    subtask: SubtaskIndex,
    checkpoint: CheckpointId,
) -> TransactionId {
    TransactionId {
        job: JobId::new("orders").expect("a name"),
        sink: sink.clone(),
        epoch,
        subtask,
        checkpoint,
    }
}

impl Run {
    pub fn new(
        mut settings: CoordinatorSettings,
        parallelism: u32,
        kept: &[CheckpointId],
        position: u64,
        number: usize,
    ) -> Self {
        let mut subtasks = Vec::new();
        // The source is participant 0; each sink has as many subtasks as the run has parallelism.
        for sink in sinks() {
            for subtask in 0..parallelism {
                subtasks.push(SinkSubtask {
                    participant: ParticipantId(subtasks.len() + 1),
                    sink: sink.clone(),
                    subtask: SubtaskIndex(subtask),
                    machine: Participant::new(),
                    inbox: VecDeque::new(),
                    committing: None,
                    told: 0,
                    ended: false,
                });
            }
        }
        settings.participants = subtasks.len() + 1;
        settings.committers = subtasks.iter().map(|sink| sink.participant).collect();
        Self {
            coordinator: Coordinator::new(settings, kept),
            parallelism,
            sinks: subtasks,
            source_ended: false,
            position,
            votes: Vec::new(),
            confirmations: Vec::new(),
            notified: Vec::new(),
            begun: Vec::new(),
            deciding: None,
            number,
            over: None,
        }
    }

    /// The source reads some records, then takes the barrier, forwards it and votes.
    pub fn inject(&mut self, barrier: Barrier, records: u64) {
        self.begun.push(barrier.checkpoint);
        if self.source_ended {
            return;
        }
        let from = self.position;
        self.position += records;
        self.source_ended = barrier.last;
        let segment = Segment {
            barrier,
            records: from..self.position,
        };
        for sink in self.sinks.iter_mut().filter(|sink| !sink.ended) {
            sink.inbox.push_back(segment.clone());
        }
        let vote = Vote::Commit(Snapshot {
            position: Some(self.position),
            prepared: Vec::new(),
        });
        self.votes
            .push((barrier.checkpoint, ParticipantId(0), vote));
    }

    pub fn coordinate(
        &mut self,
        event: CoordinatorEvent<Snapshot>,
    ) -> Vec<CoordinatorAction<Snapshot>> {
        self.coordinator.on(event)
    }

    /// Gives an event to a sink subtask, and arranges what it asks for; returns what is to be aborted.
    pub fn tell(
        &mut self,
        epoch: Epoch,
        index: usize,
        event: ParticipantEvent<Handle>,
    ) -> Vec<TransactionId> {
        let sink = &mut self.sinks[index];
        let mut aborted = Vec::new();
        for action in sink.machine.on(event) {
            let id = |checkpoint| transaction(epoch, &sink.sink, sink.subtask, checkpoint);
            match action {
                ParticipantAction::Vote(checkpoint, vote) => {
                    let vote = match vote {
                        Vote::Abort(reason) => Vote::Abort(reason),
                        Vote::Commit(prepared) => Vote::Commit(Snapshot {
                            position: None,
                            prepared: prepared
                                .into_iter()
                                .map(|(checkpoint, handle)| (id(checkpoint), handle))
                                .collect(),
                        }),
                    };
                    self.votes.push((checkpoint, sink.participant, vote));
                }
                ParticipantAction::Commit(checkpoint, handle) => {
                    assert_eq!(sink.committing, None, "two commits of a subtask at once");
                    sink.committing = Some((checkpoint, handle));
                }
                ParticipantAction::Abort(checkpoint, _) => aborted.push(id(checkpoint)),
                ParticipantAction::Confirm(checkpoint) => {
                    self.confirmations.push((checkpoint, sink.participant));
                }
            }
        }
        aborted
    }
}
