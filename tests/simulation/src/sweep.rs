//! Many schedules, on all processors.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::rare::Reached;
use crate::schedule::Schedule;
use crate::supervisor::simulate;

/// What came of many schedules.
#[derive(Debug, Default)]
pub struct Sweep {
    /// How many were run.
    pub schedules: u64,
    /// How many calls processes made in them.
    pub calls: u64,
    /// Rare events.
    pub reached: Reached,
    /// Schedules that failed, in the order of their numbers, and the number that each was drawn from.
    pub failed: Vec<(u64, Schedule)>,
}

/// Draws and runs a schedule for each number of a range. `progress` is told how many are done, now and then.
///
/// Ends early once `enough` have failed.
pub fn sweep(
    numbers: Range<u64>,
    enough: usize,
    draw: impl Fn(u64) -> Schedule + Sync,
    progress: impl Fn(u64, usize) + Sync,
) -> Sweep {
    let next = AtomicU64::new(numbers.start);
    let all = Mutex::new(Sweep::default());
    let work = || {
        let mut ours = Sweep::default();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= numbers.end {
                break;
            }
            let schedule = draw(number);
            let report = simulate(&schedule);
            ours.schedules += 1;
            ours.calls += report
                .calls
                .iter()
                .map(|calls| u64::from(*calls))
                .sum::<u64>();
            ours.reached.add(&report.reached);
            if !report.wrong.is_empty() {
                ours.failed.push((number, schedule));
            }
            if ours.schedules >= 256 || !ours.failed.is_empty() {
                let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                all.add(std::mem::take(&mut ours));
                progress(all.schedules, all.failed.len());
                if all.failed.len() >= enough {
                    next.store(numbers.end, Ordering::Relaxed);
                    break;
                }
            }
        }
        all.lock().unwrap_or_else(PoisonError::into_inner).add(ours);
    };
    let threads = thread::available_parallelism().map_or(1, Into::into);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    all.failed.sort_by_key(|(number, _)| *number);
    all
}

impl Sweep {
    fn add(&mut self, other: Self) {
        self.schedules += other.schedules;
        self.calls += other.calls;
        self.reached.add(&other.reached);
        self.failed.extend(other.failed);
    }
}
