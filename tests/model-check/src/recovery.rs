//! Drives a [`Settlement`](cofferdam::protocol::Settlement), as the runtime does.

use std::collections::BTreeSet;
use std::sync::Arc;

use cofferdam::protocol::{
    Coordinator, CoordinatorSettings, NewestCheckpoint, Participant, ParticipantId,
    SettlementAction, SettlementEvent,
};
use cofferdam::{CheckpointId, Epoch, SinkId, TransactionId};

use crate::bounds::Bounds;
use crate::log::Record;
use crate::mutant::Mutant;
use crate::outside::{Found, Transaction, sink_number};
use crate::process::{End, Held, Process, Recovery, Run, Subtask};
use crate::step::{Answer, Step};
use crate::world::World;

type Event = SettlementEvent<Transaction>;

impl World {
    pub(crate) fn recovery_steps(
        &self,
        bounds: &Bounds,
        who: usize,
        recovery: &Recovery,
        steps: &mut Vec<Step>,
    ) {
        let step = |answer| Step::Recover { who, answer };
        match recovery.action {
            // Two that get no answer could go on to overtake each other for ever.
            SettlementAction::TakeEpoch if self.log.epoch().0 >= self.processes.len() as u64 => {
                steps.push(step(Answer::Given));
            }
            SettlementAction::TakeEpoch | SettlementAction::RecordSettled { .. } => {
                steps.extend(self.answers(bounds).map(step));
            }
            SettlementAction::Commit(..) => {
                steps.extend([Answer::Given, Answer::Lost].map(step));
            }
            _ => steps.push(step(Answer::Given)),
        }
    }

    /// Takes the next step of a recovery.
    pub(crate) fn recover(&mut self, bounds: &Bounds, who: usize, answer: Answer) {
        let Process::Recovering(shared) =
            std::mem::replace(&mut self.processes[who], Process::Waiting)
        else {
            return;
        };
        let mut recovery = Arc::unwrap_or_clone(shared);
        let event = match recovery.action.clone() {
            SettlementAction::TakeEpoch => self.take_over(bounds, who, &mut recovery, answer),
            SettlementAction::ReadNewest => match self.read_newest(bounds, &mut recovery) {
                Ok(event) => Some(event),
                Err(end) => {
                    self.processes[who] = Process::Ended(end);
                    return;
                }
            },
            SettlementAction::Commit(id, transaction) => self
                .settle(bounds, id, transaction)
                .filter(|_| answer == Answer::Given),
            SettlementAction::AbortStale {
                sink,
                epoch,
                decided,
            } => self.abort_stale(bounds, &mut recovery, sink, epoch, &decided),
            SettlementAction::RecordSettled { checkpoint, .. } => {
                match self.record_settled(who, &mut recovery.held, checkpoint, answer) {
                    Some(true) => Some(Event::Recorded),
                    Some(false) => {
                        self.processes[who] = Process::Ended(End::Outrun);
                        return;
                    }
                    None => None,
                }
            }
            SettlementAction::Begin(_) => {
                self.processes[who] = Process::Running(Arc::new(begin(bounds, who, recovery)));
                return;
            }
            SettlementAction::StopLost { .. } => {
                self.processes[who] = Process::Ended(End::Lost);
                return;
            }
        };
        if let Some(event) = event {
            let next = recovery.settlement.on(event);
            recovery.action = next.expect("each action is answered by its own event");
        }
        self.processes[who] = Process::Recovering(Arc::new(recovery));
    }

    fn take_over(
        &mut self,
        bounds: &Bounds,
        who: usize,
        recovery: &mut Recovery,
        answer: Answer,
    ) -> Option<Event> {
        let newest = self.log.newest();
        let own = |record: &&Record| record.owner == who;
        if self.log.records.get(&newest).filter(own).is_none() {
            let epoch = match bounds.makes(Mutant::KeepsEpoch) {
                true => self.log.epoch().max(Epoch(1)),
                false => self.log.epoch().next(),
            };
            let record = Record {
                epoch,
                owner: who,
                previous_decision: self.log.newest_decision(),
                settled: self.log.settled(),
                decided: None,
            };
            if answer == Answer::Late {
                self.send_late(newest + 1, record);
                return None;
            }
            let _looked_up_below = self.log_mut().create(newest + 1, &record);
        }
        if answer != Answer::Given {
            return None;
        }
        recovery.held.newest = self.log.newest();
        recovery.held.epoch = self.log.epoch();
        recovery.held.settled = self.log.settled();
        if !bounds.makes(Mutant::ReadsThenTakesOver) {
            recovery.held.newest_decision = self.log.newest_decision();
        }
        Some(Event::EpochTaken(recovery.held.epoch))
    }

    /// Reads the newest decision, and deletes what no kept decision needs.
    fn read_newest(&mut self, bounds: &Bounds, recovery: &mut Recovery) -> Result<Event, End> {
        let held = &recovery.held;
        let Some(chain) = self.log.chain(held.newest_decision) else {
            return Err(match self.log.epoch() > held.epoch {
                true => End::Outrun,
                false => End::Unreadable,
            });
        };
        recovery.newest = chain.first().map(|(_, manifest)| (*manifest).clone());
        recovery.kept = chain
            .into_iter()
            .map(|(number, manifest)| (manifest.checkpoint, number))
            .collect();
        let kept: BTreeSet<usize> = recovery.kept.values().copied().collect();
        let below = self.log.records.range(..held.newest);
        let unnamed: Vec<usize> = below
            .map(|(number, _)| *number)
            .filter(|number| !kept.contains(number) || bounds.makes(Mutant::DeletesKept))
            .collect();
        for number in unnamed {
            self.log_mut().delete(held.epoch, number);
        }
        if bounds.makes(Mutant::AbortsBeforeSettling) {
            let in_doubt: Vec<_> = self.outside.in_doubt().map(|(id, _)| id).collect();
            for id in in_doubt.into_iter().filter(|id| id.epoch < held.epoch) {
                self.outside_mut().abort(held.epoch, id);
            }
        }
        Ok(Event::Newest(recovery.newest.as_ref().map(|newest| {
            let rides = |id: &&Transaction| id.checkpoint != newest.checkpoint;
            let prepared = newest
                .prepared
                .iter()
                .filter(|id| !(bounds.makes(Mutant::SettlesNewestOnly) && rides(id)));
            NewestCheckpoint {
                checkpoint: newest.checkpoint,
                prepared: prepared.map(|id| (id.id(), *id)).collect(),
                settled: recovery.held.settled >= Some(newest.checkpoint)
                    || bounds.makes(Mutant::TakesDecidedForSettled),
                complete: false,
            }
        })))
    }

    /// Writes a record that says what is settled; whether it counts, or `None` if there is no answer.
    pub(crate) fn record_settled(
        &mut self,
        who: usize,
        held: &mut Held,
        checkpoint: CheckpointId,
        answer: Answer,
    ) -> Option<bool> {
        let number = held.newest + 1;
        let record = Record {
            epoch: held.epoch,
            owner: who,
            previous_decision: held.newest_decision,
            settled: Some(checkpoint),
            decided: None,
        };
        if answer == Answer::Late {
            self.send_late(number, record);
            return None;
        }
        let _looked_up_below = self.log_mut().create(number, &record);
        if answer != Answer::Given {
            return None;
        }
        let own = |record: &Record| record.owner == who;
        let counts = self.log.newest() == number && self.log.records.get(&number).is_some_and(own);
        if counts {
            held.newest = number;
            held.settled = Some(checkpoint);
        }
        Some(counts)
    }

    fn settle(
        &mut self,
        bounds: &Bounds,
        id: TransactionId,
        transaction: Transaction,
    ) -> Option<Event> {
        let skipped = bounds.makes(Mutant::RecoversFirstSinkOnly) && transaction.sink > 0;
        if skipped {
            return Some(Event::Committed(id));
        }
        Some(match self.outside_mut().commit(transaction) {
            Found::Nothing if !bounds.makes(Mutant::UnknownIsCommitted) => {
                Event::Lost(id, "neither it nor evidence of it is there".to_owned())
            }
            _ => Event::Committed(id),
        })
    }

    /// Lists, then aborts one transaction a step: what is listed may be old by then.
    fn abort_stale(
        &mut self,
        bounds: &Bounds,
        recovery: &mut Recovery,
        sink: SinkId,
        epoch: Epoch,
        decided: &[(TransactionId, Transaction)],
    ) -> Option<Event> {
        let number = sink_number(&sink);
        let skipped = bounds.makes(Mutant::RecoversFirstSinkOnly) && number > 0;
        let any_epoch = bounds.makes(Mutant::AbortsNewerEpochs);
        let listed = match &mut recovery.listed {
            Some(listed) => {
                if let Some(id) = listed.pop() {
                    self.outside_mut().abort(epoch, id);
                }
                listed
            }
            None => {
                let in_doubt = self.outside.in_doubt().map(|(id, _)| id);
                let stale = in_doubt
                    .filter(|id| id.sink == number && (id.epoch < epoch || any_epoch) && !skipped)
                    .filter(|id| decided.iter().all(|(_, decided)| decided != id));
                recovery.listed.insert(stale.collect())
            }
        };
        if !listed.is_empty() {
            return None;
        }
        recovery.listed = None;
        Some(Event::StaleAborted(sink))
    }
}

fn begin(bounds: &Bounds, who: usize, recovery: Recovery) -> Run {
    let parallelism = bounds.parallelism.get(who).or(bounds.parallelism.first());
    let parallelism = parallelism.copied().unwrap_or(1);
    let subtask = |(sink, subtask)| Subtask {
        sink,
        subtask,
        machine: Participant::new(),
        inbox: [].into(),
        committing: None,
        told: [].into(),
    };
    let subtasks: Vec<Subtask> = (0..bounds.sinks)
        .flat_map(|sink| (0..parallelism).map(move |index| (sink, index)))
        .map(subtask)
        .collect();
    let settings = CoordinatorSettings {
        participants: subtasks.len() + usize::from(bounds.source),
        committers: (0..subtasks.len()).map(ParticipantId).collect(),
        tolerable_failures: bounds.tolerable_failures,
        max_unconfirmed: bounds.max_unconfirmed,
        subsumes: bounds.subsumes || bounds.makes(Mutant::IgnoresLimit),
        retained: bounds.retained,
    };
    let kept: Vec<CheckpointId> = recovery.kept.keys().copied().collect();
    Run {
        coordinator: Coordinator::new(settings, &kept),
        subtasks,
        parallelism,
        held: recovery.held,
        begun: kept.iter().max().copied().unwrap_or_default(),
        from: recovery.newest,
        kept: recovery.kept,
        stopping: false,
        source_told: [].into(),
        under_way: None,
        deciding: None,
        settling: None,
        notified: Vec::new(),
        retiring: Vec::new(),
        over: None,
    }
}
