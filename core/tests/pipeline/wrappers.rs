//! A [`Plan`] around a sink, a store, a source; and what must hold at each of their calls.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cofferdam::{
    Capabilities, CheckpointId, CheckpointStore, CommitError, Committed, Create, ErrorKind, Fence,
    InDoubt, JobId, SinkError, Source, SourceError, SourceEvent, SourceReader, SplitId, StoreError,
    TransactionId, TwoPhaseCommitSinkFunction, Unfinished, async_trait,
};

use crate::plan::{Op, Plan};

/// What is known from outside, over all runs of a job.
#[derive(Debug, Clone, Default)]
pub struct Observed(Arc<Mutex<Facts>>);

#[derive(Debug, Default)]
struct Facts {
    /// Named by a decision that is in the store.
    decided: BTreeSet<TransactionId>,
    committed: BTreeSet<TransactionId>,
    /// Committed, and the runtime has the answer.
    confirmed: BTreeSet<TransactionId>,
    handles: usize,
    violations: Vec<String>,
}

impl Observed {
    fn with<T>(&self, act: impl FnOnce(&mut Facts) -> T) -> T {
        act(&mut self.0.lock().unwrap())
    }

    fn demand(&self, holds: bool, violation: impl FnOnce() -> String) {
        if !holds {
            self.with(|facts| facts.violations.push(violation()));
        }
    }

    pub fn decided(&self) -> BTreeSet<TransactionId> {
        self.with(|facts| facts.decided.clone())
    }

    /// How many handles came out of pre-commits.
    pub fn handles(&self) -> usize {
        self.with(|facts| facts.handles)
    }

    /// An operator has accepted that it is lost.
    pub fn accept(&self, lost: &TransactionId) {
        self.with(|facts| facts.committed.insert(lost.clone()));
    }

    pub fn violations(&self) -> Vec<String> {
        self.with(|facts| facts.violations.clone())
    }
}

/// A sink in which calls go wrong.
#[derive(Debug, Clone)]
pub struct Faulty<S> {
    pub inner: S,
    pub plan: Plan,
    pub observed: Observed,
    pub max_prepared: Option<usize>,
    pub ordered: bool,
    pub expiry: Option<Duration>,
    /// Whether one run at a time is alive: then recovery must have left nothing in doubt when a transaction begins.
    pub alone: bool,
}

impl<S: TwoPhaseCommitSinkFunction> Faulty<S> {
    /// Nothing of the same subtask may be prepared, or committed without an answer to the runtime.
    async fn check_order(&self, id: &TransactionId) -> Result<(), SinkError> {
        let same = |other: &TransactionId| {
            (&other.sink, other.epoch, other.subtask) == (&id.sink, id.epoch, id.subtask)
        };
        let prepared = self.inner.in_doubt(&id.job).await?;
        let prepared = prepared.iter().filter_map(InDoubt::id);
        let mut before: BTreeSet<TransactionId> = prepared.collect();
        self.observed.with(|facts| {
            before.extend(facts.decided.difference(&facts.confirmed).cloned());
        });
        for before in before.iter().filter(|before| same(before)) {
            self.observed.demand(false, || {
                format!("{id} begins before {before} is committed")
            });
        }
        Ok(())
    }

    /// No subtask may hold more prepared transactions than the sink says it can.
    async fn count_prepared(&self) -> Result<(), SinkError> {
        let Some(limit) = self.max_prepared else {
            return Ok(());
        };
        let mut prepared = BTreeMap::new();
        for found in self.inner.in_doubt(&JobId::new("faults").unwrap()).await? {
            let holder = (found.sink, found.epoch, found.subtask);
            *prepared.entry(holder).or_insert(0) += 1;
        }
        for (holder, count) in prepared {
            self.observed
                .demand(count <= limit, || format!("{holder:?} holds {count}"));
        }
        Ok(())
    }
}

fn sink_error(kind: ErrorKind) -> SinkError {
    SinkError::new(kind, "planned")
}

#[async_trait]
impl<S: TwoPhaseCommitSinkFunction> TwoPhaseCommitSinkFunction for Faulty<S> {
    type Input = S::Input;
    type Transaction = S::Transaction;
    type Prepared = S::Prepared;

    fn capabilities(&self) -> Capabilities {
        let inner = self.inner.capabilities();
        let ordered = inner.with_ordered(self.ordered).with_expiry(self.expiry);
        match self.max_prepared {
            None => ordered,
            limit => ordered.with_max_prepared(limit),
        }
    }

    async fn begin(&self, id: &TransactionId) -> Result<S::Transaction, SinkError> {
        if self.alone {
            for found in self.inner.in_doubt(&id.job).await? {
                let older = found.epoch < id.epoch && found.sink == id.sink;
                self.observed
                    .demand(!older, || format!("{id} begins while {found} is in doubt"));
            }
        }
        if self.ordered {
            self.check_order(id).await?;
        }
        self.plan
            .around(Op::Begin, sink_error, self.inner.begin(id))
            .await
    }

    async fn write(
        &self,
        transaction: &mut S::Transaction,
        records: Vec<S::Input>,
    ) -> Result<(), SinkError> {
        let write = self.inner.write(transaction, records);
        self.plan.around(Op::Write, sink_error, write).await
    }

    async fn pre_commit(
        &self,
        transaction: S::Transaction,
    ) -> Result<Option<S::Prepared>, SinkError> {
        let pre_commit = self.inner.pre_commit(transaction);
        let handle = self
            .plan
            .around(Op::PreCommit, sink_error, pre_commit)
            .await?;
        self.count_prepared().await?;
        self.observed
            .with(|facts| facts.handles += usize::from(handle.is_some()));
        Ok(handle)
    }

    async fn commit(
        &self,
        id: &TransactionId,
        prepared: &S::Prepared,
    ) -> Result<Committed, CommitError> {
        let decided = self.observed.with(|facts| facts.decided.contains(id));
        self.observed
            .demand(decided, || format!("{id} is committed without a decision"));
        let error = |kind| CommitError::NotYet(sink_error(kind));
        let commit = async {
            let committed = self.inner.commit(id, prepared).await?;
            self.observed
                .with(|facts| facts.committed.insert(id.clone()));
            Ok(committed)
        };
        let committed = self.plan.around(Op::Commit, error, commit).await?;
        self.observed
            .with(|facts| facts.confirmed.insert(id.clone()));
        Ok(committed)
    }

    async fn abort(
        &self,
        unfinished: Unfinished<S::Transaction, S::Prepared>,
    ) -> Result<(), SinkError> {
        if let Unfinished::Prepared(id, _) = &unfinished {
            let decided = self.observed.with(|facts| facts.decided.contains(id));
            self.observed
                .demand(!decided, || format!("{id} is decided, and aborted"));
        }
        let abort = self.inner.abort(unfinished);
        self.plan.around(Op::Abort, sink_error, abort).await
    }

    async fn abort_stale(&self, fence: &Fence<S::Prepared>) -> Result<Vec<InDoubt>, SinkError> {
        for (id, _) in &fence.decided {
            let committed = self.observed.with(|facts| facts.committed.contains(id));
            self.observed.demand(committed, || {
                format!("{id} is decided, and not committed before what is stale is aborted")
            });
        }
        let abort = async {
            let aborted = self.inner.abort_stale(fence).await?;
            for id in aborted.iter().filter_map(InDoubt::id) {
                let lost = self.observed.with(|facts| facts.decided.contains(&id));
                self.observed
                    .demand(!lost, || format!("{id} is decided, and aborted as stale"));
            }
            Ok(aborted)
        };
        self.plan.around(Op::AbortStale, sink_error, abort).await
    }

    async fn in_doubt(&self, job: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        self.inner.in_doubt(job).await
    }
}

/// A checkpoint store in which calls go wrong.
#[derive(Debug)]
pub struct FaultyStore {
    pub inner: Arc<dyn CheckpointStore>,
    pub plan: Plan,
    pub observed: Observed,
}

fn store_error(kind: ErrorKind) -> StoreError {
    StoreError {
        action: "reach",
        object: "the store".to_owned(),
        retriable: kind.is_retriable(),
        hint: None,
        cause: "planned".into(),
    }
}

/// Parses a record of the log from the form in which it is stored.
fn parsed(record: &[u8]) -> serde_json::Value {
    let header = record.iter().position(|byte| *byte == b'\n').unwrap();
    serde_json::from_slice(&record[header + 1..]).unwrap()
}

/// The transactions that a decision names; `None` if it is no decision.
fn named(record: &serde_json::Value) -> Option<Vec<TransactionId>> {
    let transactions = record.get("manifest")?["transactions"].as_array().unwrap();
    let id = |transaction: &serde_json::Value| transaction["id"].as_str().unwrap().parse().unwrap();
    Some(transactions.iter().map(id).collect())
}

#[async_trait]
impl CheckpointStore for FaultyStore {
    async fn create(&self, name: &str, bytes: Vec<u8>) -> Result<Create, StoreError> {
        let record = name.starts_with("log/").then(|| parsed(&bytes));
        let named = record.as_ref().and_then(named);
        let op = match record.as_ref().map(|record| record["kind"].as_str()) {
            None => Op::CreateState,
            Some(Some("decision")) => Op::CreateDecision,
            Some(Some("settled")) => Op::CreateSettled,
            Some(_) => Op::CreateTakeover,
        };
        let create = async {
            let created = self.inner.create(name, bytes).await?;
            // A record that a process long gone writes into a gap of the log is no decision.
            let newest = self.inner.list("log/").await?;
            if created == Create::Created && newest.last().is_some_and(|newest| newest == name) {
                self.observed
                    .with(|facts| facts.decided.extend(named.into_iter().flatten()));
            }
            Ok(created)
        };
        self.plan.around(op, store_error, create).await
    }

    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.plan
            .around(Op::Read, store_error, self.inner.read(name))
            .await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.plan
            .around(Op::List, store_error, self.inner.list(prefix))
            .await
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.plan
            .around(Op::Delete, store_error, self.inner.delete(name))
            .await
    }

    fn location(&self) -> String {
        self.inner.location()
    }
}

/// A source in which calls go wrong, and which takes its time: so that checkpoints come between its batches also where
/// the clock only moves when all wait.
#[derive(Debug, Clone)]
pub struct FaultySource<S> {
    pub inner: S,
    pub plan: Plan,
    pub pause: Duration,
}

fn source_error(kind: ErrorKind) -> SourceError {
    SourceError::new(kind, "planned")
}

#[async_trait]
impl<S: Source> Source for FaultySource<S> {
    type Record = S::Record;
    type Position = S::Position;
    type Reader = FaultyReader<S::Reader>;

    async fn splits(&self, known: &[SplitId]) -> Result<Vec<SplitId>, SourceError> {
        self.plan
            .around(Op::Splits, source_error, self.inner.splits(known))
            .await
    }

    async fn open(
        &self,
        splits: Vec<(SplitId, Option<S::Position>)>,
    ) -> Result<Self::Reader, SourceError> {
        let open = self.inner.open(splits);
        let inner = self.plan.around(Op::Open, source_error, open).await?;
        Ok(FaultyReader {
            inner,
            plan: self.plan.clone(),
            pause: self.pause,
        })
    }

    async fn notify(
        &self,
        checkpoint: CheckpointId,
        positions: &[(SplitId, S::Position)],
    ) -> Result<(), SourceError> {
        let notify = self.inner.notify(checkpoint, positions);
        self.plan.around(Op::Notify, source_error, notify).await
    }
}

/// The reader of a [`FaultySource`].
#[derive(Debug)]
pub struct FaultyReader<R> {
    inner: R,
    plan: Plan,
    pause: Duration,
}

#[async_trait]
impl<R: SourceReader> SourceReader for FaultyReader<R> {
    type Record = R::Record;
    type Position = R::Position;

    async fn next(&mut self) -> Result<SourceEvent<R::Record, R::Position>, SourceError> {
        tokio::time::sleep(self.pause).await;
        self.plan
            .around(Op::Next, source_error, self.inner.next())
            .await
    }
}
