//! Event times too far ahead of the clock, splits that hold back the watermark, and what is warned about.

use std::time::{Duration, SystemTime};

use cofferdam::memory::MemorySink;
use cofferdam::{
    EventTime, Job, JobError, MemoryCheckpointStore, OnMalformed, Pipeline, Timestamp, Windows,
    count,
};

use crate::rows::{Row, Rows};
use crate::warnings::Warnings;
use crate::world::ms;

const HOUR: i64 = 3_600_000;

#[expect(
    clippy::disallowed_methods,
    reason = "the limit under test is one of wall time"
)]
fn now() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    i64::try_from(now.unwrap().as_millis()).unwrap()
}

fn event_time() -> EventTime<impl Fn(&i64) -> Timestamp + Clone + Send + Sync + 'static> {
    EventTime::of(|at: &i64| Timestamp::from_millis(*at)).out_of_order_by(ms(HOUR))
}

/// Counts the times of splits in windows of a minute.
fn job<F>(source: Rows<i64>, event_time: EventTime<F>, results: &MemorySink<u64>) -> Job
where
    F: Fn(&i64) -> Timestamp + Clone + Send + Sync + 'static,
{
    Pipeline::new("times")
        .source("times", source, event_time)
        .key_by(|_| 0_u8)
        .window(Windows::tumbling(ms(60_000)))
        .aggregate("windows", count())
        .map(|window| window.value)
        .sink("results", results.clone())
        .job(MemoryCheckpointStore::new())
}

fn rows(times: &[i64], batch: usize) -> Rows<i64> {
    Rows::new(
        vec![times.iter().copied().map(Row::Record).collect()],
        batch,
    )
}

#[tokio::test(start_paused = true)]
async fn a_record_too_far_ahead_fails_the_job_with_its_place() {
    let times = [now(), now() - 5, now() + 7000 * 365 * 24 * HOUR, now()];
    for batch in [1, 2, 4] {
        let limited = event_time().at_most_ahead(ms(HOUR));
        let results = MemorySink::new();
        let error = job(rows(&times, batch), limited, &results).run().await;
        let error = error.unwrap_err();
        assert!(matches!(error, JobError::Source { .. }), "{error:?}");
        let text = error.to_string();
        let place = [
            "record 1 of the 1",
            "record 1 of the 2",
            "record 3 of the 4",
        ];
        let place = place[batch / 2];
        for part in [
            place,
            "split 000",
            &times[2].to_string(),
            "at_most_ahead",
            "on_malformed",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(results.visible(), Vec::<u64>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_too_far_ahead_can_be_skipped_and_moves_no_watermark() {
    let (warnings, _watch) = Warnings::watch();
    let mut times: Vec<i64> = (0..500).map(|index| now() - index * 10).collect();
    times.insert(1, i64::MAX);
    times.insert(1, now() + 7000 * 365 * 24 * HOUR);
    for batch in [1, 2, 100] {
        let limited = (event_time().at_most_ahead(ms(HOUR))).on_malformed(OnMalformed::Skip);
        let results = MemorySink::new();
        let report = job(rows(&times, batch), limited, &results)
            .run()
            .await
            .unwrap();
        let count = |name, what| report.progress.count(name, what);
        assert_eq!(count("times", "records"), 500);
        assert_eq!(count("times", "skipped"), 2);
        assert_eq!(count("windows", "late"), 0);
        assert_eq!(results.visible().iter().sum::<u64>(), 500);
    }
    for about in ["operator=", "source=", "split="] {
        assert_eq!(warnings.matching(&[about]), Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn late_records_that_dominate_are_warned_about() {
    let (warnings, _watch) = Warnings::watch();
    let mut times: Vec<i64> = (0..500).map(|index| now() - index * 10).collect();
    times.insert(1, now() + 7000 * 365 * 24 * HOUR);
    let unlimited = job(rows(&times, 10), event_time(), &MemorySink::new());
    let report = unlimited.run().await.unwrap();
    assert_eq!(report.progress.count("windows", "late"), 499);
    let late = warnings.matching(&["operator=windows"]);
    assert_eq!(late.len(), 1, "{late:?}");
    assert!(
        late[0].contains("late=499") && late[0].contains("at_most_ahead"),
        "{late:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn malformed_records_that_dominate_are_warned_about() {
    let (warnings, _watch) = Warnings::watch();
    let times: Vec<i64> = (0..600)
        .map(|index| now() + (index % 3) * 24 * HOUR)
        .collect();
    let limited = (event_time().at_most_ahead(ms(HOUR))).on_malformed(OnMalformed::Skip);
    job(rows(&times, 10), limited, &MemorySink::new())
        .run()
        .await
        .unwrap();
    let skipped = warnings.matching(&["source=times"]);
    assert_eq!(skipped.len(), 1, "{skipped:?}");
    assert!(skipped[0].contains("skipped=400"), "{skipped:?}");
}

/// Runs a job for a minute over splits that have no more to say, and returns the warnings about splits.
async fn warnings_of_a_quiet_minute(idle: bool, windows: bool) -> Vec<String> {
    let (warnings, _watch) = Warnings::watch();
    let split = |at: i64| {
        let rest = idle.then_some(Row::Idle);
        [Row::Record(at)]
            .into_iter()
            .chain(rest)
            .collect::<Vec<_>>()
    };
    let source = Rows {
        endless: true,
        ..Rows::new(vec![split(2000), split(1000), split(3000)], 1)
    };
    let job = match windows {
        true => job(source, event_time(), &MemorySink::new()),
        false => Pipeline::new("times")
            .source("times", source, event_time())
            .sink("results", MemorySink::new())
            .job(MemoryCheckpointStore::new()),
    };
    let handle = job.handle();
    let stop = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        handle.stop();
    };
    let (ended, ()) = tokio::join!(job.run(), stop);
    ended.unwrap();
    warnings.matching(&["split="])
}

#[tokio::test(start_paused = true)]
async fn a_split_that_holds_back_the_watermark_is_warned_about_by_name() {
    let quiet = warnings_of_a_quiet_minute(false, true).await;
    assert_eq!(quiet.len(), 1, "{quiet:?}");
    assert!(
        quiet[0].contains("split=001") && quiet[0].contains("source=times"),
        "{quiet:?}"
    );
    for (idle, windows) in [(true, true), (false, false), (true, false)] {
        let none = warnings_of_a_quiet_minute(idle, windows).await;
        assert_eq!(none, Vec::<String>::new(), "{idle} {windows}");
    }
}
