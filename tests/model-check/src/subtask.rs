//! Drives the participants of a run, as the runtime's committers do.

use cofferdam::protocol::{
    Barrier, CoordinatorEvent, ParticipantAction, ParticipantEvent, ParticipantId, Vote,
};

use crate::bounds::Bounds;
use crate::mutant::Mutant;
use crate::outside::Found;
use crate::process::{End, Message, Process, Run};
use crate::step::{Answer, Step};
use crate::world::World;

impl World {
    pub(crate) fn subtask_steps(
        &self,
        bounds: &Bounds,
        who: usize,
        run: &Run,
        steps: &mut Vec<Step>,
    ) {
        for (subtask, it) in run.subtasks.iter().enumerate() {
            if !it.inbox.is_empty() {
                steps.push(Step::Prepare { who, subtask });
                if bounds.refusals {
                    steps.push(Step::Refuse { who, subtask });
                }
            }
            if !it.told.is_empty() {
                steps.push(Step::Deliver { who, subtask });
                if bounds.twice && matches!(it.told.front(), Some(Message::Confirm(_))) {
                    steps.push(Step::DeliverAgain { who, subtask });
                }
            }
            if it.committing.is_some() {
                let commit = |answer| Step::Commit {
                    who,
                    subtask,
                    answer,
                };
                steps.extend([Answer::Given, Answer::Lost].map(commit));
            }
            steps.extend((0..run.notified.len()).map(|decision| Step::Notify {
                who,
                subtask,
                decision,
            }));
        }
    }

    pub(crate) fn inject(&mut self, bounds: &Bounds, who: usize, subtask: usize, barrier: Barrier) {
        let Some(run) = self.running(who) else {
            return;
        };
        run.subtasks[subtask].inbox.push_back(barrier);
        if run.subtasks[subtask].inbox.len() == 1 {
            self.open(bounds, who, subtask);
        }
    }

    /// Begins the transaction that the next barrier of a subtask ends.
    fn open(&mut self, bounds: &Bounds, who: usize, subtask: usize) {
        let Some(run) = self.running(who).filter(|_| bounds.opens) else {
            return;
        };
        let Some(barrier) = run.subtasks[subtask].inbox.front() else {
            return;
        };
        let id = run.transaction(subtask, barrier.checkpoint);
        let shares = bounds.shares_of((id.sink, id.subtask), id.checkpoint.0, run.parallelism);
        if !shares.is_empty() {
            let beside = self.log.epoch();
            self.outside_mut().open(id, shares, beside);
        }
    }

    pub(crate) fn prepare(&mut self, bounds: &Bounds, who: usize, subtask: usize) {
        let Some(run) = self.running(who) else {
            return;
        };
        let Some(barrier) = run.subtasks[subtask].inbox.pop_front() else {
            return;
        };
        let checkpoint = barrier.checkpoint;
        let id = run.transaction(subtask, checkpoint);
        let shares = bounds.shares_of((id.sink, id.subtask), checkpoint.0, run.parallelism);
        let beside = self.log.epoch();
        let event = if shares.is_empty() {
            ParticipantEvent::Prepared(checkpoint, None)
        } else if self.outside_mut().prepare(id, shares, beside) {
            ParticipantEvent::Prepared(checkpoint, Some(()))
        } else {
            ParticipantEvent::NotPrepared(checkpoint, "it is gone".to_owned())
        };
        if bounds.makes(Mutant::CommitsAtVote) {
            self.outside_mut().commit(id);
        }
        self.open(bounds, who, subtask);
        self.tell(bounds, who, subtask, event);
    }

    /// A sink that fails to prepare leaves to recovery what it has begun.
    pub(crate) fn refuse(&mut self, bounds: &Bounds, who: usize, subtask: usize) {
        let inbox = self
            .running(who)
            .map(|run| &mut run.subtasks[subtask].inbox);
        let Some(barrier) = inbox.and_then(|inbox| inbox.pop_front()) else {
            return;
        };
        let event = ParticipantEvent::NotPrepared(barrier.checkpoint, "no room".to_owned());
        self.open(bounds, who, subtask);
        self.tell(bounds, who, subtask, event);
    }

    /// Gives an event to a participant, and does what it asks for.
    fn tell(&mut self, bounds: &Bounds, who: usize, subtask: usize, event: ParticipantEvent<()>) {
        let Some(run) = self.running(who) else {
            return;
        };
        let is_on = run.is_on();
        for action in run.subtasks[subtask].machine.on(event) {
            let Some(run) = self.running(who) else {
                return;
            };
            let message = match action {
                ParticipantAction::Vote(checkpoint, Vote::Abort(_)) => {
                    Message::Vote(checkpoint, None)
                }
                ParticipantAction::Vote(checkpoint, Vote::Commit(mut pending)) => {
                    if bounds.makes(Mutant::ForgetsPending) {
                        pending.retain(|(of, ())| *of == checkpoint);
                    }
                    let ids = pending.iter().map(|(of, ())| run.transaction(subtask, *of));
                    Message::Vote(checkpoint, Some(ids.collect()))
                }
                ParticipantAction::Confirm(_) if bounds.makes(Mutant::NeverConfirms) => continue,
                ParticipantAction::Confirm(checkpoint) => Message::Confirm(checkpoint),
                ParticipantAction::Commit(checkpoint, ()) => {
                    let before = run.subtasks[subtask].committing.replace(checkpoint);
                    assert_eq!(before, None, "two commits of a subtask at once");
                    if bounds.makes(Mutant::ConfirmsBeforeCommit) {
                        Message::Confirm(checkpoint)
                    } else {
                        continue;
                    }
                }
                ParticipantAction::Abort(checkpoint, ()) => {
                    let id = run.transaction(subtask, checkpoint);
                    self.outside_mut().abort(id.epoch, id);
                    continue;
                }
            };
            if is_on {
                run.subtasks[subtask].told.push_back(message);
            }
        }
        if bounds.prompt {
            self.deliver(bounds, who, subtask);
        }
    }

    /// The coordinator hears the next message of a subtask.
    pub(crate) fn deliver(&mut self, bounds: &Bounds, who: usize, subtask: usize) {
        let told = self.running(who).map(|run| &mut run.subtasks[subtask].told);
        let Some(message) = told.and_then(|told| told.pop_front()) else {
            return;
        };
        let participant = ParticipantId(subtask);
        let event = match message {
            Message::Vote(checkpoint, prepared) => CoordinatorEvent::Voted {
                checkpoint,
                participant,
                vote: match prepared {
                    Some(prepared) => Vote::Commit(prepared),
                    None => Vote::Abort("it could not prepare".to_owned()),
                },
            },
            Message::Confirm(checkpoint) => CoordinatorEvent::Confirmed {
                checkpoint,
                participant,
            },
        };
        self.coordinate(bounds, who, event);
    }

    /// The coordinator hears the next message of a subtask, which stays on its way.
    pub(crate) fn deliver_again(&mut self, bounds: &Bounds, who: usize, subtask: usize) {
        let Some(run) = self.running(who) else {
            return;
        };
        if let Some(message) = run.subtasks[subtask].told.front().cloned() {
            run.subtasks[subtask].told.push_front(message);
            self.deliver(bounds, who, subtask);
        }
    }

    pub(crate) fn notify(&mut self, bounds: &Bounds, who: usize, subtask: usize, decision: usize) {
        let decision = self
            .running(who)
            .and_then(|run| run.notified.get(decision).copied());
        if let Some(decision) = decision {
            self.tell(bounds, who, subtask, ParticipantEvent::Decision(decision));
        }
    }

    pub(crate) fn commit(&mut self, bounds: &Bounds, who: usize, subtask: usize, answer: Answer) {
        let Some(run) = self.running(who) else {
            return;
        };
        let Some(checkpoint) = run.subtasks[subtask].committing else {
            return;
        };
        let id = run.transaction(subtask, checkpoint);
        let found = self.outside_mut().commit(id);
        if answer != Answer::Given {
            return;
        }
        if found == Found::Nothing && !bounds.makes(Mutant::UnknownIsCommitted) {
            self.processes[who] = Process::Ended(End::Lost);
            return;
        }
        if let Some(run) = self.running(who) {
            run.subtasks[subtask].committing = None;
        }
        self.tell(
            bounds,
            who,
            subtask,
            ParticipantEvent::Committed(checkpoint),
        );
    }
}
