//! Records that are too few for a batch.

use std::future::Future;

use cofferdam::memory::MemorySink;
use cofferdam::{
    CheckpointId, JobEnd, JobHandle, NoEventTime, Pipeline, RestartStrategy, Source, SourceBatch,
    SourceError, SourceEvent, SourceReader, SplitId, async_trait,
};
use tokio::time::Instant;

use crate::plan::{HOUR, Op, Plan};
use crate::rows::{Row, Rows};
use crate::world::{Event, TUMBLING, World, ms, run};

/// Three records; then nothing more, without an end.
fn trickle(at: [i64; 3]) -> Rows<Event> {
    let record = |(id, at)| Row::Record(Event { id, key: 1, at });
    let rows = Rows::new(vec![(0..).zip(at).map(record).collect()], 1);
    Rows {
        endless: true,
        ..rows
    }
}

/// Stops the job once so many batches are written. None of them may wait for a barrier: the first one is an hour away.
async fn written(batches: usize, plan: &Plan, handle: JobHandle) {
    let written = async {
        while plan.calls(Op::Write) < batches {
            tokio::time::sleep(ms(1)).await;
        }
    };
    let waited = tokio::time::timeout(ms(1000), written).await;
    let (writes, prepared) = (plan.calls(Op::Write), plan.calls(Op::PreCommit));
    assert!(waited.is_ok(), "{writes} of {batches} batches are written");
    assert_eq!(prepared, 0);
    handle.stop();
}

async fn stops(job: impl Future<Output = Option<JobEnd>>, written: impl Future<Output = ()>) {
    let (end, ()) = tokio::join!(job, written);
    assert_eq!(end, Some(JobEnd::Stopped));
}

#[tokio::test(start_paused = true)]
async fn records_do_not_wait_in_front_of_a_sink() {
    let plan = Plan::none();
    let world = World::new();
    let sink = MemorySink::new();
    let job = Pipeline::new("faults")
        .source("events", trickle([0, 1, 2]), NoEventTime)
        .map(|event| event.id)
        .sink("ids", world.faulty(&sink, &plan))
        .job(world.store(&plan))
        .checkpoint_interval(HOUR);
    let handle = job.handle();
    let end = async { run(job, &plan).await.end() };
    stops(end, written(1, &plan, handle)).await;
    assert_eq!(sink.visible(), [0, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn records_do_not_wait_between_subtasks_nor_behind_a_window() {
    for parallelism in [1, 2] {
        // The second closes the window of the first; the third is late for it, and moves no watermark.
        let world = World {
            interval: HOUR,
            ..World::over(trickle([0, 10_000, 0]), Vec::new(), TUMBLING)
        };
        let plan = Plan::none();
        let job = world.job(&plan).parallelism(parallelism);
        let handle = job.handle();
        let end = async { run(job, &plan).await.end() };
        stops(end, written(2, &plan, handle)).await;
        assert_eq!(world.results.visible().len(), 1);
        assert_eq!(world.late.visible(), [(1, 2)]);
    }
}

/// Always has a number, until something is written.
#[derive(Debug, Clone)]
struct Busy(Plan);

#[async_trait]
impl Source for Busy {
    type Record = u64;
    type Position = u64;
    type Reader = BusyReader;

    async fn splits(&self, _: &[SplitId]) -> Result<Vec<SplitId>, SourceError> {
        Ok(vec![SplitId::new("busy")])
    }

    async fn open(&self, _: Vec<(SplitId, Option<u64>)>) -> Result<BusyReader, SourceError> {
        Ok(BusyReader {
            plan: self.0.clone(),
            since: Instant::now(),
            next: 0,
        })
    }

    async fn notify(&self, _: CheckpointId, _: &[(SplitId, u64)]) -> Result<(), SourceError> {
        Ok(())
    }
}

struct BusyReader {
    plan: Plan,
    since: Instant,
    next: u64,
}

#[async_trait]
impl SourceReader for BusyReader {
    type Record = u64;
    type Position = u64;

    async fn next(&mut self) -> Result<SourceEvent<u64, u64>, SourceError> {
        if self.plan.calls(Op::Write) > 0 {
            return Ok(SourceEvent::End);
        }
        assert!(self.since.elapsed() < ms(10_000), "nothing is written");
        self.next += 1;
        Ok(SourceEvent::Batch(SourceBatch {
            split: SplitId::new("busy"),
            records: vec![self.next],
            position: self.next,
            skipped: 0,
        }))
    }
}

// In real time: the clock of tests moves when nobody is busy.
#[tokio::test]
async fn the_few_of_many_do_not_wait_either() {
    let plan = Plan::none();
    let world = World::new();
    let sink = MemorySink::new();
    let job = Pipeline::new("faults")
        .source("numbers", Busy(plan.clone()), NoEventTime)
        .filter(|number| *number == 1)
        .sink("few", world.faulty(&sink, &plan))
        .job(world.store(&plan))
        .restart(RestartStrategy::Never)
        .checkpoint_interval(HOUR);
    assert_eq!(run(job, &plan).await.end(), Some(JobEnd::Completed));
    assert_eq!(sink.visible(), [1]);
}
