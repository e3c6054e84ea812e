//! Pipelines that can't work, and checkpoints that don't fit, are refused in clear words.

use cofferdam::memory::{MemorySink, MemorySource};
use cofferdam::{
    EventTime, Job, JobError, MemoryCheckpointStore, NoEventTime, Pipeline, RestartStrategy,
    Timestamp, Windows, count,
};

use crate::plan::{Mode, Op, Plan, When};
use crate::world::{Outcome, ms, run};
use crate::wrappers::{Faulty, FaultyStore, Observed};

fn numbers() -> MemorySource<i64> {
    MemorySource::new([(0..300).collect()])
}

fn refusal(error: &JobError) -> String {
    assert!(matches!(error, JobError::Plan(_)), "{error:?}");
    assert!(!error.is_restartable());
    error.to_string()
}

async fn refused(pipeline: Pipeline) -> String {
    let job = pipeline.job(MemoryCheckpointStore::new());
    refusal(&job.run().await.unwrap_err())
}

#[tokio::test]
async fn names_that_cant_be_used() {
    let pipeline = |job: &str, source: &str, sink: &str| {
        Pipeline::new(job)
            .source(source, numbers(), NoEventTime)
            .sink(sink, MemorySink::new())
    };
    let text = refused(pipeline("a/b", "source", "sink")).await;
    assert!(
        text.contains("job \"a/b\" can't be used as a name"),
        "{text}"
    );
    let text = refused(pipeline("job", "", "x y")).await;
    // All at once, so that nobody has to come back for the next.
    assert!(
        text.contains("source \"\" can't") && text.contains("sink \"x y\" can't"),
        "{text}"
    );
}

#[tokio::test]
async fn names_that_are_taken() {
    let twice = Pipeline::new("job")
        .source("numbers", numbers(), NoEventTime)
        .sink("sink", MemorySink::new())
        .source("numbers", numbers(), NoEventTime)
        .sink("sink", MemorySink::new());
    let text = refused(twice).await;
    assert!(
        text.contains("two sources named numbers; there are two sinks named sink"),
        "{text}"
    );
    let shared = Pipeline::new("job")
        .source("numbers", numbers(), NoEventTime)
        .sink("numbers", MemorySink::new());
    let text = refused(shared).await;
    assert!(
        text.contains("a source and a sink are both named numbers"),
        "{text}"
    );
    let event_time = EventTime::of(|number: &i64| Timestamp::from_millis(*number));
    let windows = Pipeline::new("job")
        .source("numbers", numbers(), event_time)
        .key_by(|number| *number)
        .window(Windows::tumbling(ms(10)))
        .aggregate("count", count())
        .key_by(|window| window.key)
        .window(Windows::tumbling(ms(10)))
        .aggregate("count", count())
        .discard();
    let text = refused(windows).await;
    assert!(text.contains("two operators named count"), "{text}");
}

#[tokio::test]
async fn windows_that_cant_be() {
    let lengths = [
        (Windows::tumbling(ms(0)), "a length above zero"),
        (Windows::sliding(ms(10), ms(0)), "a length above zero"),
        (Windows::sliding(ms(10), ms(20)), "would leave records out"),
        (
            Windows::tumbling(std::time::Duration::from_micros(1500)),
            "whole milliseconds",
        ),
        (
            Windows::tumbling(ms(i64::MAX - i64::MAX % 1000)),
            "70 million years",
        ),
    ];
    for (windows, why) in lengths {
        let event_time = EventTime::of(|number: &i64| Timestamp::from_millis(*number));
        let pipeline = Pipeline::new("job")
            .source("numbers", numbers(), event_time)
            .key_by(|number| *number)
            .window(windows)
            .aggregate("count", count())
            .discard();
        let text = refused(pipeline).await;
        assert!(text.contains(why), "{text}");
    }
    let event_time = EventTime::of(|number: &i64| Timestamp::from_millis(*number));
    let never_final = Pipeline::new("job")
        .source("numbers", numbers(), event_time)
        .key_by(|number| *number)
        .window(Windows::tumbling(ms(10)))
        .allowed_lateness(std::time::Duration::MAX)
        .aggregate("count", count())
        .discard();
    let text = refused(never_final).await;
    assert!(text.contains("70 million years"), "{text}");
    let timeless = Pipeline::new("job")
        .source("numbers", numbers(), NoEventTime)
        .key_by(|number| *number)
        .window(Windows::tumbling(ms(10)))
        .aggregate("count", count())
        .discard();
    let text = refused(timeless).await;
    assert!(
        text.contains("count: windows need a source with event time"),
        "{text}"
    );
}

#[tokio::test]
async fn pipelines_without_end_and_settings_that_cant_be() {
    let text = refused(Pipeline::new("job")).await;
    assert!(text.contains("no sink"), "{text}");
    let limits = [
        (false, 0, "can hold no prepared transaction"),
        (true, 2, "is ordered, so it holds one prepared transaction"),
    ];
    for (ordered, limit, expected) in limits {
        let limited = Faulty {
            inner: MemorySink::new(),
            plan: Plan::none(),
            observed: Observed::default(),
            max_prepared: Some(limit),
            ordered,
            expiry: None,
            alone: true,
        };
        let pipeline = Pipeline::new("job")
            .source("numbers", numbers(), NoEventTime)
            .sink("sink", limited);
        let text = refused(pipeline).await;
        assert!(text.contains(expected), "{text}");
    }
    let job = || {
        Pipeline::new("job")
            .source("numbers", numbers(), NoEventTime)
            .sink("sink", MemorySink::new())
            .job(MemoryCheckpointStore::new())
    };
    let endless = std::time::Duration::MAX;
    let strategy = |first, limit| RestartStrategy::ExponentialBackoff {
        restarts: 1,
        first,
        limit,
    };
    let fixed = RestartStrategy::FixedDelay {
        restarts: 1,
        delay: endless,
    };
    let settings: [(Job, &str); 13] = [
        (job().parallelism(0), "begin at 1"),
        (job().shards(0), "begin at 1"),
        (job().parallelism(3).shards(2), "needs as many shards"),
        (job().checkpoint_interval(ms(0)), "can't be zero"),
        (job().checkpoint_timeout(ms(0)), "can't be zero"),
        (job().retained_checkpoints(0), "at least one checkpoint"),
        (job().shards(u32::MAX), "shards is set to 4294967295"),
        (job().checkpoint_interval(endless), "checkpoint_interval"),
        (job().checkpoint_timeout(endless), "checkpoint_timeout"),
        (job().checkpoint_timeout(ms(2_592_000_001)), "(30 days)"),
        (job().restart(fixed), "restart delay"),
        (job().restart(strategy(endless, ms(1))), "restart first"),
        (job().restart(strategy(ms(1), endless)), "restart limit"),
    ];
    for (job, why) in settings {
        let text = refusal(&job.run().await.unwrap_err());
        assert!(text.contains(why), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sink_whose_transactions_may_expire_before_they_are_committed() {
    let seconds = std::time::Duration::from_secs;
    let job = |expiry| {
        let faulty = Faulty {
            inner: MemorySink::new(),
            plan: Plan::none(),
            observed: Observed::default(),
            max_prepared: None,
            ordered: false,
            expiry: Some(expiry),
            alone: true,
        };
        Pipeline::new("job")
            .source("numbers", numbers(), NoEventTime)
            .sink("expiring", faulty)
            .job(MemoryCheckpointStore::new())
    };
    // As usual in Kafka; and what the defaults need: four times a second and a minute, a minute for the commits of older
    // checkpoints, and half a minute to restart.
    for expiry in [seconds(900), seconds(334)] {
        job(expiry).run().await.unwrap();
    }
    let text = refusal(&job(seconds(334) - ms(1)).run().await.unwrap_err());
    for part in [
        "sink expiring",
        "333.999s",
        "334s",
        "60s for older commits",
        "4 times",
        "interval of 1s",
        "time-out of 60s",
        "checkpoint_timeout",
    ] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    let strict = |expiry| {
        job(expiry)
            .checkpoint_interval(seconds(2))
            .checkpoint_timeout(seconds(8))
            .tolerable_checkpoint_failures(0)
    };
    strict(seconds(48)).run().await.unwrap();
    refusal(&strict(seconds(47)).run().await.unwrap_err());
}

/// The names of a pipeline.
#[derive(Clone, Copy)]
struct Names {
    job: &'static str,
    source: &'static str,
    operator: &'static str,
    sink: &'static str,
}

const NAMES: Names = Names {
    job: "job",
    source: "numbers",
    operator: "count",
    sink: "sink",
};

fn named(names: Names, sink: &MemorySink<u64>, store: &MemoryCheckpointStore, plan: &Plan) -> Job {
    let observed = Observed::default();
    let faulty = Faulty {
        inner: sink.clone(),
        plan: plan.clone(),
        observed: observed.clone(),
        max_prepared: None,
        ordered: false,
        expiry: None,
        alone: true,
    };
    let event_time = EventTime::of(|number: &i64| Timestamp::from_millis(*number));
    Pipeline::new(names.job)
        .source(names.source, numbers(), event_time)
        .key_by(|number| number % 3)
        .window(Windows::tumbling(ms(100)))
        .aggregate(names.operator, count())
        .map(|window| window.value)
        .sink(names.sink, faulty)
        .job(FaultyStore {
            inner: std::sync::Arc::new(store.clone()),
            plan: plan.clone(),
            observed,
        })
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_of_another_pipeline_is_refused_and_nothing_is_touched() {
    let (sink, store) = (MemorySink::new(), MemoryCheckpointStore::new());
    let plan = Plan::at(Op::Commit, 1, Mode::Crash(When::Before));
    assert!(matches!(
        run(named(NAMES, &sink, &store, &plan), &plan).await,
        Outcome::Crashed
    ));
    let others = [
        (
            Names {
                source: "digits",
                ..NAMES
            },
            "positions of source numbers, which is gone",
        ),
        (
            Names {
                operator: "sum",
                ..NAMES
            },
            "state of operator count, which is gone",
        ),
        (
            Names {
                sink: "files",
                ..NAMES
            },
            "output of sink sink, which is gone",
        ),
    ];
    for (names, why) in others {
        let plan = Plan::none();
        let error = run(named(names, &sink, &store, &plan), &plan).await.error();
        let text = error.to_string();
        assert!(matches!(error, JobError::OtherPipeline { .. }), "{text}");
        assert!(
            text.contains(why) && text.contains("checkpoint 1 does not fit"),
            "{text}"
        );
        assert_eq!(plan.calls(Op::AbortStale) + plan.calls(Op::Commit), 0);
    }
    let plan = Plan::none();
    let error = run(named(NAMES, &sink, &store, &plan).shards(64), &plan)
        .await
        .error();
    let text = error.to_string();
    assert!(
        text.contains("it has 128 shards, and this job is set to 64: set it to 128"),
        "{text}"
    );
    let other = Names {
        job: "other",
        ..NAMES
    };
    let error = run(named(other, &sink, &store, &plan), &plan).await.error();
    let text = error.to_string();
    assert!(
        text.contains("holds the checkpoints of job job, not of other"),
        "{text}"
    );
    // The right one goes on as if nothing had been.
    assert!(
        run(named(NAMES, &sink, &store, &plan), &plan)
            .await
            .end()
            .is_some()
    );
    assert_eq!(sink.visible().iter().sum::<u64>(), 300);
}
