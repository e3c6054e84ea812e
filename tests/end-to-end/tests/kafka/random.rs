//! SIGKILL at random moments.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::cluster::Relayed;
use super::points::Stalled;
use super::site::{LONG, Site, Start};
use super::support::data;
use super::support::model::Variant;
use super::support::random::{Random, seed, wanted_kills};

/// Kills that hit a working process, over all jobs, unless the environment asks for more.
const WANTED: u32 = 60;
/// Kills of one job, after which it may end in peace.
const KILLS_OF_A_JOB: u32 = 15;

/// What kills hit, by the span that was open.
#[derive(Debug)]
struct Tally {
    wanted: u32,
    kills: AtomicU32,
    jobs: AtomicU32,
    hits: Mutex<BTreeMap<String, u32>>,
}

impl Tally {
    fn new(wanted: u32) -> Self {
        Self {
            wanted,
            kills: AtomicU32::default(),
            jobs: AtomicU32::default(),
            hits: Mutex::default(),
        }
    }

    fn is_done(&self) -> bool {
        self.kills.load(Ordering::SeqCst) >= self.wanted
    }

    fn hit(&self, open_spans: &[String]) {
        self.kills.fetch_add(1, Ordering::SeqCst);
        let mut hits = self.hits.lock().expect("no panic");
        let between = ["between spans".to_owned()];
        let open = if open_spans.is_empty() {
            &between
        } else {
            open_spans
        };
        for span in open {
            *hits.entry(span.clone()).or_default() += 1;
        }
    }
}

#[test]
fn killed_at_random_moments_each_record_comes_out_once() {
    let seed = seed();
    let (tally, begun) = (Tally::new(wanted_kills(WANTED)), Instant::now());
    // The bound ends a test that hits no working process.
    let most_jobs = tally.wanted.div_ceil(3);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let job = tally.jobs.fetch_add(1, Ordering::SeqCst);
                    if tally.is_done() || job >= most_jobs {
                        return;
                    }
                    run_job(seed, job, &tally);
                }
            });
        }
    });
    let (kills, hits) = (&tally.kills, tally.hits.lock().expect("no panic"));
    println!("{kills:?} kills in {:?} hit {hits:?}", begun.elapsed());
    assert!(
        tally.is_done(),
        "too few kills hit a working process: {kills:?}"
    );
    assert!(hits.len() >= 6, "kills hit too few phases: {hits:?}");
}

fn run_job(seed: u64, job: u32, tally: &Tally) {
    let mut random = Random::new(seed ^ (u64::from(job) << 40));
    let variant = random.pick(&[Variant::Tumbling, Variant::Sliding]);
    let files = data::generate(random.next(), &[5000, 3000, 4000, 5000]);
    let site = Site::new(&Relayed::shared().place(), "random", &files, variant);
    let name = format!("{} of seed {seed}", site.job);
    let mut stalled = Stalled::default();
    let mut kills = 0;
    loop {
        let in_peace = kills >= KILLS_OF_A_JOB || tally.is_done();
        let start = Start {
            parallelism: random.pick(&[1, 2, 4]),
            interval: random.pick(&[50, 80]),
            batch_delay: if in_peace {
                0
            } else {
                random.pick(&[30, 60, 120])
            },
            ..Start::default()
        };
        let mut victim = site.spawn(&start);
        if !in_peace {
            // Short ones hit recovery.
            let longest = random.pick(&[200, 600, 1500, 3000]);
            thread::sleep(Duration::from_micros(random.below(longest * 1000)));
            if victim.is_running() {
                victim.kill();
            }
        }
        let end = victim.wait_within(LONG);
        if !end.was_killed() {
            let report = end.report();
            let ended = report["end"].as_str();
            let is_complete = matches!(ended, Some("Completed" | "AlreadyComplete"));
            assert!(is_complete, "{name}: {report}");
            break;
        }
        kills += 1;
        if end.worked() {
            tally.hit(&end.open_spans);
            stalled.assert_over(&site, &end, &name);
        }
    }
    site.assert_exact(&name);
    println!("{name}: {kills} kills, exact");
}
