//! A job with its processes, the log and the outside systems; takes steps and looks after each that all rules hold.

use std::collections::BTreeSet;

use cofferdam::protocol::{
    CoordinatorAction, CoordinatorEvent, CoordinatorSettings, Decision, ParticipantEvent,
    SettlementAction, SettlementEvent, Vote,
};
use cofferdam::{CheckpointId, Create, Epoch, TransactionId};

use crate::log::{Decided, Log, Record};
use crate::outside::Outside;
use crate::process::{Over, Process, Run, Snapshot, Stage};
use crate::rules;
use crate::schedule::{Call, Settings, Step, Write};

/// How often what is rare has come up: a schedule that never gets there tests nothing.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    pub decisions: usize,
    pub decision_found_by_nonce: usize,
    pub takeover_found_by_nonce: usize,
    pub zombie_decision_refused: usize,
    pub late_write_applied: usize,
    pub late_write_refused: usize,
    pub crash_in_recovery: usize,
    pub subsumed_committed: usize,
    pub settled_by_recovery: usize,
    pub stale_aborted: usize,
    pub aborted_by_decision: usize,
    pub retired: usize,
    pub finished: usize,
    pub other_parallelism: usize,
}

impl Seen {
    /// All counts with their names.
    pub fn counts(&self) -> [(&'static str, usize); 14] {
        [
            ("decisions", self.decisions),
            ("decision found by nonce", self.decision_found_by_nonce),
            ("takeover found by nonce", self.takeover_found_by_nonce),
            ("zombie decision refused", self.zombie_decision_refused),
            ("late write applied", self.late_write_applied),
            ("late write refused", self.late_write_refused),
            ("crash in recovery", self.crash_in_recovery),
            ("subsumed handle committed", self.subsumed_committed),
            ("settled by recovery", self.settled_by_recovery),
            ("stale aborted", self.stale_aborted),
            ("aborted by decision", self.aborted_by_decision),
            ("retired", self.retired),
            ("finished", self.finished),
            ("other parallelism", self.other_parallelism),
        ]
    }
}

#[derive(Debug)]
pub struct World {
    pub settings: Settings,
    pub log: Log,
    pub outside: Outside,
    pub processes: Vec<Process>,
    /// Writes to the log that got no answer and may still be applied.
    on_their_way: Vec<(usize, Record)>,
    next_nonce: u64,
    pub seen: Seen,
}

/// How many processes of the job there are at once, zombies among them.
const PROCESSES: usize = 4;

impl World {
    pub fn new(settings: Settings) -> Self {
        let mut world = Self {
            settings,
            log: Log::default(),
            outside: Outside::default(),
            processes: Vec::new(),
            on_their_way: Vec::new(),
            next_nonce: 0,
            seen: Seen::default(),
        };
        world.start(1);
        world
    }

    pub fn start(&mut self, parallelism: u32) -> usize {
        self.next_nonce += 1;
        let process = Process::start(self.next_nonce, parallelism);
        let dead = self
            .processes
            .iter()
            .position(|process| matches!(process.stage, Stage::Dead));
        match dead {
            Some(index) => {
                self.processes[index] = process;
                index
            }
            None => {
                self.processes.push(process);
                self.processes.len() - 1
            }
        }
    }

    pub fn crash(&mut self, who: usize) {
        let process = &mut self.processes[who];
        if matches!(process.stage, Stage::Recovering(..)) {
            self.seen.crash_in_recovery += 1;
        }
        process.stage = Stage::Dead;
    }

    pub fn take(&mut self, step: &Step) {
        let who = |who: usize| who % self.processes.len();
        match *step {
            Step::Start { parallelism } => {
                let room = self.processes.len() < PROCESSES
                    || self
                        .processes
                        .iter()
                        .any(|process| matches!(process.stage, Stage::Dead));
                if room {
                    self.start(parallelism);
                }
            }
            Step::Crash { who: index } => self.crash(who(index)),
            Step::Trigger {
                who: index,
                records,
            } => {
                self.event(who(index), CoordinatorEvent::Trigger, records);
            }
            Step::Stop {
                who: index,
                records,
            } => {
                self.event(who(index), CoordinatorEvent::Stop, records);
            }
            Step::Prepare {
                who: index,
                sink,
                fails,
            } => self.prepare(who(index), sink, fails),
            Step::Vote { who: index, pick } => self.vote(who(index), pick),
            Step::TimeOut { who: index, pick } => self.time_out(who(index), pick),
            Step::Write { who: index, how } => self.write(who(index), how),
            Step::GiveUp { who: index } => self.give_up(who(index)),
            Step::LateWrite { pick } => self.late_write(pick),
            Step::Notify {
                who: index,
                sink,
                pick,
            } => self.notify(who(index), sink, pick),
            Step::Commit {
                who: index,
                sink,
                how,
            } => self.commit(who(index), sink, how),
            Step::Confirm {
                who: index,
                pick,
                again,
            } => self.confirm(who(index), pick, again),
            Step::Stray {
                who: index,
                pick,
                kind,
            } => self.stray(who(index), pick, kind),
            Step::Recover { who: index, how } => self.recover(who(index), how),
            Step::Progress {
                who: index,
                steps,
                records,
                up_to_write,
                commits,
            } => {
                let index = who(index);
                for _ in 0..steps {
                    let writes = self.processes[index]
                        .run()
                        .is_some_and(|run| run.deciding.is_some());
                    if up_to_write && writes {
                        break;
                    }
                    if !self.progress(index, commits) {
                        self.event(index, CoordinatorEvent::Trigger, records);
                    }
                    rules::all(self);
                }
            }
        }
        rules::all(self);
    }

    /// The next step of a process as it goes when nothing is lost, with or without what follows a decision. Returns
    /// whether there was one.
    pub fn progress(&mut self, who: usize, commits: bool) -> bool {
        if matches!(self.processes[who].stage, Stage::Recovering(..)) {
            self.recover(who, Call::Answered);
            return true;
        }
        let Some(run) = self.processes[who].run() else {
            return false;
        };
        let behind = run
            .sinks
            .iter()
            .position(|sink| sink.told < run.notified.len());
        let waiting = run.sinks.iter().position(|sink| !sink.inbox.is_empty());
        let committing = run.sinks.iter().position(|sink| sink.committing.is_some());
        if run.deciding.is_some() {
            self.write(who, Write::Answered);
        } else if let Some(sink) = behind.filter(|_| commits) {
            let newest = run.notified.len() - 1;
            self.notify(who, sink, newest);
        } else if !run.votes.is_empty() {
            self.vote(who, 0);
        } else if let Some(sink) = committing.filter(|_| commits) {
            self.commit(who, sink, Call::Answered);
        } else if commits && !run.confirmations.is_empty() {
            self.confirm(who, 0, false);
        } else if let Some(sink) = waiting {
            self.prepare(who, sink, false);
        } else {
            return false;
        }
        true
    }

    /// Gives an event to the coordinator of a process, and does what it asks for.
    fn event(&mut self, who: usize, event: CoordinatorEvent<Snapshot>, records: u64) {
        let process = &mut self.processes[who];
        let (epoch, nonce) = (process.epoch, process.nonce);
        let Some(run) = process.run() else {
            return;
        };
        let was_over = run.over;
        let actions = run.coordinate(event);
        assert!(
            was_over.is_none() || actions.is_empty(),
            "a run that is over acts: {actions:?}"
        );
        for action in actions {
            match action {
                CoordinatorAction::Inject(barrier) => run.inject(barrier, records),
                CoordinatorAction::Decide { barrier, snapshots } => {
                    assert!(run.deciding.is_none(), "two decisions at once");
                    let decided = Decided {
                        checkpoint: barrier.checkpoint,
                        position: snapshots
                            .iter()
                            .find_map(|snapshot| snapshot.position)
                            .expect("the source has voted"),
                        prepared: snapshots
                            .into_iter()
                            .flat_map(|snapshot| snapshot.prepared)
                            .collect(),
                    };
                    let record = Record {
                        epoch,
                        nonce,
                        decided: Some(decided),
                        retired: false,
                    };
                    run.deciding = Some((barrier, record));
                }
                CoordinatorAction::Notify(decision) => {
                    if let Decision::Commit(checkpoint) = decision {
                        let decided = self.log.decisions().any(|it| it.checkpoint == checkpoint);
                        assert!(decided, "told of {checkpoint}, which the log does not hold");
                    }
                    run.notified.push(decision);
                }
                CoordinatorAction::Retire(checkpoint) => {
                    self.seen.retired += 1;
                    let retired = self.log.retire(checkpoint);
                    rules::nothing_unconfirmed_is_retired(retired.as_ref(), &self.outside);
                    rules::enough_is_retained(&self.log, self.settings.retained);
                }
                CoordinatorAction::RollBack(_) => run.over = Some(Over::RolledBack),
                CoordinatorAction::StopFenced(by) => {
                    assert!(
                        by > epoch,
                        "fenced by {by}, which is not newer than {epoch}"
                    );
                    run.over = Some(Over::Fenced);
                }
                CoordinatorAction::Finish => {
                    self.seen.finished += 1;
                    run.over = Some(Over::Finished);
                    rules::a_finished_run_has_committed_everything(&self.log, &self.outside, epoch);
                }
            }
        }
    }

    fn prepare(&mut self, who: usize, sink: usize, fails: bool) {
        let process = &mut self.processes[who];
        let epoch = process.epoch;
        let Some(run) = process.run() else {
            return;
        };
        let index = sink % run.sinks.len();
        let parallelism = u64::from(run.parallelism);
        let sink = &mut run.sinks[index];
        let Some(segment) = sink.inbox.pop_front() else {
            return;
        };
        sink.ended = segment.barrier.last;
        let checkpoint = segment.barrier.checkpoint;
        let mine = u64::from(sink.subtask.0);
        let records: Vec<u64> = segment
            .records
            .filter(|record| record % parallelism == mine)
            .collect();
        let id = crate::process::transaction(epoch, &sink.sink, sink.subtask, checkpoint);
        let event = if fails {
            ParticipantEvent::NotPrepared(checkpoint, "no room".to_owned())
        } else {
            let handle = (!records.is_empty()).then(|| self.outside.prepare(id, records));
            ParticipantEvent::Prepared(checkpoint, handle)
        };
        self.tell(who, index, event);
    }

    fn tell(&mut self, who: usize, sink: usize, event: ParticipantEvent<usize>) {
        let process = &mut self.processes[who];
        let epoch = process.epoch;
        let Some(run) = process.run() else {
            return;
        };
        for id in run.tell(epoch, sink, event) {
            self.seen.aborted_by_decision += 1;
            let decided = self.log.names(&id);
            self.outside.abort(epoch, &id, decided);
        }
    }

    fn vote(&mut self, who: usize, pick: usize) {
        let Some(run) = self.processes[who].run() else {
            return;
        };
        if run.votes.is_empty() {
            return;
        }
        let (checkpoint, participant, vote) = run.votes.remove(pick % run.votes.len());
        let event = CoordinatorEvent::Voted {
            checkpoint,
            participant,
            vote,
        };
        self.event(who, event, 0);
    }

    fn time_out(&mut self, who: usize, pick: usize) {
        let Some(run) = self.processes[who].run() else {
            return;
        };
        // Most often the one under way: an older one changes nothing.
        let late = match pick % 4 {
            0 => run.begun.get(pick % run.begun.len().max(1)).copied(),
            _ => run.begun.last().copied(),
        };
        if let Some(checkpoint) = late {
            self.event(who, CoordinatorEvent::TimedOut(checkpoint), 1);
        }
    }

    fn write(&mut self, who: usize, how: Write) {
        let Some(run) = self.processes[who].run() else {
            return;
        };
        let Some((barrier, record)) = run.deciding.clone() else {
            return;
        };
        let number = run.number;
        let create = match how {
            Write::NotApplied => return,
            Write::OnItsWay => {
                self.on_their_way.push((number, record));
                return;
            }
            Write::Answered | Write::AppliedUnanswered => self.log.create(number, &record),
        };
        if create == Create::Created {
            self.seen.decisions += 1;
        }
        if how == Write::AppliedUnanswered {
            return;
        }
        let found = &self.log.records[number];
        let own = found.nonce == record.nonce;
        let by = self.log.epoch();
        if create == Create::Exists && own {
            self.seen.decision_found_by_nonce += 1;
        }
        let event = if own && by == record.epoch {
            CoordinatorEvent::Decided(barrier.checkpoint)
        } else {
            self.seen.zombie_decision_refused += 1;
            CoordinatorEvent::Fenced(by)
        };
        if let Some(run) = self.processes[who].run() {
            run.deciding = None;
            run.number += 1;
        }
        self.event(who, event, 1);
    }

    fn give_up(&mut self, who: usize) {
        let Some(run) = self.processes[who].run() else {
            return;
        };
        if let Some((barrier, _)) = run.deciding.take() {
            let reason = "no answer".to_owned();
            self.event(
                who,
                CoordinatorEvent::Undecidable(barrier.checkpoint, reason),
                0,
            );
        }
    }

    fn late_write(&mut self, pick: usize) {
        if self.on_their_way.is_empty() {
            return;
        }
        let (number, record) = self
            .on_their_way
            .swap_remove(pick % self.on_their_way.len());
        match self.log.create(number, &record) {
            Create::Created => {
                self.seen.decisions += usize::from(record.decided.is_some());
                self.seen.late_write_applied += 1;
            }
            Create::Exists => self.seen.late_write_refused += 1,
        }
    }

    fn notify(&mut self, who: usize, sink: usize, pick: usize) {
        let Some(run) = self.processes[who].run() else {
            return;
        };
        if run.notified.is_empty() {
            return;
        }
        let (sink, pick) = (sink % run.sinks.len(), pick % run.notified.len());
        let told = &mut run.sinks[sink].told;
        *told = (*told).max(pick + 1);
        let decision = run.notified[pick];
        self.tell(who, sink, ParticipantEvent::Decision(decision));
    }

    fn commit(&mut self, who: usize, sink: usize, how: Call) {
        let process = &mut self.processes[who];
        let epoch = process.epoch;
        let Some(run) = process.run() else {
            return;
        };
        let index = sink % run.sinks.len();
        let Some((checkpoint, _)) = run.sinks[index].committing else {
            return;
        };
        let sink = &run.sinks[index];
        let id = crate::process::transaction(epoch, &sink.sink, sink.subtask, checkpoint);
        if how == Call::NotYet {
            return;
        }
        self.make_visible(epoch, &id);
        if how == Call::AppliedUnanswered {
            return;
        }
        if let Some(run) = self.processes[who].run() {
            run.sinks[index].committing = None;
        }
        self.tell(who, index, ParticipantEvent::Committed(checkpoint));
    }

    /// Returns whether it was there to be committed.
    fn make_visible(&mut self, by: Epoch, id: &TransactionId) -> bool {
        let subsumed = !self.outside.is_committed(id)
            && self
                .log
                .decisions()
                .all(|decided| decided.checkpoint != id.checkpoint);
        self.seen.subsumed_committed += usize::from(subsumed);
        let decided = self.log.names(id);
        self.outside.commit(by, id, decided)
    }

    fn confirm(&mut self, who: usize, pick: usize, again: bool) {
        let Some(run) = self.processes[who].run() else {
            return;
        };
        if run.confirmations.is_empty() {
            return;
        }
        let pick = pick % run.confirmations.len();
        let (checkpoint, participant) = match again {
            true => run.confirmations[pick],
            false => run.confirmations.remove(pick),
        };
        let event = CoordinatorEvent::Confirmed {
            checkpoint,
            participant,
        };
        self.event(who, event, 1);
    }

    fn stray(&mut self, who: usize, pick: usize, kind: u8) {
        let Some(run) = self.processes[who].run() else {
            return;
        };
        let deciding = run.deciding.as_ref().map(|(barrier, _)| barrier.checkpoint);
        let Some(checkpoint) = run.begun.get(pick % run.begun.len().max(1)).copied() else {
            return;
        };
        if deciding == Some(checkpoint) {
            // What is said of the one that is being decided is no stray.
            return;
        }
        let stranger = cofferdam::protocol::ParticipantId(run.sinks.len() + 7);
        let event = match kind % 4 {
            0 => CoordinatorEvent::Decided(checkpoint),
            1 => CoordinatorEvent::Undecidable(checkpoint, "late".to_owned()),
            2 => CoordinatorEvent::Voted {
                checkpoint,
                participant: stranger,
                vote: Vote::Commit(Snapshot {
                    position: None,
                    prepared: Vec::new(),
                }),
            },
            _ => CoordinatorEvent::Confirmed {
                checkpoint,
                participant: stranger,
            },
        };
        self.event(who, event, 1);
    }

    /// The next step of a recovery.
    fn recover(&mut self, who: usize, how: Call) {
        let process = &mut self.processes[who];
        let epoch = process.epoch;
        let Stage::Recovering(_, action) = &process.stage else {
            return;
        };
        let answer = match action.clone() {
            SettlementAction::TakeEpoch => {
                self.take_epoch(who);
                SettlementEvent::EpochTaken(self.processes[who].epoch)
            }
            SettlementAction::ReadNewest => match self.log.newest_decision(process.takeover) {
                // A newer epoch has retired it: this process is long fenced.
                Some(None) => {
                    process.stage = Stage::Dead;
                    return;
                }
                newest => {
                    process.newest = newest.flatten().cloned();
                    SettlementEvent::Newest(
                        process
                            .newest
                            .as_ref()
                            .map(|newest| (newest.checkpoint, newest.prepared.clone())),
                    )
                }
            },
            SettlementAction::Commit(id, _) => {
                if how == Call::NotYet {
                    return;
                }
                self.seen.settled_by_recovery += usize::from(!self.outside.is_committed(&id));
                match self.make_visible(epoch, &id) {
                    true => SettlementEvent::Committed(id),
                    false => SettlementEvent::Lost(id, "no trace".to_owned()),
                }
            }
            SettlementAction::AbortStale {
                sink,
                epoch,
                decided,
            } => {
                for id in self.outside.stale(&sink, epoch, &decided) {
                    self.seen.stale_aborted += 1;
                    let decided = self.log.names(&id);
                    self.outside.abort(epoch, &id, decided);
                }
                SettlementEvent::StaleAborted(sink)
            }
            SettlementAction::Begin(checkpoint) => return self.begin(who, checkpoint),
            SettlementAction::StopLost { transaction, .. } => panic!("{transaction} is lost"),
        };
        if how != Call::Answered {
            return;
        }
        if let Stage::Recovering(settlement, action) = &mut self.processes[who].stage {
            *action = settlement.on(answer).expect("the answer to its own action");
        }
    }

    fn take_epoch(&mut self, who: usize) {
        let process = &mut self.processes[who];
        let newest = self.log.records.last();
        if newest.is_some_and(|newest| newest.nonce == process.nonce) {
            self.seen.takeover_found_by_nonce += 1;
            return;
        }
        process.epoch = self.log.epoch().next();
        process.takeover = self.log.records.len();
        let record = Record {
            epoch: process.epoch,
            nonce: process.nonce,
            decided: None,
            retired: false,
        };
        assert_eq!(self.log.create(process.takeover, &record), Create::Created);
    }

    fn begin(&mut self, who: usize, checkpoint: Option<CheckpointId>) {
        let process = &mut self.processes[who];
        let newest = process.newest.as_ref();
        assert_eq!(checkpoint, newest.map(|newest| newest.checkpoint));
        let kept: Vec<CheckpointId> = self
            .log
            .kept(process.takeover)
            .map(|decided| decided.checkpoint)
            .collect();
        let settings = CoordinatorSettings {
            participants: 0,
            committers: BTreeSet::new(),
            tolerable_failures: self.settings.tolerable_failures,
            max_unconfirmed: self.settings.max_unconfirmed,
            subsumes: self.settings.subsumes,
            retained: self.settings.retained,
        };
        let (parallelism, position) = (
            process.parallelism,
            newest.map_or(0, |newest| newest.position),
        );
        let before = newest.and_then(|newest| newest.prepared.first());
        let grown = before.is_some_and(|(id, _)| u32::from(id.subtask.0 > 0) + 1 != parallelism);
        self.seen.other_parallelism += usize::from(grown);
        let run = Run::new(settings, parallelism, &kept, position, process.takeover + 1);
        process.stage = Stage::Running(Box::new(run));
    }

    /// Whether this process holds the job: no newer record than its own is in the log.
    pub fn holds(&self, who: usize) -> bool {
        let newest = self.log.records.last();
        newest.is_some_and(|newest| newest.nonce == self.processes[who].nonce)
    }

    /// Nothing more is lost, and one process alone goes on: to the end of recovery, or of a last checkpoint.
    pub fn quiet(&mut self, parallelism: u32) -> usize {
        for who in 0..self.processes.len() {
            self.processes[who].stage = Stage::Dead;
        }
        // What is on its way now arrives after the takeover.
        let who = self.start(parallelism);
        while !self.processes[who].is_running() {
            assert!(self.progress(who, true), "recovery came to a halt");
            while !self.on_their_way.is_empty() && self.processes[who].epoch > Epoch(0) {
                self.late_write(0);
            }
            rules::all(self);
        }
        who
    }

    /// Asks for a last checkpoint, and goes on until nothing moves. If `late`, the votes take too long.
    pub fn stop(&mut self, who: usize, records: u64, late: bool) {
        self.event(who, CoordinatorEvent::Stop, records);
        if late {
            let newest = self.processes[who]
                .run()
                .and_then(|run| run.begun.last().copied());
            if let Some(checkpoint) = newest {
                self.event(who, CoordinatorEvent::TimedOut(checkpoint), records);
            }
        }
        self.settle_down(who);
    }

    /// Goes on until nothing moves any more.
    pub fn settle_down(&mut self, who: usize) {
        while self.progress(who, true) {
            rules::all(self);
        }
    }

    pub fn over(&mut self, who: usize) -> Option<Over> {
        self.processes[who].run().and_then(|run| run.over)
    }
}
