//! What the benchmarks share: how a ratio is measured and printed.

use std::time::{Duration, Instant};

/// A number from the environment.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// Runs two things in turn, several times, and compares the medians of their times.
///
/// In turn, so that a machine whose speed drifts slows both down alike.
pub fn in_turn(
    runs: u64,
    mut baseline: impl FnMut() -> Duration,
    mut candidate: impl FnMut() -> Duration,
) -> (Duration, Duration) {
    let mut times = (Vec::new(), Vec::new());
    for run in 0..=runs {
        let pair = (baseline(), candidate());
        // The first pair warms caches and allocator up.
        if run > 0 {
            times.0.push(pair.0);
            times.1.push(pair.1);
        }
    }
    (median(times.0), median(times.1))
}

/// The time that something takes.
pub fn time<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    std::hint::black_box(work());
    start.elapsed()
}

/// The middle one of some times.
pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// How many times as fast the candidate is as the baseline: 1.0 is as fast, 0.5 is half as fast.
pub fn speed_ratio(baseline: Duration, candidate: Duration) -> f64 {
    baseline.as_secs_f64() / candidate.as_secs_f64()
}

/// Records a second, in millions.
pub fn millions_per_second(records: u64, time: Duration) -> f64 {
    records as f64 / time.as_secs_f64() / 1e6
}
