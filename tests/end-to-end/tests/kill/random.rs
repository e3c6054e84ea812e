//! SIGKILL at random moments.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::data::{self, Format};
use crate::support::model::Variant;
use crate::support::random::{Random, seed, wanted_kills};
use crate::support::site::{Site, Start};
use crate::support::watcher::Watcher;

/// Kills that hit a working process, over all jobs, unless the environment asks for more.
const WANTED: u32 = 100;
/// Kills of one job, after which it may end in peace.
const KILLS_OF_A_JOB: u32 = 30;
/// More than a job ever decides: then the log proves what was decided, from first to last.
const ALL: usize = 100_000;

/// What kills hit, by the span that was open.
#[derive(Debug, Default)]
struct Tally {
    kills: AtomicU32,
    jobs: AtomicU32,
    hits: Mutex<BTreeMap<String, u32>>,
}

#[test]
fn killed_at_random_moments_each_record_comes_out_once() {
    let (seed, wanted) = (seed(), wanted_kills(WANTED));
    // The bound ends a test that hits no working process.
    let most_jobs = (wanted * 2).div_ceil(5);
    let (tally, begun) = (Tally::default(), Instant::now());
    let done = || tally.kills.load(Ordering::SeqCst) >= wanted;
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let job = tally.jobs.fetch_add(1, Ordering::SeqCst);
                    // The first eight are those with different settings.
                    if job >= 8 && (done() || job >= most_jobs) {
                        return;
                    }
                    run_job(seed, job, &tally);
                }
            });
        }
    });
    let (kills, hits) = (&tally.kills, tally.hits.lock().expect("no panic"));
    println!("{kills:?} kills in {:?} hit {hits:?}", begun.elapsed());
    assert!(done(), "too few kills hit a working process: {kills:?}");
    assert!(hits.len() >= 6, "kills hit too few phases: {hits:?}");
}

fn run_job(seed: u64, job: u32, tally: &Tally) {
    let mut random = Random::new(seed ^ (u64::from(job) << 40));
    let (variant, format) = match job % 2 {
        0 => (Variant::Tumbling, Format::Csv),
        _ => (Variant::Sliding, Format::JsonLines),
    };
    let parallelisms: &[u32] = match job % 8 {
        0 => &[1],
        1 => &[2],
        2 => &[4],
        _ => &[1, 2, 4],
    };
    let retained = random.pick(&[1, 3, ALL]);
    let name = format!("job {job} of seed {seed}: {variant:?}, {parallelisms:?}, {retained} kept");
    let files = data::generate(random.next(), &[1500, 2500, 20_000, 20_000]);
    let site = Site::new(&files, format, variant);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| Watcher::watch(&site.output, &site.checkpoints, &stop));
        let stop_watcher = StopOnDrop(&stop);
        let completed = kill_until_it_ends(&site, &mut random, parallelisms, retained, tally);
        drop(stop_watcher);
        let watcher = watcher
            .join()
            .unwrap_or_else(|_| panic!("{name}: the reader failed"));
        site.assert_exact(&name);
        // Had it died after the last decision, up to four decisions could be unconfirmed, and kept.
        site.assert_retention(&name, retained + if completed { 0 } else { 4 });
        if retained == ALL {
            let decided = site.log().decisions.into_values().flatten().collect();
            assert_eq!(watcher.transactions(), decided, "{name}: visible, decided");
        }
        println!("{name}: exact; {} looks", watcher.looks);
    });
    let undisturbed = Site::new(&files, format, variant);
    undisturbed.run(&Start::default()).report();
    assert_eq!(
        undisturbed.lines(),
        site.lines(),
        "{name}: never killed, killed"
    );
}

/// Lets a watcher end also when the test fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Tells whether the last start itself completed the job, and didn't find it complete.
fn kill_until_it_ends(
    site: &Site,
    random: &mut Random,
    parallelisms: &[u32],
    retained: usize,
    tally: &Tally,
) -> bool {
    let mut kills = 0;
    loop {
        let in_peace = kills >= KILLS_OF_A_JOB;
        let start = Start {
            parallelism: random.pick(parallelisms),
            interval: random.pick(&[10, 20, 40]),
            batch_delay: if in_peace {
                0
            } else {
                random.pick(&[10, 30, 50])
            },
            retained,
            ..Start::default()
        };
        let mut victim = site.spawn(&start);
        if !in_peace {
            // Short ones hit recovery.
            let longest = random.pick(&[15, 60, 250, 400]);
            thread::sleep(Duration::from_micros(random.below(longest * 1000)));
            if victim.is_running() {
                victim.kill();
            }
        }
        let end = victim.wait();
        if end.was_killed() {
            kills += 1;
            if end.worked() {
                tally.kills.fetch_add(1, Ordering::SeqCst);
                let mut hits = tally.hits.lock().expect("no panic");
                let between = ["between spans".to_owned()];
                let open = if end.open_spans.is_empty() {
                    &between[..]
                } else {
                    &end.open_spans
                };
                for span in open {
                    *hits.entry(span.clone()).or_default() += 1;
                }
            }
            continue;
        }
        let report = end.report();
        match report["end"].as_str() {
            Some("Completed") => return true,
            Some("AlreadyComplete") => return false,
            other => panic!("it ended as {other:?}"),
        }
    }
}
