//! Symptom: a job over a source that always had records, at parallelism 1, made no checkpoint until the input ended.
//! Cause: its task never yielded, and a channel gives nothing to a task that has used up its turn. So barriers waited.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cofferdam::{
    CheckpointId, JobEnd, MemoryCheckpointStore, NoEventTime, Pipeline, Source, SourceBatch,
    SourceError, SourceEvent, SourceReader, SplitId, async_trait,
};

/// Always has a batch, until three checkpoints are decided; gives up after many batches.
#[derive(Debug, Clone, Default)]
struct Busy {
    decided: Arc<AtomicU64>,
}

const MOST: u64 = 2_000_000;

#[async_trait]
impl Source for Busy {
    type Record = u64;
    type Position = u64;
    type Reader = BusyReader;

    async fn splits(&self, _: &[SplitId]) -> Result<Vec<SplitId>, SourceError> {
        Ok(vec![SplitId::new("busy")])
    }

    async fn open(&self, _: Vec<(SplitId, Option<u64>)>) -> Result<BusyReader, SourceError> {
        let decided = Arc::clone(&self.decided);
        Ok(BusyReader { decided, next: 0 })
    }

    async fn notify(&self, _: CheckpointId, _: &[(SplitId, u64)]) -> Result<(), SourceError> {
        self.decided.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

struct BusyReader {
    decided: Arc<AtomicU64>,
    next: u64,
}

#[async_trait]
impl SourceReader for BusyReader {
    type Record = u64;
    type Position = u64;

    async fn next(&mut self) -> Result<SourceEvent<u64, u64>, SourceError> {
        if self.decided.load(Ordering::SeqCst) >= 3 || self.next == MOST {
            return Ok(SourceEvent::End);
        }
        self.next += 1;
        Ok(SourceEvent::Batch(SourceBatch {
            split: SplitId::new("busy"),
            records: vec![self.next],
            position: self.next,
            skipped: 0,
        }))
    }
}

// On one thread: there the driver itself would never get its turn.
#[tokio::test]
async fn barriers_get_through_a_source_that_never_waits() {
    let busy = Busy::default();
    let job = Pipeline::new("busy")
        .source("busy", busy.clone(), NoEventTime)
        .discard()
        .job(MemoryCheckpointStore::new())
        .checkpoint_interval(Duration::from_millis(1));
    let report = job.run().await.expect("the job ends");
    assert_eq!(report.end, JobEnd::Completed);
    let batches = report.progress.count("busy", "records");
    assert!(
        batches < MOST,
        "three checkpoints were decided before the source gave up"
    );
}
