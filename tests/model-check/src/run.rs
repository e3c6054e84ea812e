//! Drives a [`Coordinator`](cofferdam::protocol::Coordinator) and writes its decisions, as the runtime does.

use std::sync::Arc;

use cofferdam::protocol::{CoordinatorAction, CoordinatorEvent, Decision, ParticipantId, Vote};
use cofferdam::{CheckpointId, Create};

use crate::bounds::Bounds;
use crate::log::{Manifest, Record};
use crate::mutant::Mutant;
use crate::outside::Transaction;
use crate::process::{End, Over, Process, Run};
use crate::step::{Answer, Step};
use crate::world::World;

type Event = CoordinatorEvent<Vec<Transaction>>;

impl World {
    pub(crate) fn run_steps(&self, bounds: &Bounds, who: usize, run: &Run, steps: &mut Vec<Step>) {
        if run.is_on() {
            let more = run.begun.0 < bounds.checkpoints && !run.stopping;
            if more && run.under_way.is_none() && run.deciding.is_none() {
                steps.push(Step::Trigger { who });
            }
            if more && bounds.stops {
                steps.push(Step::Stop { who });
            }
            if bounds.time_outs && run.under_way.is_some() {
                steps.push(Step::TimeOut { who });
            }
        }
        if run.deciding.is_some() {
            steps.extend(
                self.answers(bounds)
                    .map(|answer| Step::Decide { who, answer }),
            );
            steps.push(Step::GiveUp { who });
        }
        if run.settling.is_some() {
            let settle = |answer| Step::Settle { who, answer };
            steps.extend(self.answers(bounds).map(settle));
        }
        if !run.source_told.is_empty() {
            steps.push(Step::HearSource { who });
        }
        if !run.retiring.is_empty() {
            steps.push(Step::Retire { who });
        }
        self.subtask_steps(bounds, who, run, steps);
    }

    pub(crate) fn running(&mut self, who: usize) -> Option<&mut Run> {
        match &mut self.processes[who] {
            Process::Running(run) => Some(Arc::make_mut(run)),
            _ => None,
        }
    }

    /// Gives an event to the coordinator, and does what it asks for.
    pub(crate) fn coordinate(&mut self, bounds: &Bounds, who: usize, event: Event) {
        let Some(run) = self.running(who) else {
            return;
        };
        for action in run.coordinator.on(event) {
            let Some(run) = self.running(who) else {
                return;
            };
            match action {
                CoordinatorAction::Inject(barrier) => {
                    run.begun = barrier.checkpoint;
                    run.under_way = Some(barrier);
                    if bounds.source {
                        run.source_told.push_back(barrier.checkpoint);
                    }
                    for subtask in 0..run.subtasks.len() {
                        self.inject(bounds, who, subtask, barrier);
                    }
                }
                CoordinatorAction::Decide {
                    barrier,
                    snapshots,
                    settled,
                } => {
                    run.under_way = None;
                    let settled = match bounds.makes(Mutant::DecidesAsSettled) {
                        true => Some(barrier.checkpoint),
                        false => settled.max(run.held.settled),
                    };
                    let record = Record {
                        epoch: run.held.epoch,
                        owner: who,
                        previous_decision: run.held.newest_decision,
                        settled,
                        decided: Some(Manifest {
                            checkpoint: barrier.checkpoint,
                            prepared: snapshots.concat(),
                        }),
                    };
                    let before = run.deciding.replace((barrier, record));
                    assert_eq!(before, None, "two decisions at once");
                }
                CoordinatorAction::Notify(decision) => run.notified.push(decision),
                CoordinatorAction::Settle(checkpoint) => run.settling = Some(checkpoint),
                CoordinatorAction::Retire(checkpoint) => run.retiring.push(checkpoint),
                CoordinatorAction::RollBack(_) => run.give_up(Over::RolledBack),
                CoordinatorAction::StopFenced(by) => run.give_up(Over::Fenced(by)),
                CoordinatorAction::Finish => {
                    let epoch = run.held.epoch;
                    self.processes[who] = Process::Ended(End::Finished(epoch));
                }
            }
        }
    }

    pub(crate) fn hear_source(&mut self, bounds: &Bounds, who: usize) {
        let Some(run) = self.running(who) else {
            return;
        };
        if let Some(checkpoint) = run.source_told.pop_front() {
            let event = CoordinatorEvent::Voted {
                checkpoint,
                participant: ParticipantId(run.subtasks.len()),
                vote: Vote::Commit(Vec::new()),
            };
            self.coordinate(bounds, who, event);
        }
    }

    pub(crate) fn time_out(&mut self, bounds: &Bounds, who: usize) {
        let Some(run) = self.running(who) else {
            return;
        };
        let Some(barrier) = run.under_way else {
            return;
        };
        if !barrier.last {
            run.under_way = None;
        }
        if bounds.makes(Mutant::AbortsDropped) {
            run.notified.push(Decision::Abort(barrier.checkpoint));
        }
        self.coordinate(bounds, who, CoordinatorEvent::TimedOut(barrier.checkpoint));
    }

    /// Writes the decision to the log.
    pub(crate) fn decide(&mut self, bounds: &Bounds, who: usize, answer: Answer) {
        let Some(run) = self.running(who) else {
            return;
        };
        let Some((barrier, record)) = run.deciding.clone() else {
            return;
        };
        let checkpoint = barrier.checkpoint;
        let no_fencing = bounds.makes(Mutant::NoFencing);
        let mut number = run.held.newest + 1;
        if no_fencing {
            number = number.max(self.log.newest() + 1);
        }
        if answer == Answer::Late {
            return self.send_late(number, record);
        }
        let created = self.log_mut().create(number, &record);
        if answer == Answer::Lost {
            if bounds.makes(Mutant::LostAnswerIsFailure) {
                self.roll_back_and_abort(bounds, who, checkpoint);
            }
            return;
        }
        let own = created == Create::Created
            || bounds.makes(Mutant::ExistsIsDecided)
            || self
                .log
                .records
                .get(&number)
                .is_some_and(|found| found.owner == who);
        let in_gap = self.log.newest() != number
            && !bounds.makes(Mutant::CountsRecordsInGaps)
            && !bounds.makes(Mutant::ExistsIsDecided);
        let by = self.log.epoch();
        if let Some(run) = self.running(who) {
            run.deciding = None;
            if own && !in_gap {
                run.held.newest = number;
                run.held.newest_decision = Some(number);
                run.held.settled = record.settled;
                run.kept.insert(checkpoint, number);
            }
        }
        let event = match own && !in_gap {
            true => CoordinatorEvent::Decided(checkpoint),
            false => CoordinatorEvent::Fenced(by),
        };
        self.coordinate(bounds, who, event);
    }

    /// Records in the log that the last checkpoint is settled.
    pub(crate) fn settle_last(&mut self, bounds: &Bounds, who: usize, answer: Answer) {
        let Some(run) = self.running(who) else {
            return;
        };
        let (mut held, Some(checkpoint)) = (run.held.clone(), run.settling) else {
            return;
        };
        let Some(counts) = self.record_settled(who, &mut held, checkpoint, answer) else {
            return;
        };
        if let Some(run) = self.running(who) {
            run.held = held;
            run.settling = None;
        }
        let event = match counts {
            true => CoordinatorEvent::Settled(checkpoint),
            false => CoordinatorEvent::Fenced(self.log.epoch()),
        };
        self.coordinate(bounds, who, event);
    }

    fn roll_back_and_abort(&mut self, bounds: &Bounds, who: usize, checkpoint: CheckpointId) {
        if let Some(run) = self.running(who) {
            run.notified.push(Decision::Abort(checkpoint));
        }
        self.give_up(bounds, who);
    }

    /// The log keeper gives up: whether it is decided is for recovery to read.
    pub(crate) fn give_up(&mut self, bounds: &Bounds, who: usize) {
        let Some(run) = self.running(who) else {
            return;
        };
        let Some((barrier, _)) = run.deciding.take() else {
            return;
        };
        let checkpoint = barrier.checkpoint;
        if bounds.makes(Mutant::AbortsUndecidable) {
            run.notified.push(Decision::Abort(checkpoint));
        }
        let reason = "no answer".to_owned();
        self.coordinate(
            bounds,
            who,
            CoordinatorEvent::Undecidable(checkpoint, reason),
        );
    }

    /// Deletes a checkpoint that is to be retired, whenever the log keeper comes to it.
    pub(crate) fn retire(&mut self, who: usize) {
        let Some(run) = self.running(who) else {
            return;
        };
        let checkpoint = run.retiring.remove(0);
        let by = run.held.epoch;
        if let Some(number) = run.kept.remove(&checkpoint) {
            self.log_mut().delete(by, number);
        }
    }
}

impl Run {
    /// Nothing that subtasks tell is heard any more, and the clock has stopped.
    fn give_up(&mut self, over: Over) {
        self.over = Some(over);
        self.under_way = None;
        self.source_told.clear();
        for subtask in &mut self.subtasks {
            subtask.told.clear();
        }
    }
}
