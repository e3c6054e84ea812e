//! Records that are too few for a batch.

use std::future::Future;

use cofferdam::memory::MemorySink;
use cofferdam::{JobEnd, JobHandle, NoEventTime, Pipeline};

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
