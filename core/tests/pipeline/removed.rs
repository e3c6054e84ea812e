//! Parts that are taken out of a pipeline: on purpose and by mistake.

use cofferdam::memory::{MemorySink, MemorySource};
use cofferdam::{
    EventTime, Job, JobEnd, JobError, JobState, MemoryCheckpointStore, Pipeline, Progress,
    Timestamp, Windows, count,
};

use crate::plan::{Mode, Op, Plan, When};
use crate::world::{Outcome, ms, run};
use crate::wrappers::{Faulty, FaultySource, Observed};

/// A pipeline of two flows, of which one can be left out.
#[derive(Clone, Default)]
struct World {
    store: MemoryCheckpointStore,
    observed: Observed,
    one: MemorySink<u64>,
    other: MemorySink<u64>,
}

impl World {
    /// The job; the plan is that of the other flow, if it is there.
    fn job(&self, plan: &Plan, with_other: bool) -> Job {
        let none = Plan::none();
        let first = if with_other { &none } else { plan };
        let sink = |inner: &MemorySink<u64>, plan: &Plan| Faulty {
            inner: inner.clone(),
            plan: plan.clone(),
            observed: self.observed.clone(),
            max_prepared: None,
            ordered: false,
            expiry: None,
            alone: true,
        };
        let source = |first: i64| FaultySource {
            inner: MemorySource::new([(first..first + 400).collect::<Vec<i64>>()]),
            plan: plan.clone(),
            pause: ms(1),
        };
        let by_its_number = || EventTime::of(|number: &i64| Timestamp::from_millis(*number));
        let mut pipeline = Pipeline::new("job")
            .source("one", source(0), by_its_number())
            .map(|_| 1)
            .sink("one-out", sink(&self.one, first));
        if with_other {
            pipeline = pipeline
                .source("other", source(1000), by_its_number())
                .key_by(|number| number % 3)
                .window(Windows::tumbling(ms(100)))
                .aggregate("counts", count())
                .map(|window| window.value)
                .sink("other-out", sink(&self.other, plan));
        }
        pipeline
            .job(self.store.clone())
            .checkpoint_interval(ms(2))
            .restart(cofferdam::RestartStrategy::Never)
    }

    /// Runs the whole pipeline up to some checkpoint, and stops it.
    async fn stop(&self) {
        let plan = Plan::none();
        let job = self.job(&plan, true);
        let mut handle = job.handle();
        let stop = async {
            let stops_cleanly = |progress: &Progress| {
                progress.state == JobState::Running && progress.checkpoint.is_some()
            };
            while !stops_cleanly(&handle.progress()) {
                assert!(handle.changed().await);
            }
            handle.stop();
        };
        let (outcome, ()) = tokio::join!(run(job, &plan), stop);
        assert_eq!(outcome.end(), Some(JobEnd::Stopped), "{outcome:?}");
    }

    async fn refusal(&self, job: impl FnOnce(Job) -> Job) -> String {
        let plan = Plan::none();
        let error = run(job(self.job(&plan, false)), &plan).await.error();
        let text = error.to_string();
        assert!(matches!(error, JobError::OtherPipeline { .. }), "{text}");
        assert_eq!(plan.calls(Op::Commit) + plan.calls(Op::AbortStale), 0);
        text
    }
}

#[tokio::test(start_paused = true)]
async fn each_part_that_is_gone_is_named_until_it_is_removed() {
    let world = World::default();
    world.stop().await;
    let source = world.refusal(|job| job).await;
    assert!(source.contains("Job::remove_source(\"other\")"), "{source}");
    let operator = world.refusal(|job| job.remove_source("other")).await;
    let call = "Job::remove_operator(\"counts\")";
    assert!(operator.contains(call), "{operator}");
    let remove = |job: Job| job.remove_source("other").remove_operator("counts");
    let sink = world.refusal(remove).await;
    assert!(sink.contains("Job::remove_sink(\"other-out\")"), "{sink}");
    for _ in 0..2 {
        // The calls may stay in the program.
        let job = remove(world.job(&Plan::none(), false)).remove_sink("other-out");
        let outcome = run(job, &Plan::none()).await;
        assert!(outcome.end().is_some(), "{outcome:?}");
    }
    // And they need not: the newest checkpoint no longer has what was removed.
    let outcome = run(world.job(&Plan::none(), false), &Plan::none()).await;
    assert_eq!(outcome.end(), Some(JobEnd::AlreadyComplete), "{outcome:?}");
    assert_eq!(world.one.visible().len(), 400);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_may_have_transactions_in_doubt_is_not_removed() {
    let world = World::default();
    let plan = Plan::at(Op::Commit, 1, Mode::Crash(When::Before));
    let outcome = run(world.job(&plan, true), &plan).await;
    assert!(matches!(outcome, Outcome::Crashed), "{outcome:?}");
    let remove = |job: Job| job.remove_source("other").remove_operator("counts");
    let text = world
        .refusal(|job| remove(job).remove_sink("other-out"))
        .await;
    assert!(
        text.contains("start the job with sink other-out once more"),
        "{text}"
    );
    world.stop().await;
    let job = remove(world.job(&Plan::none(), false)).remove_sink("other-out");
    let outcome = run(job, &Plan::none()).await;
    assert_eq!(outcome.end(), Some(JobEnd::Completed), "{outcome:?}");
    assert_eq!(world.one.visible().len(), 400);
}

#[tokio::test(start_paused = true)]
async fn a_part_that_is_removed_and_still_there_is_named() {
    type Remove = fn(Job) -> Job;
    let removals: [(Remove, &str); 3] = [
        (|job| job.remove_source("other"), "source other"),
        (|job| job.remove_operator("counts"), "operator counts"),
        (|job| job.remove_sink("other-out"), "sink other-out"),
    ];
    for (remove, part) in removals {
        let (world, plan) = (World::default(), Plan::none());
        let error = run(remove(world.job(&plan, true)), &plan).await.error();
        let text = error.to_string();
        assert!(matches!(error, JobError::Plan(_)), "{text}");
        assert!(text.contains(part), "{text}");
    }
}
