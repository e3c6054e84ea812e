//! A real pipeline with the sink under test at its end.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cofferdam::memory::{MemoryReader, MemorySource};
use cofferdam::{
    Capabilities, CheckpointId, CheckpointStore, CommitError, Committed, Create, Fence, InDoubt,
    JobEnd, JobError, JobId, JobReport, MemoryCheckpointStore, NoEventTime, Pipeline,
    RestartStrategy, SinkError, Source, SourceError, SourceEvent, SourceReader, SplitId,
    StoreError, TransactionId, TwoPhaseCommitSinkFunction, Unfinished, async_trait,
};
use tokio::sync::Notify;

use crate::check::Stop;
use crate::factory::Factory;
use crate::history::Event;
use crate::process::{Handle, Open, Process};
use crate::site::{Site, job, sink};
use crate::trial::Trial;

/// Where a process dies: at the n-th call to its sink or its store.
#[derive(Debug, Clone)]
pub(crate) struct Crash(Arc<CrashState>);

#[derive(Debug)]
struct CrashState {
    /// Calls that are left; it dies when there are none.
    left: AtomicU64,
    died: Notify,
}

impl Crash {
    /// At this call, counted from 1: before it for an odd number, after it for an even one.
    pub(crate) fn at(nth: u64) -> Self {
        Self(Arc::new(CrashState {
            left: AtomicU64::new(nth),
            died: Notify::new(),
        }))
    }

    pub(crate) fn never() -> Self {
        Self::at(u64::MAX)
    }

    async fn step(&self) {
        if self.0.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.now().await;
        }
    }

    /// Dies: the caller never goes on.
    async fn now(&self) {
        self.0.died.notify_one();
        std::future::pending().await
    }

    async fn around<T>(&self, call: impl Future<Output = T>) -> T {
        self.step().await;
        let output = call.await;
        self.step().await;
        output
    }
}

/// The checkpoints of a pipeline, over all its runs; what is decided goes into the history.
pub(crate) struct Decisions<F: Factory> {
    store: MemoryCheckpointStore,
    site: Arc<Site<F>>,
    /// Which record numbers the pipeline reads.
    first_record: u64,
    fault: Arc<Mutex<Option<StoreFault>>>,
    crash: Crash,
}

#[derive(Debug, Clone, Copy)]
struct StoreFault {
    /// Writes of decisions until it happens.
    left: u64,
    applied: bool,
    crash: bool,
}

/// Splits of the source, and records of each.
const SPLITS: u64 = 3;
const PER_SPLIT: u64 = 640;

impl<F: Factory> Decisions<F> {
    pub(crate) fn new(trial: &Trial<F>) -> Self {
        Self {
            store: MemoryCheckpointStore::new(),
            site: Arc::clone(&trial.site),
            first_record: trial.site.new_records(SPLITS * PER_SPLIT)[0],
            fault: Arc::default(),
            crash: Crash::never(),
        }
    }

    /// The n-th write of a decision fails, after it was done or without; the process may die there too.
    pub(crate) fn fail_at(&self, left: u64, applied: bool, crash: bool) {
        let fault = StoreFault {
            left,
            applied,
            crash,
        };
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
    }

    /// The crash that goes with the fault.
    pub(crate) fn crash(&self) -> Crash {
        self.crash.clone()
    }
}

impl<F: Factory> Clone for Decisions<F> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            site: Arc::clone(&self.site),
            first_record: self.first_record,
            fault: Arc::clone(&self.fault),
            crash: self.crash.clone(),
        }
    }
}

/// One run of the pipeline: a process of its own, with a new instance of the sink.
pub(crate) struct Run<'a, F: Factory> {
    trial: &'a Trial<F>,
    decisions: &'a Decisions<F>,
    parallelism: u32,
}

/// How a run ended by itself; `None` if it died.
type Ended = Option<Result<JobReport, JobError>>;

impl<'a, F: Factory> Run<'a, F> {
    pub(crate) fn new(trial: &'a Trial<F>, decisions: &'a Decisions<F>) -> Self {
        Self {
            trial,
            decisions,
            parallelism: 1,
        }
    }

    pub(crate) fn parallelism(self, parallelism: u32) -> Self {
        Self {
            parallelism,
            ..self
        }
    }

    /// Runs to the end, or to the crash.
    pub(crate) async fn go(self, crash: Crash) -> Result<Ended, Stop> {
        let process = self.trial.process().await?;
        let sink_function = PipelineSink {
            process,
            crash: crash.clone(),
        };
        let store = PipelineStore {
            decisions: self.decisions.clone(),
            crash: crash.clone(),
        };
        let first = self.decisions.first_record;
        let splits = (0..SPLITS).map(|split| {
            let start = first + split * PER_SPLIT;
            (start..start + PER_SPLIT).collect()
        });
        let run = Pipeline::new(job().as_str())
            .source("numbers", Paced(MemorySource::new(splits)), NoEventTime)
            .sink(sink().as_str(), sink_function)
            .job(store)
            .parallelism(self.parallelism)
            .checkpoint_interval(Duration::from_millis(4))
            .restart(RestartStrategy::FixedDelay {
                restarts: 5,
                delay: Duration::from_millis(1),
            })
            .run();
        tokio::select! {
            ended = run => Ok(Some(ended)),
            () = crash.0.died.notified() => Ok(None),
        }
    }

    /// Runs to the end without a crash, which must be a good one.
    pub(crate) async fn to_the_end(self) -> Result<(), Stop> {
        match self.go(Crash::never()).await? {
            Some(Ok(report))
                if matches!(report.end, JobEnd::Completed | JobEnd::AlreadyComplete) =>
            {
                Ok(())
            }
            Some(Ok(report)) => Err(Stop::failed(format!(
                "the last run ends with {:?}",
                report.end
            ))),
            Some(Err(error)) => Err(Stop::failed(format!(
                "the last run fails: {}",
                crate::check::chain(&error)
            ))),
            None => Err(Stop::failed("the last run died")),
        }
    }
}

/// A sink of record numbers, over the sink under test.
struct PipelineSink<F: Factory> {
    process: Process<F>,
    crash: Crash,
}

impl<F: Factory> fmt::Debug for PipelineSink<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.process.fmt(f)
    }
}

impl<F: Factory> PipelineSink<F> {
    fn aborted(&self, ids: Vec<TransactionId>) {
        self.process.site().note(Event::DecidedAgainst(ids));
    }
}

#[async_trait]
impl<F: Factory> TwoPhaseCommitSinkFunction for PipelineSink<F> {
    type Input = u64;
    type Transaction = Open<F>;
    type Prepared = Handle;

    fn capabilities(&self) -> Capabilities {
        self.process.capabilities()
    }

    async fn begin(&self, id: &TransactionId) -> Result<Open<F>, SinkError> {
        self.crash.around(self.process.begin(id)).await
    }

    async fn write(&self, open: &mut Open<F>, records: Vec<u64>) -> Result<(), SinkError> {
        self.crash
            .around(self.process.write_records(open, records))
            .await
    }

    async fn pre_commit(&self, open: Open<F>) -> Result<Option<Handle>, SinkError> {
        self.crash.around(self.process.pre_commit(open)).await
    }

    async fn commit(&self, _: &TransactionId, handle: &Handle) -> Result<Committed, CommitError> {
        self.crash.around(self.process.commit(handle)).await
    }

    async fn abort(&self, unfinished: Unfinished<Open<F>, Handle>) -> Result<(), SinkError> {
        match unfinished {
            Unfinished::Open(_, open) => self.crash.around(self.process.abort_open(open)).await,
            Unfinished::Prepared(id, handle) => {
                self.aborted(vec![id]);
                self.crash.around(self.process.abort(&handle)).await
            }
        }
    }

    async fn abort_stale(&self, fence: &Fence<Handle>) -> Result<Vec<TransactionId>, SinkError> {
        let newest = fence.newest.map_or(0, |newest| newest.0);
        let decided: Vec<Handle> = fence
            .decided
            .iter()
            .map(|(_, handle)| handle.clone())
            .collect();
        let abort = self.process.abort_stale(fence.epoch.0, newest, &decided);
        let aborted = self.crash.around(abort).await?;
        self.aborted(aborted.clone());
        Ok(aborted)
    }

    async fn in_doubt(&self, _: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        self.process.in_doubt().await
    }
}

/// The store of a [`Decisions`], in one process.
struct PipelineStore<F: Factory> {
    decisions: Decisions<F>,
    crash: Crash,
}

impl<F: Factory> fmt::Debug for PipelineStore<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.decisions.store.fmt(f)
    }
}

/// The transactions that a decision names, from the form in which the log keeps it; `None` if it is no decision.
fn named(name: &str, record: &[u8]) -> Option<Vec<TransactionId>> {
    let header = record.iter().position(|byte| *byte == b'\n')?;
    let body = record.get(header + 1..)?;
    let record: serde_json::Value = serde_json::from_slice(body).ok()?;
    let transactions = record.get("manifest")?.get("transactions")?.as_array()?;
    let id = |transaction: &serde_json::Value| transaction.get("id")?.as_str()?.parse().ok();
    name.starts_with("log/")
        .then(|| transactions.iter().filter_map(id).collect())
}

impl<F: Factory> PipelineStore<F> {
    /// The fault that is due at this write of a decision.
    fn fault(&self) -> Option<StoreFault> {
        let mut fault = self
            .decisions
            .fault
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let due = fault.as_mut()?;
        due.left -= 1;
        if due.left == 0 { fault.take() } else { None }
    }

    async fn decide(
        &self,
        name: &str,
        bytes: Vec<u8>,
        ids: Vec<TransactionId>,
    ) -> Result<Create, StoreError> {
        let fault = self.fault();
        let applied = fault.is_none_or(|fault| fault.applied);
        let mut created = Create::Exists;
        if applied {
            created = self.decisions.store.create(name, bytes).await?;
            if created == Create::Created {
                self.decisions.site.note(Event::Decided(ids));
            }
        }
        match fault {
            None => Ok(created),
            Some(fault) => {
                if fault.crash {
                    self.crash.now().await;
                }
                Err(StoreError {
                    action: "create",
                    object: name.to_owned(),
                    retriable: true,
                    hint: None,
                    cause: "no answer came".into(),
                })
            }
        }
    }
}

#[async_trait]
impl<F: Factory> CheckpointStore for PipelineStore<F> {
    async fn create(&self, name: &str, bytes: Vec<u8>) -> Result<Create, StoreError> {
        match named(name, &bytes) {
            Some(ids) => self.crash.around(self.decide(name, bytes, ids)).await,
            None => {
                self.crash
                    .around(self.decisions.store.create(name, bytes))
                    .await
            }
        }
    }

    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.decisions.store.read(name).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.decisions.store.list(prefix).await
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.decisions.store.delete(name).await
    }

    fn location(&self) -> String {
        self.decisions.store.location()
    }
}

/// A source that takes its time, so that checkpoints come between its batches.
#[derive(Debug)]
struct Paced(MemorySource<u64>);

struct PacedReader(MemoryReader<u64>);

#[async_trait]
impl Source for Paced {
    type Record = u64;
    type Position = usize;
    type Reader = PacedReader;

    async fn splits(&self) -> Result<Vec<SplitId>, SourceError> {
        self.0.splits().await
    }

    async fn open(
        &self,
        splits: Vec<(SplitId, Option<usize>)>,
    ) -> Result<PacedReader, SourceError> {
        Ok(PacedReader(self.0.open(splits).await?))
    }

    async fn notify(&self, _: CheckpointId, _: &[(SplitId, usize)]) -> Result<(), SourceError> {
        Ok(())
    }
}

#[async_trait]
impl SourceReader for PacedReader {
    type Record = u64;
    type Position = usize;

    async fn next(&mut self) -> Result<SourceEvent<u64, usize>, SourceError> {
        // Before anything is taken, so it is cancel safe.
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.0.next().await
    }
}
