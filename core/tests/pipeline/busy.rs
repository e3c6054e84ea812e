//! A source that never waits.

use cofferdam::memory::MemorySink;
use cofferdam::{
    CheckpointId, JobEnd, NoEventTime, Pipeline, Source, SourceBatch, SourceError, SourceEvent,
    SourceReader, SplitId, async_trait,
};

use crate::plan::{HOUR, Op, Plan};
use crate::world::{World, ms, run};

/// Always has a number, until an operation was called so many times.
#[derive(Debug, Clone)]
struct Busy {
    plan: Plan,
    until: (Op, usize),
}

/// After so many numbers it gives up.
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
        let source = self.clone();
        Ok(BusyReader { source, next: 0 })
    }

    async fn notify(&self, _: CheckpointId, _: &[(SplitId, u64)]) -> Result<(), SourceError> {
        Ok(())
    }
}

struct BusyReader {
    source: Busy,
    next: u64,
}

#[async_trait]
impl SourceReader for BusyReader {
    type Record = u64;
    type Position = u64;

    async fn next(&mut self) -> Result<SourceEvent<u64, u64>, SourceError> {
        let (op, times) = self.source.until;
        if self.source.plan.calls(op) >= times || self.next == MOST {
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

/// Symptom: a job over a source that always had records, at parallelism 1, made no checkpoint until the input ended.
/// Cause: its task never yielded, and a channel gives nothing to a task that has used up its turn. So barriers waited.
// On one thread: there the driver itself would never get its turn.
#[tokio::test]
async fn barriers_get_through() {
    let plan = Plan::none();
    // The fourth is decided after three were.
    let busy = Busy {
        plan: plan.clone(),
        until: (Op::CreateDecision, 4),
    };
    let job = Pipeline::new("busy")
        .source("busy", busy, NoEventTime)
        .discard()
        .job(World::new().store(&plan))
        .checkpoint_interval(ms(1));
    let handle = job.handle();
    assert_eq!(run(job, &plan).await.end(), Some(JobEnd::Completed));
    let batches = handle.progress().count("busy", "records");
    assert!(
        batches < MOST,
        "three checkpoints were decided before the source gave up"
    );
}

/// A flush must not wait either for a moment without a record.
// In real time: the clock of tests moves when nobody is busy.
#[tokio::test]
async fn the_few_of_many_do_not_wait_in_front_of_a_sink() {
    let plan = Plan::none();
    let world = World::new();
    let sink = MemorySink::new();
    let busy = Busy {
        plan: plan.clone(),
        until: (Op::Write, 1),
    };
    let job = Pipeline::new("faults")
        .source("numbers", busy, NoEventTime)
        .filter(|number| *number == 1)
        .sink("few", world.faulty(&sink, &plan))
        .job(world.store(&plan))
        .checkpoint_interval(HOUR);
    let handle = job.handle();
    assert_eq!(run(job, &plan).await.end(), Some(JobEnd::Completed));
    let batches = handle.progress().count("numbers", "records");
    assert!(batches < MOST, "it is written before the source gave up");
    assert_eq!(sink.visible(), [1]);
}
