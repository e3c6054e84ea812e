//! A simulated process: all its calls go through here, and go wrong here.

use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until};

use crate::call::{Call, Wrong};
use crate::observed::{Observed, Subject};
use crate::random::mixed;
use crate::schedule::{Effect, Fault, Moment, Op, Schedule, When};
use crate::supervisor::Signal;

/// A process. Clones are the same process.
#[derive(Debug, Clone)]
pub struct Process(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    number: usize,
    seed: u64,
    delay: u64,
    faults: Vec<Fault>,
    observed: Observed,
    signals: mpsc::UnboundedSender<Signal>,
    state: Mutex<State>,
    died: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Calls of each operation.
    calls: [u32; Op::ALL.len()],
    /// Calls of any.
    all: u32,
    dead: bool,
    frozen_until: Option<Instant>,
    /// Calls of any before recovery was over: before a source was read or a transaction begun.
    recovery: Option<u32>,
}

impl Process {
    /// The process of this number, of a schedule.
    #[must_use]
    pub fn new(
        schedule: &Schedule,
        number: usize,
        observed: &Observed,
        signals: &mpsc::UnboundedSender<Signal>,
    ) -> Self {
        let ours = schedule
            .faults
            .iter()
            .filter(|fault| fault.process == number);
        Self(Arc::new(Inner {
            number,
            seed: schedule.seed,
            delay: schedule.workload.delay,
            faults: ours.cloned().collect(),
            observed: observed.clone(),
            signals: signals.clone(),
            state: Mutex::default(),
            died: Notify::new(),
        }))
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> usize {
        self.0.number
    }

    /// What is known from outside.
    #[must_use]
    pub fn observed(&self) -> &Observed {
        &self.0.observed
    }

    /// Whether another was started since.
    #[must_use]
    pub fn is_left_behind(&self) -> bool {
        self.0.observed.with(|facts| facts.newest > self.0.number)
    }

    /// Whether recovery is over.
    #[must_use]
    pub fn works(&self) -> bool {
        self.with(|state| state.recovery.is_some())
    }

    /// How many calls it made before recovery was over.
    #[must_use]
    pub fn recovery(&self) -> u32 {
        self.with(|state| state.recovery.unwrap_or(state.all))
    }

    /// How many calls it has made.
    #[must_use]
    pub fn calls(&self) -> u32 {
        self.with(|state| state.all)
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A number that looks like chance, the same in each run.
    #[must_use]
    pub fn chance(&self, parts: [u64; 3]) -> u64 {
        mixed(&[
            self.0.seed,
            self.0.number as u64,
            parts[0],
            parts[1],
            parts[2],
        ])
    }

    /// A delay on the way of a call: mostly none or short, sometimes long.
    #[must_use]
    pub fn delay(&self, op: Op, number: u32, side: When) -> Duration {
        let longest = self.0.delay;
        if longest == 0 {
            return Duration::ZERO;
        }
        let chance = self.chance([op as u64, u64::from(number), side as u64]);
        let millis = match chance % 8 {
            0..4 => 0,
            4..7 => (chance >> 8) % (longest / 8 + 1),
            _ => (chance >> 8) % (longest + 1),
        };
        Duration::from_millis(millis)
    }

    /// Waits for the end of the process.
    pub async fn died(&self) {
        while !self.with(|state| state.dead) {
            self.0.died.notified().await;
        }
    }

    /// The process dies: nothing of it has any effect from here on.
    pub fn die(&self) {
        let works = self.with(|state| {
            state.dead = true;
            state.recovery.is_some()
        });
        self.0.observed.with(|facts| facts.died(!works));
        self.0
            .observed
            .log(self.0.number, None, Subject::Other, "dies".to_owned());
        self.0.died.notify_one();
    }

    /// The process stands still.
    pub fn freeze(&self, millis: u64) {
        let until = Instant::now() + Duration::from_millis(millis);
        self.with(|state| state.frozen_until = state.frozen_until.max(Some(until)));
        let what = format!("stands still for {millis}");
        self.0
            .observed
            .log(self.0.number, None, Subject::Other, what);
        self.signal(Signal::Frozen(self.0.number));
    }

    fn signal(&self, signal: Signal) {
        // The supervisor is there for as long as any process is.
        let _heard = self.0.signals.send(signal);
    }

    /// A turn for others; until it is thawed, if it is frozen; for ever, if it is dead.
    pub async fn turn(&self) {
        tokio::task::yield_now().await;
        loop {
            let (dead, until) = self.with(|state| (state.dead, state.frozen_until));
            match until {
                _ if dead => pending().await,
                Some(until) if until > Instant::now() => sleep_until(until).await,
                _ => return,
            }
        }
    }

    /// A delay, and a turn for others.
    pub async fn wait(&self, delay: Duration) {
        if !delay.is_zero() {
            sleep(delay).await;
        }
        self.turn().await;
    }

    /// What goes wrong by the clock, for as long as the process lives.
    pub async fn by_the_clock(&self, stop: impl Fn()) {
        let start = Instant::now();
        let timed = |fault: &Fault| match fault.moment {
            Moment::Time(at) => Some((at, fault.effect)),
            Moment::Call { .. } => None,
        };
        let mut timed: Vec<(u64, Effect)> = self.0.faults.iter().filter_map(timed).collect();
        timed.sort_by_key(|(at, _)| *at);
        for (at, effect) in timed {
            sleep_until(start + Duration::from_millis(at)).await;
            match effect {
                Effect::Crash => self.die(),
                Effect::Freeze(millis) => self.freeze(millis),
                Effect::Stop => stop(),
                Effect::StartTwice => self.signal(Signal::StartTwice),
                _ => {}
            }
        }
        pending::<()>().await;
    }

    /// Counts a call and finds what goes wrong in it.
    fn strike(&self, op: Op) -> (u32, u32, Option<(When, Effect)>) {
        let (number, all) = self.with(|state| {
            if matches!(op, Op::Next | Op::Begin) {
                state.recovery = state.recovery.or(Some(state.all));
            }
            state.all += 1;
            let calls = &mut state.calls[op as usize];
            *calls += 1;
            (*calls, state.all)
        });
        let hit = |fault: &Fault| match fault.moment {
            Moment::Call {
                op: wanted,
                from,
                to,
                when,
            } => {
                let counted = match wanted {
                    Some(wanted) if wanted == op => number,
                    Some(_) => return None,
                    None => all,
                };
                (from..=to)
                    .contains(&counted)
                    .then_some((when, fault.effect))
            }
            Moment::Time(_) => None,
        };
        (number, all, self.0.faults.iter().find_map(hit))
    }

    /// Begins a call: the delay on the way, and what goes wrong before its effect.
    ///
    /// # Errors
    /// What the caller gets instead of an answer.
    pub async fn enter(&self, op: Op, subject: Subject) -> Result<Call, Wrong> {
        self.turn().await;
        let call = self.count(op, subject);
        self.wait(self.delay(op, call.number(), When::Before)).await;
        call.before().await?;
        Ok(call)
    }

    /// Counts a call that has come through already.
    pub fn count(&self, op: Op, subject: Subject) -> Call {
        let (number, all, fault) = self.strike(op);
        Call::new(self, op, [number, all], subject, fault)
    }
}
