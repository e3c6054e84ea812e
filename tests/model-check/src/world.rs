//! The state of a model: processes, the log, the outside systems; and what each step does to it.

use std::collections::BTreeSet;
use std::sync::Arc;

use cofferdam::protocol::CoordinatorEvent;

use crate::bounds::Bounds;
use crate::log::{Log, Record};
use crate::mutant::Mutant;
use crate::outside::{Fate, Outside};
use crate::process::{End, Process, Recovery};
use crate::step::{Answer, Step};

/// A state of the model. Its parts are shared with the states before it, until they change.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub(crate) log: Arc<Log>,
    pub(crate) outside: Arc<Outside>,
    pub(crate) processes: Vec<Process>,
    /// Writes to the log that got no answer and may still be applied.
    pub(crate) on_their_way: BTreeSet<(usize, Record)>,
    /// How many there ever were.
    pub(crate) sent_late: usize,
}

impl World {
    pub(crate) fn new(processes: usize) -> Self {
        Self {
            log: Arc::default(),
            outside: Arc::default(),
            processes: vec![Process::Waiting; processes],
            on_their_way: BTreeSet::new(),
            sent_late: 0,
        }
    }

    /// All that can happen now.
    pub(crate) fn steps(&self, bounds: &Bounds, steps: &mut Vec<Step>) {
        let waiting = |process: &Process| matches!(process, Process::Waiting);
        steps.extend(
            self.processes
                .iter()
                .position(waiting)
                .map(|who| Step::Start { who }),
        );
        steps.extend((0..self.on_their_way.len()).map(|write| Step::Arrive { write }));
        if self.outside.with_fate(Fate::Expired).count() < bounds.expiries {
            let prepared = self.outside.with_fate(Fate::Prepared);
            steps.extend(prepared.map(|(transaction, _)| Step::Expire { transaction }));
        }
        for (who, process) in self.processes.iter().enumerate() {
            match process {
                Process::Waiting | Process::Ended(_) => continue,
                Process::Recovering(recovery) => self.recovery_steps(bounds, who, recovery, steps),
                Process::Running(run) => self.run_steps(bounds, who, run, steps),
            }
            steps.push(Step::Crash { who });
        }
    }

    /// Takes a step that can happen now.
    pub(crate) fn take(&mut self, bounds: &Bounds, step: Step) {
        match step {
            Step::Start { who } => self.start(bounds, who),
            Step::Crash { who } => {
                let end = match self.processes[who] {
                    Process::Recovering(_) => End::CrashedInRecovery,
                    _ => End::Crashed,
                };
                self.processes[who] = Process::Ended(end);
            }
            Step::Arrive { write } => {
                if let Some(late) = self.on_their_way.iter().nth(write).cloned() {
                    self.on_their_way.remove(&late);
                    let (number, record) = late;
                    let _unheard = self.log_mut().create(number, &record);
                }
            }
            Step::Expire { transaction } => self.outside_mut().expire(transaction),
            Step::Recover { who, answer } => self.recover(bounds, who, answer),
            Step::Trigger { who } => self.coordinate(bounds, who, CoordinatorEvent::Trigger),
            Step::Stop { who } => {
                if let Process::Running(run) = &mut self.processes[who] {
                    Arc::make_mut(run).stopping = true;
                }
                self.coordinate(bounds, who, CoordinatorEvent::Stop);
            }
            Step::Prepare { who, subtask } => self.prepare(bounds, who, subtask),
            Step::Refuse { who, subtask } => self.refuse(bounds, who, subtask),
            Step::Deliver { who, subtask } => self.deliver(bounds, who, subtask),
            Step::DeliverAgain { who, subtask } => self.deliver_again(bounds, who, subtask),
            Step::HearSource { who } => self.hear_source(bounds, who),
            Step::TimeOut { who } => self.time_out(bounds, who),
            Step::Decide { who, answer } => self.decide(bounds, who, answer),
            Step::GiveUp { who } => self.give_up(bounds, who),
            Step::Settle { who, answer } => self.settle_last(bounds, who, answer),
            Step::Notify {
                who,
                subtask,
                decision,
            } => self.notify(bounds, who, subtask, decision),
            Step::Commit {
                who,
                subtask,
                answer,
            } => self.commit(bounds, who, subtask, answer),
            Step::Retire { who } => self.retire(who),
        }
    }

    fn start(&mut self, bounds: &Bounds, who: usize) {
        let mut recovery = Recovery::new(bounds.sinks);
        if bounds.makes(Mutant::ReadsThenTakesOver) {
            recovery.held.newest_decision = self.log.newest_decision();
        }
        self.processes[who] = Process::Recovering(Arc::new(recovery));
        if bounds.makes(Mutant::AbortsOnStart) {
            let by = self.log.epoch().next();
            let in_doubt: Vec<_> = self.outside.in_doubt().map(|(id, _)| id).collect();
            in_doubt
                .into_iter()
                .for_each(|id| self.outside_mut().abort(by, id));
        }
    }

    pub(crate) fn log_mut(&mut self) -> &mut Log {
        Arc::make_mut(&mut self.log)
    }

    pub(crate) fn outside_mut(&mut self) -> &mut Outside {
        Arc::make_mut(&mut self.outside)
    }

    pub(crate) fn send_late(&mut self, number: usize, record: Record) {
        self.on_their_way.insert((number, record));
        self.sent_late += 1;
    }

    /// Which answers a write to the log may get now.
    pub(crate) fn answers(&self, bounds: &Bounds) -> impl Iterator<Item = Answer> {
        let room = self.sent_late < bounds.late_writes;
        [Answer::Given, Answer::Lost]
            .into_iter()
            .chain(room.then_some(Answer::Late))
    }
}
