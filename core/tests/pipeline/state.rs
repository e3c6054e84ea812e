//! Stored state is restored by the operator that stored it, and refused by any other.

use std::hash::Hash;

use cofferdam::memory::MemorySink;
use cofferdam::{
    Aggregate, AggregateError, EventTime, JobEnd, JobError, MemoryCheckpointStore, Pipeline,
    RestartStrategy, Timestamp, Windows, count, fold, max, mean, min, sum,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::rows::{Row, Rows};
use crate::world::{Event, ms};

/// The parts of a window operator.
#[derive(Clone, Copy)]
struct Operator<A, K> {
    windows: Windows,
    lateness: i64,
    aggregate: A,
    key: fn(&Event) -> K,
    parallelism: u32,
}

fn operator<A>(windows: Windows, aggregate: A) -> Operator<A, u8> {
    Operator {
        windows,
        lateness: 0,
        aggregate,
        key: |event| event.key,
        parallelism: 1,
    }
}

/// Reads two records, and stops with their windows open.
async fn stop_with_open_windows<A, K>(
    operator: Operator<A, K>,
    store: &MemoryCheckpointStore,
) -> Result<JobEnd, JobError>
where
    A: Aggregate<Event>,
    K: Eq + Hash + Clone + Serialize + DeserializeOwned + Send + 'static,
{
    let record = |id, at| Row::Record(Event { id, key: 1, at });
    let source = Rows {
        endless: true,
        ..Rows::new(vec![vec![record(1, 10), record(2, 20)]], 1)
    };
    let event_time = EventTime::of(|event: &Event| Timestamp::from_millis(event.at));
    let job = Pipeline::new("state")
        .source("events", source, event_time)
        .key_by(operator.key)
        .window(operator.windows)
        .allowed_lateness(ms(operator.lateness))
        .aggregate("windows", operator.aggregate)
        .map(|_| ())
        .sink("results", MemorySink::new())
        .job(store.clone())
        .parallelism(operator.parallelism)
        .checkpoint_interval(ms(5))
        .restart(RestartStrategy::Never);
    let handle = job.handle();
    let stop = async {
        tokio::time::sleep(ms(100)).await;
        handle.stop();
    };
    let (ended, ()) = tokio::join!(job.run(), stop);
    ended.map(|report| report.end)
}

/// State of the first operator meets the second, which has to refuse it and to say why.
async fn refused<A, B, K, L>(first: Operator<A, K>, second: Operator<B, L>, why: &[&str])
where
    A: Aggregate<Event>,
    B: Aggregate<Event>,
    K: Eq + Hash + Clone + Serialize + DeserializeOwned + Send + 'static,
    L: Eq + Hash + Clone + Serialize + DeserializeOwned + Send + 'static,
{
    let store = MemoryCheckpointStore::new();
    let end = stop_with_open_windows(first.clone(), &store).await;
    assert_eq!(end.unwrap(), JobEnd::Stopped);
    match stop_with_open_windows(second, &store).await {
        Err(error @ JobError::State { .. }) => {
            let text = error.to_string();
            for why in [&["operator windows", "new checkpoint store"], why].concat() {
                assert!(text.contains(why), "{why}: {text}");
            }
        }
        other => panic!("{why:?}: {other:?}"),
    }
    // The refusal changes nothing: the first operator can still go on.
    let end = stop_with_open_windows(first, &store).await;
    assert_eq!(end.unwrap(), JobEnd::Stopped);
}

const MINUTE: Windows = Windows::tumbling(std::time::Duration::from_secs(60));

fn id(event: &Event) -> u64 {
    event.id.into()
}

fn at(event: &Event) -> i64 {
    event.at
}

#[tokio::test(start_paused = true)]
async fn state_of_other_windows_is_refused() {
    let first = operator(MINUTE, count());
    let windows = |windows| operator(windows, count());
    let half = Windows::tumbling(ms(30_000));
    let why = "tumbling, 60000 ms in the state, tumbling, 30000 ms in this pipeline";
    refused(first, windows(half), &[why]).await;
    let sliding = Windows::sliding(ms(60_000), ms(20_000));
    let why = "sliding, 60000 ms every 20000 ms in this pipeline";
    refused(first, windows(sliding), &[why]).await;
    let denser = Windows::sliding(ms(60_000), ms(10_000));
    refused(windows(sliding), windows(denser), &["every 10000 ms"]).await;
}

#[tokio::test(start_paused = true)]
async fn state_of_another_aggregate_is_refused() {
    let counts = operator(MINUTE, count());
    let why = "the aggregate: count in the state, sum in this pipeline";
    refused(counts, operator(MINUTE, sum(at)), &[why, "u64", "i64"]).await;
    refused(counts, operator(MINUTE, sum(id)), &[why]).await;
    let least = operator(MINUTE, min(|event: &Event| Some(event.at)));
    let greatest = operator(MINUTE, max(|event: &Event| Some(event.at)));
    refused(least, greatest, &["min in the state, max"]).await;
    let sums = operator(MINUTE, sum(id));
    let types = "the type of the accumulator: u64 in the state, i64 in this pipeline";
    refused(sums.clone(), operator(MINUTE, sum(at)), &[types]).await;
    let floats = operator(MINUTE, sum(|event: &Event| f64::from(event.id)));
    refused(sums, floats, &["f64"]).await;
    let both = operator(MINUTE, (count(), sum(id)));
    let swapped = operator(MINUTE, (sum(id), count()));
    refused(
        both.clone(),
        swapped,
        &["(count, sum) in the state, (sum, count)"],
    )
    .await;
    let more = operator(
        MINUTE,
        (
            count(),
            sum(id),
            mean(|event: &Event| Some(f64::from(event.id))),
        ),
    );
    refused(both, more, &["(count, sum, mean)"]).await;
}

#[tokio::test(start_paused = true)]
async fn state_of_other_types_is_refused() {
    let list = operator(
        MINUTE,
        fold(Vec::new(), |ids: &mut Vec<u32>, event: &Event| {
            ids.push(event.id);
        }),
    );
    let map = operator(
        MINUTE,
        fold(0_u32, |last: &mut u32, event: &Event| *last = event.id),
    );
    refused(list, map, &["[u32] in the state, u32 in this pipeline"]).await;
    let other = Operator {
        windows: MINUTE,
        lateness: 0,
        aggregate: count(),
        key: |event: &Event| event.at,
        parallelism: 1,
    };
    let keys = "the type of the key: u8 in the state, i64 in this pipeline";
    refused(operator(MINUTE, count()), other, &[keys]).await;
}

/// The newest id.
#[derive(Clone)]
struct Newest(&'static str);

impl Aggregate<Event> for Newest {
    type Accumulator = u32;
    type Output = u32;

    fn name(&self) -> String {
        self.0.to_owned()
    }

    fn create(&self) -> u32 {
        0
    }

    fn add(&self, newest: &mut u32, event: &Event) -> Result<(), AggregateError> {
        *newest = event.id;
        Ok(())
    }

    fn finish(&self, newest: u32) -> u32 {
        newest
    }
}

#[tokio::test(start_paused = true)]
async fn an_aggregate_of_ones_own_has_its_state_by_its_name() {
    let [first, second] = ["newest", "newest-2"].map(|name| operator(MINUTE, Newest(name)));
    refused(first, second, &["newest in the state, newest-2"]).await;
}

#[tokio::test(start_paused = true)]
async fn lateness_and_parallelism_may_change() {
    let store = MemoryCheckpointStore::new();
    for (lateness, parallelism) in [(0, 1), (5_000, 3), (0, 2), (60_000, 1)] {
        let operator = Operator {
            lateness,
            parallelism,
            ..operator(MINUTE, (count(), sum(at)))
        };
        let end = stop_with_open_windows(operator, &store).await;
        assert_eq!(end.unwrap(), JobEnd::Stopped, "{lateness} {parallelism}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_longer_lateness_opens_no_window_that_has_given_its_result() {
    let store = MemoryCheckpointStore::new();
    let results = MemorySink::new();
    let record = |id, at| Row::Record(Event { id, key: 1, at });
    let start = [record(1, 10), record(2, 150)];
    let more = [record(3, 20), record(4, 120), record(5, 1000)];
    let all: Vec<_> = start.iter().cloned().chain(more).collect();
    for (rows, lateness, endless) in [(start.to_vec(), 0, true), (all, 500, false)] {
        let source = Rows {
            endless,
            ..Rows::new(vec![rows], 1)
        };
        let event_time = EventTime::of(|event: &Event| Timestamp::from_millis(event.at));
        let job = Pipeline::new("state")
            .source("events", source, event_time)
            .key_by(|event| event.key)
            .window(Windows::tumbling(ms(100)))
            .allowed_lateness(ms(lateness))
            .aggregate("windows", count())
            .map(|window| (window.start.as_millis(), window.value))
            .sink("results", results.clone())
            .job(store.clone())
            .checkpoint_interval(ms(5));
        let handle = job.handle();
        let stop = async {
            tokio::time::sleep(ms(100)).await;
            handle.stop();
        };
        let (ended, ()) = tokio::join!(job.run(), stop);
        ended.unwrap();
    }
    // Record 3 is in bounds by the new lateness, and its window was closed by the old one.
    assert_eq!(results.visible(), [(0, 1), (100, 2), (1000, 1)]);
}

/// Runs one split to its end; returns the results and their error.
async fn aggregated<A>(aggregate: A, numbers: Vec<f64>) -> Result<Vec<A::Output>, JobError>
where
    A: Aggregate<f64>,
    A::Output: Clone + Sync,
{
    let results = MemorySink::new();
    let rows = numbers.into_iter().map(Row::Record).collect();
    let event_time = EventTime::of(|_: &f64| Timestamp::from_millis(130));
    Pipeline::new("numbers")
        .source("numbers", Rows::new(vec![rows], 2), event_time)
        .key_by(|_| "all".to_owned())
        .window(Windows::tumbling(ms(100)))
        .aggregate("windows", aggregate)
        .map(|window| window.value)
        .sink("results", results.clone())
        .job(MemoryCheckpointStore::new())
        .run()
        .await?;
    Ok(results.visible())
}

#[tokio::test(start_paused = true)]
async fn the_least_and_the_greatest_do_not_depend_on_where_nan_comes() {
    for at in 0..=3 {
        let mut numbers = vec![2.0, 1.0, 3.0];
        numbers.insert(at, f64::NAN);
        let extremes = (
            min(|number: &f64| Some(*number)),
            max(|number: &f64| Some(*number)),
        );
        let results = aggregated(extremes, numbers).await.unwrap();
        assert_eq!(results, [(Some(1.0), Some(3.0))], "{at}");
    }
    let nothing = aggregated(min(|number: &f64| Some(*number)), vec![f64::NAN]).await;
    assert_eq!(nothing.unwrap(), [None]);
    // Also where NaN is only a part: a pair that holds it can still be less than another.
    let pairs = |number: &f64| Some((number.trunc(), if *number == 1.5 { f64::NAN } else { 0.0 }));
    for numbers in [[1.5, 1.0, 2.0], [2.0, 1.5, 1.0], [1.0, 2.0, 1.5]] {
        let least = aggregated(min(pairs), numbers.to_vec()).await;
        assert_eq!(least.unwrap(), [Some((1.0, 0.0))], "{numbers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sum_that_overflows_ends_the_job_with_operator_key_and_window() {
    let large = |number: &f64| if *number < 0.0 { i64::MIN } else { i64::MAX };
    for numbers in [[1.0, 2.0], [-1.0, -2.0]] {
        let sums = (count(), sum(large));
        let Err(error) = aggregated(sums, numbers.to_vec()).await else {
            panic!("{numbers:?} have a sum");
        };
        assert!(matches!(error, JobError::Aggregate { .. }), "{error:?}");
        let text = error.to_string();
        for part in [
            "operator windows",
            "key \"all\"",
            "100 to 200",
            "a wider one",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    let fits = aggregated(sum(large), vec![1.0, -1.0]).await;
    assert_eq!(fits.unwrap(), [-1]);
}
