//! Crashes at every step of the protocol.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use super::cluster::Relayed;
use super::site::{Site, Start, began};
use super::support::data;
use super::support::model::Variant;
use super::support::victim::End;

/// Every step that the library shows as a span, with the times it is reached at which to crash.
const STEPS: [(&str, &[u32]); 13] = [
    ("take_over", &[1]),
    ("read_newest", &[1]),
    ("settle", &[1]),
    // For each of the two sinks.
    ("abort_stale", &[1, 2]),
    ("begin", &[1, 3]),
    ("write", &[1, 3]),
    ("pre_commit", &[1, 3]),
    ("snapshot", &[1, 3]),
    ("vote", &[1, 3]),
    ("decide", &[1, 3]),
    ("commit", &[1, 3]),
    ("confirm", &[1, 3]),
    ("retire", &[1, 2]),
];

/// Jobs that run at once.
const LANES: usize = 3;
/// More jobs than it takes, also on a busy machine, which makes fewer checkpoints of the same input.
const JOBS: u32 = 20;

#[test]
fn a_crash_at_any_step_changes_nothing() {
    let points: Vec<(&str, String)> = STEPS
        .iter()
        .flat_map(|(span, numbers)| numbers.iter().map(move |number| (*span, *number)))
        .flat_map(|(span, number)| {
            ["before", "after"].map(|edge| (span, format!("{edge}:{span}:{number}")))
        })
        .collect();
    let jobs = AtomicU32::new(0);
    thread::scope(|scope| {
        for lane in 0..LANES {
            let mut points = points.iter().skip(lane).step_by(LANES).peekable();
            let jobs = &jobs;
            scope.spawn(move || {
                while let Some(point) = points.peek() {
                    let number = jobs.fetch_add(1, Ordering::SeqCst);
                    assert!(number < JOBS, "never reached: {point:?}");
                    crash_one_job(number, &mut points);
                }
            });
        }
    });
    let jobs = jobs.into_inner();
    println!("crashes at {} points, in {jobs} jobs", points.len());
}

/// Crashes a job at one point after the other, until its input ends; then takes back the point that it did not reach.
fn crash_one_job<'a>(
    number: u32,
    points: &mut std::iter::Peekable<impl Iterator<Item = &'a (&'a str, String)>>,
) {
    let files = data::generate(u64::from(number), &[6000, 5000, 6000, 4000]);
    let site = Site::new(
        &Relayed::shared().place(),
        "points",
        &files,
        Variant::Tumbling,
    );
    let mut stalled = Stalled::default();
    let mut crashes = Vec::new();
    let mut crash = |point: &str| {
        let parallelism = [2, 1, 4][crashes.len() % 3];
        let start = Start {
            parallelism,
            retained: 1,
            ..Start::slow()
        };
        let end = site.run(&start.crash_at(point));
        let what = format!("{} at {point} after {crashes:?}", site.job);
        crashes.push(point.to_owned());
        if !end.was_aborted() {
            end.report();
            site.assert_exact(&what);
            return false;
        }
        stalled.assert_over(&site, &end, &what);
        site.assert_nothing_doubled(&what);
        true
    };
    while let Some((span, point)) = points.peek() {
        // It needs a run before that leaves something decided.
        if *span == "settle" && !crash("before:commit:1") {
            return;
        }
        if !crash(point) {
            return;
        }
        points.next();
    }
    site.complete(2);
    site.assert_exact(&site.job);
}

/// How far readers have to come once a job has recovered.
#[derive(Debug, Default)]
pub struct Stalled(Vec<i64>);

impl Stalled {
    /// Where a job came to begin, nothing that was left before holds readers up any more. Asked of a job that is dead, it
    /// was so when the job began.
    pub fn assert_over(&mut self, site: &Site, end: &End, what: &str) {
        if began(end) {
            let stable = site.last_stable_offsets();
            let passed = self.0.iter().zip(&stable).all(|(left, at)| at >= left);
            assert!(passed, "{what}: readers stop at {stable:?} of {:?}", self.0);
        }
        self.0 = site.high_watermarks();
    }
}
