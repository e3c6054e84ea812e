//! The coordinator of a job's checkpoints.

use std::collections::{BTreeMap, BTreeSet};

use super::{Barrier, Decision, ParticipantId, Vote};
use crate::identity::{CheckpointId, Epoch};

/// What the coordinator has to know of the job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CoordinatorSettings {
    /// How many participants vote.
    pub participants: usize,
    /// Which of them confirm commits: the sink subtasks.
    pub committers: BTreeSet<ParticipantId>,
    /// How many checkpoints in a row may be dropped before the job rolls back.
    pub tolerable_failures: u32,
    /// How many decided checkpoints may be unconfirmed before no new one is begun; at least 1.
    pub max_unconfirmed: usize,
    /// Whether prepared transactions of a dropped checkpoint can ride with the next. If not, it rolls the job back.
    pub subsumes: bool,
    /// How many decided checkpoints are kept; at least 1.
    pub retained: usize,
}

/// What the coordinator is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CoordinatorEvent<S> {
    /// It is time for a checkpoint.
    Trigger,
    /// Make a last checkpoint, then end: the input has ended, or the job was told to stop.
    Stop,
    /// A participant answered a barrier.
    Voted {
        /// Which barrier.
        checkpoint: CheckpointId,
        /// Who.
        participant: ParticipantId,
        /// What.
        vote: Vote<S>,
    },
    /// The votes took too long. Of the last barrier it may come again.
    TimedOut(CheckpointId),
    /// The decision is in the log.
    Decided(CheckpointId),
    /// The log gave no answer for so long that the job has to find out by recovery.
    Undecidable(CheckpointId, String),
    /// The log answered that a newer epoch holds the job.
    Fenced(Epoch),
    /// The log records that this checkpoint is settled.
    Settled(CheckpointId),
    /// All that a participant had prepared up to this checkpoint is committed.
    Confirmed {
        /// Up to which.
        checkpoint: CheckpointId,
        /// Who.
        participant: ParticipantId,
    },
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CoordinatorAction<S> {
    /// Send this barrier into every source subtask, and watch the time.
    Inject(Barrier),
    /// All have voted commit: write this to the log. A store error is no answer: write again.
    Decide {
        /// The checkpoint.
        barrier: Barrier,
        /// What the participants gave with their votes, in their order.
        snapshots: Vec<S>,
        /// The newest older checkpoint that is settled: everything that it and those before it name is committed.
        settled: Option<CheckpointId>,
    },
    /// Tell all participants.
    Notify(Decision),
    /// Delete this decided checkpoint: nothing in it is in doubt, and enough newer ones are kept.
    Retire(CheckpointId),
    /// Give up this run and recover from the newest decided checkpoint.
    RollBack(String),
    /// A newer epoch holds the job: end, touch nothing.
    StopFenced(Epoch),
    /// Everything that this checkpoint and older ones name is committed, and no later checkpoint follows: record that in
    /// the log.
    Settle(CheckpointId),
    /// The last checkpoint is decided, everything is committed, and the log says so.
    Finish,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Phase<S> {
    Idle,
    Voting {
        barrier: Barrier,
        votes: BTreeMap<ParticipantId, S>,
    },
    Deciding(Barrier),
    /// The last checkpoint is decided.
    Draining,
    /// Everything is committed, and the log is about to say so.
    Settling(CheckpointId),
    /// Rolled back, fenced or finished: no event changes anything any more.
    Over,
}

/// The coordinator: turns triggers, votes, time-outs and confirmations into barriers and decisions.
///
/// One checkpoint is under way at a time. What a vote carries (`S`) is opaque.
///
/// * All votes commit → decide. Only the log's answer makes a decision; no answer changes nothing.
/// * A vote to abort → abort, roll back: the participant's transaction is gone.
/// * Time-out before anyone failed → dropped. What was prepared for it rides with the next (participants list it in
///   their next vote), up to a tolerable number in a row. The last checkpoint has no next: it rolls back.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Coordinator<S> {
    settings: CoordinatorSettings,
    next: CheckpointId,
    phase: Phase<S>,
    stopping: bool,
    failures_in_a_row: u32,
    /// Kept decided checkpoints, each with who has not confirmed it.
    decided: BTreeMap<CheckpointId, BTreeSet<ParticipantId>>,
}

impl<S> Coordinator<S> {
    /// For a run that goes on after recovery. `kept` are the decided checkpoints in the log, all settled; the next
    /// checkpoint is the one after the newest of them.
    pub fn new(settings: CoordinatorSettings, kept: &[CheckpointId]) -> Self {
        Self {
            next: kept.iter().max().copied().unwrap_or_default().next(),
            decided: kept
                .iter()
                .map(|checkpoint| (*checkpoint, BTreeSet::new()))
                .collect(),
            settings,
            phase: Phase::Idle,
            stopping: false,
            failures_in_a_row: 0,
        }
    }

    /// Takes an event, returns what is to be done, in order.
    pub fn on(&mut self, event: CoordinatorEvent<S>) -> Vec<CoordinatorAction<S>> {
        if matches!(self.phase, Phase::Over) {
            return Vec::new();
        }
        match event {
            CoordinatorEvent::Trigger => self.begin(false),
            CoordinatorEvent::Stop => {
                self.stopping = true;
                self.begin(true)
            }
            CoordinatorEvent::Voted {
                checkpoint,
                participant,
                vote,
            } => self.voted(checkpoint, participant, vote),
            CoordinatorEvent::TimedOut(checkpoint) => self.timed_out(checkpoint),
            CoordinatorEvent::Decided(checkpoint) => self.decided(checkpoint),
            CoordinatorEvent::Undecidable(checkpoint, reason) => match &self.phase {
                // Not aborted: it may be decided, now or later. Recovery reads what is true.
                Phase::Deciding(barrier) if barrier.checkpoint == checkpoint => self.roll_back(
                    format!("the decision for checkpoint {checkpoint} can't be written: {reason}"),
                ),
                _ => Vec::new(),
            },
            // Everything is committed: the newer epoch finds that out by itself.
            CoordinatorEvent::Fenced(_) if matches!(self.phase, Phase::Settling(_)) => {
                self.finish()
            }
            CoordinatorEvent::Fenced(by) => {
                self.phase = Phase::Over;
                vec![CoordinatorAction::StopFenced(by)]
            }
            CoordinatorEvent::Settled(checkpoint) => match self.phase {
                Phase::Settling(settling) if settling == checkpoint => self.finish(),
                _ => Vec::new(),
            },
            CoordinatorEvent::Confirmed {
                checkpoint,
                participant,
            } => self.confirmed(checkpoint, participant),
        }
    }

    /// Returns whether no checkpoint is under way, and none can begin before older ones are confirmed.
    pub fn waits_for_commits(&self) -> bool {
        let missing = self.decided.values();
        let unconfirmed = missing.filter(|missing| !missing.is_empty()).count();
        matches!(self.phase, Phase::Idle) && unconfirmed >= self.settings.max_unconfirmed
    }

    fn begin(&mut self, last: bool) -> Vec<CoordinatorAction<S>> {
        if !matches!(self.phase, Phase::Idle) || self.waits_for_commits() {
            return Vec::new();
        }
        let barrier = Barrier {
            checkpoint: self.next,
            last: last || self.stopping,
        };
        self.next = self.next.next();
        self.phase = Phase::Voting {
            barrier,
            votes: BTreeMap::new(),
        };
        vec![CoordinatorAction::Inject(barrier)]
    }

    fn voted(
        &mut self,
        checkpoint: CheckpointId,
        participant: ParticipantId,
        vote: Vote<S>,
    ) -> Vec<CoordinatorAction<S>> {
        let snapshot = match vote {
            Vote::Commit(snapshot) => snapshot,
            Vote::Abort(reason) => return self.vote_to_abort(checkpoint, &reason),
        };
        let Phase::Voting { barrier, votes } = &mut self.phase else {
            return Vec::new();
        };
        // A vote for a dropped checkpoint: what was prepared is listed again in the participant's next vote.
        if barrier.checkpoint != checkpoint || participant.0 >= self.settings.participants {
            return Vec::new();
        }
        votes.insert(participant, snapshot);
        if votes.len() < self.settings.participants {
            return Vec::new();
        }
        let (barrier, votes) = (*barrier, std::mem::take(votes));
        self.phase = Phase::Deciding(barrier);
        vec![CoordinatorAction::Decide {
            barrier,
            snapshots: votes.into_values().collect(),
            settled: self.settled(),
        }]
    }

    fn vote_to_abort(
        &mut self,
        checkpoint: CheckpointId,
        reason: &str,
    ) -> Vec<CoordinatorAction<S>> {
        let reason = format!("checkpoint {checkpoint} was voted down: {reason}");
        let undecided = match &self.phase {
            Phase::Voting { barrier, .. } => Some(barrier.checkpoint),
            // The log may hold it, or come to hold it: only recovery can tell. (No participant that voted it down can
            // have voted for it; this is a vote on an older checkpoint, come late.)
            Phase::Deciding(_) => None,
            Phase::Idle | Phase::Draining | Phase::Settling(_) | Phase::Over => Some(checkpoint),
        };
        let newest_decided = self.decided.keys().next_back().copied().unwrap_or_default();
        let mut actions: Vec<_> = undecided
            .map(|undecided| undecided.min(checkpoint))
            .filter(|undecided| *undecided > newest_decided)
            .map(|undecided| CoordinatorAction::Notify(Decision::Abort(undecided)))
            .into_iter()
            .collect();
        actions.extend(self.roll_back(reason));
        actions
    }

    fn timed_out(&mut self, checkpoint: CheckpointId) -> Vec<CoordinatorAction<S>> {
        let (missing, last) = match &self.phase {
            Phase::Voting { barrier, votes } if barrier.checkpoint == checkpoint => {
                (self.settings.participants - votes.len(), barrier.last)
            }
            _ => return Vec::new(),
        };
        self.failures_in_a_row += 1;
        let all = self.settings.participants;
        let late =
            format!("{missing} of {all} votes for checkpoint {checkpoint} did not come in time");
        if last {
            // Sources end with the last barrier, so no other can follow it: wait on, as long as is tolerated.
            let times = self.failures_in_a_row;
            return match times > self.settings.tolerable_failures {
                true => self.roll_back(format!("{late}; waited for {times} times in a row")),
                false => Vec::new(),
            };
        }
        self.phase = Phase::Idle;
        if !self.settings.subsumes {
            return self.roll_back(format!(
                "{late}, and a sink of this job can't hold what it prepared for it beside the next"
            ));
        }
        if self.failures_in_a_row > self.settings.tolerable_failures {
            let times = self.failures_in_a_row;
            return self.roll_back(format!("{late}; it is dropped number {times} in a row"));
        }
        if self.stopping {
            self.begin(true)
        } else {
            Vec::new()
        }
    }

    fn decided(&mut self, checkpoint: CheckpointId) -> Vec<CoordinatorAction<S>> {
        let barrier = match self.phase {
            Phase::Deciding(barrier) if barrier.checkpoint == checkpoint => barrier,
            _ => return Vec::new(),
        };
        self.failures_in_a_row = 0;
        self.decided
            .insert(checkpoint, self.settings.committers.clone());
        self.phase = if barrier.last {
            Phase::Draining
        } else {
            Phase::Idle
        };
        let mut actions = vec![CoordinatorAction::Notify(Decision::Commit(checkpoint))];
        actions.extend(self.go_on());
        actions
    }

    fn confirmed(
        &mut self,
        checkpoint: CheckpointId,
        participant: ParticipantId,
    ) -> Vec<CoordinatorAction<S>> {
        for missing in self
            .decided
            .range_mut(..=checkpoint)
            .map(|(_, missing)| missing)
        {
            missing.remove(&participant);
        }
        self.go_on()
    }

    /// What a decision or a confirmation makes possible.
    fn go_on(&mut self) -> Vec<CoordinatorAction<S>> {
        let mut actions = Vec::new();
        while self.decided.len() > self.settings.retained.max(1) {
            match self.decided.first_entry() {
                Some(oldest) if oldest.get().is_empty() => {
                    actions.push(CoordinatorAction::Retire(oldest.remove_entry().0));
                }
                _ => break,
            }
        }
        if self.stopping {
            actions.extend(self.begin(true));
        }
        let settled = self.decided.values().all(BTreeSet::is_empty);
        let newest = self.decided.keys().next_back().copied();
        if let (true, Phase::Draining, Some(newest)) = (settled, &self.phase, newest) {
            self.phase = Phase::Settling(newest);
            actions.push(CoordinatorAction::Settle(newest));
        }
        actions
    }

    /// The newest decided checkpoint that is settled together with all older ones; `None` if there is none.
    fn settled(&self) -> Option<CheckpointId> {
        let confirmed =
            |(_, missing): &(&CheckpointId, &BTreeSet<ParticipantId>)| missing.is_empty();
        let settled = self.decided.iter().take_while(confirmed).last();
        settled.map(|(checkpoint, _)| *checkpoint)
    }

    fn finish(&mut self) -> Vec<CoordinatorAction<S>> {
        self.phase = Phase::Over;
        vec![CoordinatorAction::Finish]
    }

    fn roll_back(&mut self, reason: String) -> Vec<CoordinatorAction<S>> {
        self.phase = Phase::Over;
        vec![CoordinatorAction::RollBack(reason)]
    }
}
