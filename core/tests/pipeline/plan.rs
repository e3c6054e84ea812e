//! Which call of which operation goes wrong, and how.

use std::collections::BTreeMap;
use std::future::pending;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cofferdam::ErrorKind;
use tokio::sync::{Notify, watch};
use tokio::task::yield_now;

/// A time that no job takes: mostly of a clock that moves by itself.
pub const HOUR: Duration = Duration::from_secs(3600);

/// All that a job asks of what is around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    Begin,
    Write,
    PreCommit,
    Commit,
    Abort,
    AbortStale,
    CreateState,
    CreateDecision,
    CreateTakeover,
    CreateSettled,
    Read,
    List,
    Delete,
    Splits,
    Open,
    Next,
    Notify,
}

impl Op {
    pub const ALL: [Self; 17] = [
        Self::Begin,
        Self::Write,
        Self::PreCommit,
        Self::Commit,
        Self::Abort,
        Self::AbortStale,
        Self::CreateState,
        Self::CreateDecision,
        Self::CreateTakeover,
        Self::CreateSettled,
        Self::Read,
        Self::List,
        Self::Delete,
        Self::Splits,
        Self::Open,
        Self::Next,
        Self::Notify,
    ];
}

/// Before the call is applied, or after it: then only its answer is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    Before,
    After,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Error(ErrorKind, When),
    Panic(When),
    /// The process dies: the run is dropped, and nothing of it has any effect from here on.
    Crash(When),
    /// The call takes until [`Plan::release`].
    Hold(When),
}

impl Mode {
    pub const CRASHES: [Self; 2] = [Self::Crash(When::Before), Self::Crash(When::After)];
    pub const ERRORS: [Self; 2] = [
        Self::Error(ErrorKind::Transient, When::Before),
        Self::Error(ErrorKind::Unknown, When::After),
    ];
    pub const PANICS: [Self; 2] = [Self::Panic(When::Before), Self::Panic(When::After)];

    fn when(self) -> When {
        match self {
            Self::Error(_, when) | Self::Panic(when) | Self::Crash(when) | Self::Hold(when) => when,
        }
    }
}

#[derive(Debug)]
struct Rule {
    op: Op,
    mode: Mode,
    from: usize,
    to: usize,
}

/// The faults of one run. Clones share it.
#[derive(Debug, Clone)]
pub struct Plan(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    rules: Vec<Rule>,
    calls: Mutex<BTreeMap<Op, usize>>,
    fired: watch::Sender<usize>,
    crashed: watch::Sender<bool>,
    released: watch::Sender<bool>,
    reached: Notify,
}

impl Plan {
    /// Nothing goes wrong.
    pub fn none() -> Self {
        Self::of(Vec::new())
    }

    /// At the n-th call, from 1.
    pub fn at(op: Op, n: usize, mode: Mode) -> Self {
        Self::during(op, n, n, mode)
    }

    /// At all calls of these numbers.
    pub fn during(op: Op, from: usize, to: usize, mode: Mode) -> Self {
        Self::of(vec![Rule { op, mode, from, to }])
    }

    fn of(rules: Vec<Rule>) -> Self {
        Self(Arc::new(Inner {
            rules,
            calls: Mutex::default(),
            fired: watch::Sender::new(0),
            crashed: watch::Sender::new(false),
            released: watch::Sender::new(false),
            reached: Notify::new(),
        }))
    }

    /// One more thing that goes wrong.
    pub fn and(self, op: Op, n: usize, mode: Mode) -> Self {
        let mut inner = Arc::into_inner(self.0).expect("a plan that no run shares yet");
        inner.rules.push(Rule {
            op,
            mode,
            from: n,
            to: n,
        });
        Self(Arc::new(inner))
    }

    /// How often something went wrong.
    pub fn fired(&self) -> usize {
        *self.0.fired.borrow()
    }

    pub fn calls(&self, op: Op) -> usize {
        self.0.calls.lock().unwrap().get(&op).copied().unwrap_or(0)
    }

    /// The process dies here.
    pub fn crash(&self) {
        self.0.fired.send_modify(|fired| *fired += 1);
        self.0.crashed.send_replace(true);
    }

    /// Waits for the process to die.
    pub async fn crashed(&self) {
        let mut crashed = self.0.crashed.subscribe();
        crashed.wait_for(|crashed| *crashed).await.unwrap();
    }

    /// Waits until a call is held.
    pub async fn reached(&self) {
        let reached = tokio::time::timeout(HOUR, self.0.reached.notified());
        reached.await.expect("no call was held");
    }

    /// Lets all held calls go on.
    pub fn release(&self) {
        self.0.released.send_replace(true);
    }

    fn strike(&self, op: Op) -> Option<Mode> {
        let mut calls = self.0.calls.lock().unwrap();
        let n = calls.entry(op).or_default();
        *n += 1;
        let hit = |rule: &&Rule| rule.op == op && (rule.from..=rule.to).contains(n);
        self.0.rules.iter().find(hit).map(|rule| rule.mode)
    }

    /// Makes a call, with what goes wrong in it. A turn for others comes before and after, so that a job can be dropped
    /// there.
    pub async fn around<T, E>(
        &self,
        op: Op,
        error: impl FnOnce(ErrorKind) -> E,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.alive().await;
        let mode = self.strike(op);
        if mode.is_none_or(|mode| mode.when() == When::Before) {
            self.wrong(op, mode, error).await?;
            self.alive().await;
            let answer = call.await?;
            // No turn between a batch that is taken and its return: a reader must be cancel safe.
            if op != Op::Next {
                self.alive().await;
            }
            return Ok(answer);
        }
        let answer = call.await?;
        self.wrong(op, mode, error).await?;
        Ok(answer)
    }

    async fn wrong<E>(
        &self,
        op: Op,
        mode: Option<Mode>,
        error: impl FnOnce(ErrorKind) -> E,
    ) -> Result<(), E> {
        let Some(mode) = mode else {
            return Ok(());
        };
        match mode {
            Mode::Error(kind, _) => {
                self.0.fired.send_modify(|fired| *fired += 1);
                Err(error(kind))
            }
            Mode::Panic(when) => {
                self.0.fired.send_modify(|fired| *fired += 1);
                // As `panic!`, but for the report on the terminal.
                resume_unwind(Box::new(format!("planned, {when:?} {op:?}")))
            }
            Mode::Crash(_) => {
                self.crash();
                pending().await
            }
            Mode::Hold(_) => {
                self.0.fired.send_modify(|fired| *fired += 1);
                self.0.reached.notify_one();
                let mut released = self.0.released.subscribe();
                released.wait_for(|released| *released).await.unwrap();
                Ok(())
            }
        }
    }

    /// A turn for others; for ever, if the process is dead.
    async fn alive(&self) {
        yield_now().await;
        if *self.0.crashed.borrow() {
            pending::<()>().await;
        }
    }
}
