//! Starts processes, and starts another when one has died or stands still; and lets all come to an end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cofferdam::{CheckpointError, JobEnd, JobError, JobReport};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use crate::observed::{Entry, Subject};
use crate::process::Process;
use crate::random::mixed;
use crate::rare::{Rare, Reached};
use crate::schedule::{Mode, Schedule};
use crate::world::World;

/// What a supervisor is told.
#[derive(Debug)]
pub enum Signal {
    /// A process stands still.
    Frozen(usize),
    /// Somebody starts the job, though it runs.
    StartTwice,
}

/// How a process ended.
#[derive(Debug)]
enum End {
    Died,
    Ended(Result<JobReport, Box<JobError>>),
}

/// What came of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What was wrong; nothing, if all was well.
    pub wrong: Vec<String>,
    /// All calls.
    pub log: Vec<Entry>,
    /// Rare events.
    pub reached: Reached,
    /// How many calls each process made.
    pub calls: Vec<u32>,
    /// How many of them in its recovery.
    pub recoveries: Vec<u32>,
}

/// How many processes may be needed after the last that has faults.
const SPARE: usize = 12;
/// In virtual time: what every process gets to bring its work to an end, waits of the runtime for a store that does not
/// answer included.
const PATIENCE: Duration = Duration::from_secs(180);

/// Runs a schedule to its end, on a clock that moves by itself.
///
/// # Panics
/// If no runtime can be had from the operating system.
#[must_use]
pub fn simulate(schedule: &Schedule) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime needs nothing but memory");
    runtime.block_on(async {
        let world = Arc::new(World::new(schedule));
        let (signals, heard) = mpsc::unbounded_channel();
        let mut supervisor = Supervisor {
            world,
            signals,
            heard,
            running: JoinSet::new(),
            alive: BTreeMap::new(),
            frozen: BTreeSet::new(),
            started: Vec::new(),
            completed: false,
        };
        supervisor.run().await
    })
}

struct Supervisor {
    world: Arc<World>,
    signals: mpsc::UnboundedSender<Signal>,
    heard: mpsc::UnboundedReceiver<Signal>,
    running: JoinSet<(usize, End)>,
    /// Processes that have not ended.
    alive: BTreeMap<usize, Process>,
    /// Those of them that count as gone.
    frozen: BTreeSet<usize>,
    started: Vec<Process>,
    completed: bool,
}

enum Next {
    Ended(usize, End),
    Heard(Signal),
    TooLong,
}

impl Supervisor {
    async fn run(&mut self) -> Report {
        let faults = &self.world.schedule.faults;
        let faulty = faults
            .iter()
            .map(|fault| fault.process + 1)
            .max()
            .unwrap_or(0);
        let liveness = self.world.schedule.mode == Mode::Liveness;
        let limit = if liveness { faulty + SPARE } else { faulty + 1 };
        self.start();
        let settled = self.until_completed(limit).await;
        if liveness {
            self.demand(settled, "the job is not completed in time");
            if settled {
                self.bring_to_an_end().await;
            }
        }
        self.world.look();
        if liveness && settled {
            self.world.quiet().await;
        }
        let wrong = self.world.judge(liveness && settled);
        let observed = &self.world.observed;
        observed.with(|facts| Report {
            wrong,
            log: std::mem::take(&mut facts.log),
            reached: facts.reached,
            calls: self.started.iter().map(Process::calls).collect(),
            recoveries: self.started.iter().map(Process::recovery).collect(),
        })
    }

    fn demand(&self, holds: bool, what: &str) {
        self.world.observed.demand(holds, || what.to_owned());
    }

    fn start(&mut self) {
        let number = self.started.len();
        let world = &self.world;
        let parallelism = |number| world.schedule.parallelism(number);
        world.observed.with(|facts| {
            facts.newest = number;
            let rescaled = number > 0 && parallelism(number) != parallelism(number - 1);
            if rescaled && facts.pending().next().is_some() {
                facts.reached.count(Rare::RescaledWithPending);
            }
        });
        let what = format!("starts, with {} subtasks", parallelism(number));
        world.observed.log(number, None, Subject::Other, what);
        let process = Process::new(&world.schedule, number, &world.observed, &self.signals);
        self.started.push(process.clone());
        self.alive.insert(number, process.clone());
        let world = Arc::clone(world);
        self.running
            .spawn(async move { (number, live(&world, &process).await) });
    }

    async fn next(&mut self, deadline: Instant) -> Next {
        let next = async {
            tokio::select! {
                biased;
                Some(signal) = self.heard.recv() => Next::Heard(signal),
                Some(ended) = self.running.join_next() => {
                    let (number, end) = ended.expect("a process is not aborted");
                    Next::Ended(number, end)
                }
            }
        };
        timeout_at(deadline, next).await.unwrap_or(Next::TooLong)
    }

    /// Until a process has completed the job; false if none does.
    async fn until_completed(&mut self, limit: usize) -> bool {
        while !self.completed {
            match self.next(Instant::now() + PATIENCE).await {
                Next::TooLong => return false,
                Next::Ended(number, end) => self.ended(number, &end),
                Next::Heard(Signal::Frozen(number)) => {
                    self.frozen.insert(number);
                }
                Next::Heard(Signal::StartTwice) if self.started.len() < limit => self.start(),
                Next::Heard(Signal::StartTwice) => {}
            }
            let runs = self
                .alive
                .keys()
                .any(|number| !self.frozen.contains(number));
            if runs || self.completed {
                continue;
            }
            if self.started.len() == limit {
                return false;
            }
            let count = self.started.len() as u64;
            let pause = mixed(&[self.world.schedule.seed, 3, count]) % 40;
            sleep(Duration::from_millis(pause)).await;
            self.start();
        }
        true
    }

    /// Waits for all that still runs or is to come, and lets one more process look after what they have left.
    async fn bring_to_an_end(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.alive.is_empty() {
            match self.next(deadline).await {
                Next::TooLong => return self.demand(false, "a process does not come to its end"),
                Next::Ended(number, end) => self.ended(number, &end),
                Next::Heard(_) => {}
            }
        }
        for late in self
            .world
            .observed
            .with(|facts| std::mem::take(&mut facts.late))
        {
            late.await.expect("an effect does not panic");
        }
        // It has no faults, as its number is beyond all that have; unless a completed job was started over and over.
        let faults = &self.world.schedule.faults;
        let faulty = faults
            .iter()
            .map(|fault| fault.process + 1)
            .max()
            .unwrap_or(0);
        while self.started.len() < faulty {
            let number = self.started.len();
            let signals = &self.signals;
            let world = &self.world;
            let skipped = Process::new(&world.schedule, number, &world.observed, signals);
            self.started.push(skipped);
        }
        self.start();
        match self.next(Instant::now() + PATIENCE).await {
            Next::Ended(number, End::Ended(Ok(report))) => {
                self.demand(
                    report.end == JobEnd::AlreadyComplete,
                    "a completed job is not complete for the next process",
                );
                self.ended(number, &End::Ended(Ok(report)));
            }
            _ => self.demand(false, "the last process does not end well"),
        }
    }

    fn ended(&mut self, number: usize, end: &End) {
        self.alive.remove(&number);
        self.frozen.remove(&number);
        let observed = &self.world.observed;
        let what = match end {
            End::Died => "is gone".to_owned(),
            End::Ended(Ok(report)) => format!("ends: {:?}", report.end),
            End::Ended(Err(error)) => format!("ends: {error}"),
        };
        observed.log(number, None, Subject::Other, what);
        match end {
            End::Died => {
                for (_, outside) in &self.world.sinks {
                    outside.process_died();
                }
            }
            End::Ended(Ok(report)) => {
                if report.progress.restarts > 0 {
                    observed.reached(Rare::RestartedInside);
                }
                match report.end {
                    JobEnd::Completed => self.completed = true,
                    JobEnd::AlreadyComplete => {
                        observed.reached(Rare::AlreadyComplete);
                        self.completed = true;
                    }
                    JobEnd::Stopped | JobEnd::Left => {
                        let schedule = &self.world.schedule;
                        if schedule.parallelism(number) != schedule.parallelism(number + 1) {
                            observed.reached(Rare::RescaledAfterStop);
                        }
                    }
                }
            }
            End::Ended(Err(error)) => {
                let possible = is_possible(error);
                observed.demand(possible, || format!("process {number} ends: {error}"));
            }
        }
    }
}

/// One process, until it dies or its job ends.
async fn live(world: &World, process: &Process) -> End {
    let job = world.job(process);
    let handle = job.handle();
    tokio::select! {
        biased;
        () = process.died() => End::Died,
        () = process.by_the_clock(|| handle.stop()) => End::Died,
        ended = job.run() => End::Ended(ended.map_err(Box::new)),
    }
}

/// Whether a job may end so, with these faults and a sound store and sink. A process that finds something deleted by
/// another that has taken over says that it was taken over, and speaks of no damage.
fn is_possible(error: &JobError) -> bool {
    match error {
        JobError::Plan(_)
        | JobError::OtherPipeline { .. }
        | JobError::State { .. }
        | JobError::Lost { .. } => false,
        JobError::Checkpoint(error) => matches!(error, CheckpointError::Store(_)),
        JobError::GaveUp { cause, .. } => is_possible(cause),
        _ => true,
    }
}
