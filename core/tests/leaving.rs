//! A job that is told to leave at once does, also while something hangs.

use std::sync::Arc;
use std::time::Duration;

use cofferdam::memory::MemorySink;
use cofferdam::{
    Capabilities, CheckpointId, CommitError, Committed, Fence, InDoubt, Job, JobEnd, JobError,
    JobId, MemoryCheckpointStore, NoEventTime, Pipeline, SinkError, Source, SourceError,
    SourceEvent, SourceReader, SplitId, TransactionId, TwoPhaseCommitSinkFunction, Unfinished,
    async_trait,
};
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// What the parts of a job have come to, a permit for each time.
#[derive(Debug)]
struct Reached {
    splits_asked: Semaphore,
    sink_hangs: Semaphore,
    reader_gone: Semaphore,
}

impl Reached {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            splits_asked: Semaphore::new(0),
            sink_hangs: Semaphore::new(0),
            reader_gone: Semaphore::new(0),
        })
    }
}

async fn wait_for(reached: &Semaphore) {
    let permit = reached.acquire().await;
    permit.expect("never closed").forget();
}

/// A source of two splits: one gives a record and then nothing, the other fails once the sink hangs.
#[derive(Debug)]
struct Failing {
    reached: Arc<Reached>,
    hangs_at_once: bool,
}

#[derive(Debug)]
struct FailingReader {
    reached: Arc<Reached>,
    split: SplitId,
    given: bool,
}

impl Drop for FailingReader {
    fn drop(&mut self) {
        self.reached.reader_gone.add_permits(1);
    }
}

#[async_trait]
impl Source for Failing {
    type Record = u8;
    type Position = u8;
    type Reader = FailingReader;

    async fn splits(&self, _: &[SplitId]) -> Result<Vec<SplitId>, SourceError> {
        self.reached.splits_asked.add_permits(1);
        if self.hangs_at_once {
            std::future::pending::<()>().await;
        }
        Ok(vec![SplitId::new("fails"), SplitId::new("gives")])
    }

    async fn open(&self, splits: Vec<(SplitId, Option<u8>)>) -> Result<FailingReader, SourceError> {
        let (split, _) = splits.into_iter().next().expect("a split for each subtask");
        Ok(FailingReader {
            reached: Arc::clone(&self.reached),
            split,
            given: false,
        })
    }

    async fn notify(&self, _: CheckpointId, _: &[(SplitId, u8)]) -> Result<(), SourceError> {
        Ok(())
    }
}

#[async_trait]
impl SourceReader for FailingReader {
    type Record = u8;
    type Position = u8;

    async fn next(&mut self) -> Result<SourceEvent<u8, u8>, SourceError> {
        if self.split.as_str() == "fails" {
            wait_for(&self.reached.sink_hangs).await;
            return Err(SourceError::transient("the split is gone"));
        }
        if self.given {
            std::future::pending::<()>().await;
        }
        self.given = true;
        Ok(SourceEvent::Batch(cofferdam::SourceBatch {
            split: self.split.clone(),
            records: vec![7],
            position: 1,
            skipped: 0,
        }))
    }
}

/// A sink that never gets a transaction begun.
#[derive(Debug)]
struct Hanging {
    reached: Arc<Reached>,
}

#[async_trait]
impl TwoPhaseCommitSinkFunction for Hanging {
    type Input = u8;
    type Transaction = ();
    type Prepared = ();

    fn capabilities(&self) -> Capabilities {
        Capabilities::TRANSACTIONAL
    }

    async fn begin(&self, _: &TransactionId) -> Result<(), SinkError> {
        self.reached.sink_hangs.add_permits(1);
        std::future::pending().await
    }

    async fn write(&self, (): &mut (), _: Vec<u8>) -> Result<(), SinkError> {
        Ok(())
    }

    async fn pre_commit(&self, (): ()) -> Result<Option<()>, SinkError> {
        Ok(None)
    }

    async fn commit(&self, _: &TransactionId, (): &()) -> Result<Committed, CommitError> {
        Ok(Committed::Now)
    }

    async fn abort(&self, _: Unfinished<(), ()>) -> Result<(), SinkError> {
        Ok(())
    }

    async fn abort_stale(&self, _: &Fence<()>) -> Result<Vec<InDoubt>, SinkError> {
        Ok(Vec::new())
    }

    async fn in_doubt(&self, _: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        Ok(Vec::new())
    }
}

/// Runs a job, tells it to leave once something is reached, and returns how it ended and how long that took.
async fn leave(job: Job, reached: &Semaphore) -> (Result<JobEnd, JobError>, Duration) {
    let handle = job.handle();
    let tell = async {
        wait_for(reached).await;
        let told = Instant::now();
        handle.stop_now();
        told
    };
    let (report, told) = tokio::join!(job.run(), tell);
    (report.map(|report| report.end), told.elapsed())
}

#[tokio::test(start_paused = true)]
async fn while_a_source_does_not_open() {
    let reached = Reached::new();
    let source = Failing {
        reached: Arc::clone(&reached),
        hangs_at_once: true,
    };
    let job = Pipeline::new("orders")
        .source("splits", source, NoEventTime)
        .sink("out", MemorySink::new())
        .job(MemoryCheckpointStore::new());
    let left = tokio::time::timeout(Duration::from_secs(60), leave(job, &reached.splits_asked));
    let (end, took) = left.await.expect("it leaves");
    assert!(matches!(end, Ok(JobEnd::Left)), "{end:?}");
    assert_eq!(took, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn while_a_failed_run_waits_for_a_sink_that_hangs() {
    let reached = Reached::new();
    let source = Failing {
        reached: Arc::clone(&reached),
        hangs_at_once: false,
    };
    let sink = Hanging {
        reached: Arc::clone(&reached),
    };
    let job = Pipeline::new("orders")
        .source("splits", source, NoEventTime)
        .sink("out", sink)
        .job(MemoryCheckpointStore::new())
        .parallelism(2);
    let (end, took) = leave(job, &reached.reader_gone).await;
    assert!(matches!(end, Ok(JobEnd::Left)), "{end:?}");
    assert_eq!(took, Duration::ZERO, "it waited for the sink");
}
