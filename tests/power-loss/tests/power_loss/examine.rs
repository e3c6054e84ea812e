//! Cuts the power after every call.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use cofferdam_power_loss::{Disk, Tree, crash_states};

use super::history::{Run, said};
use super::promises::Promises;
use super::recovery::recover;

/// What was looked at.
#[derive(Debug, Default)]
pub struct Examined {
    /// Calls after which the power was cut.
    pub cuts: usize,
    /// States that it left, equal ones included.
    pub states: usize,
    /// Most promises that stood at once.
    pub promises: usize,
    /// Different states, each with where it was first seen.
    pub trees: BTreeMap<Tree, String>,
    /// Promises that were broken.
    pub broken: Vec<String>,
}

/// Plays the runs, cuts the power after each call that changes anything, and compares with what was promised.
pub fn examine(runs: &[Run]) -> Examined {
    let mut examined = Examined::default();
    let mut disk = Disk::empty();
    let mut promises = Promises::default();
    for (number, run) in runs.iter().enumerate() {
        disk.begin_process(&run.root);
        for (at, step) in run.steps.iter().enumerate() {
            let mut changed = disk.apply(step).expect("it was played before");
            if let Some((word, of)) = said(step) {
                promises.hear(word, of, &disk.now());
                changed = true;
            }
            if changed {
                let place = format!("run {number}, call {at}");
                examined.cut(&disk, &promises, &place);
            }
        }
    }
    examined
}

impl Examined {
    fn cut(&mut self, disk: &Disk, promises: &Promises, place: &str) {
        self.cuts += 1;
        self.promises = self.promises.max(promises.len());
        for state in crash_states(disk, self.cuts as u64) {
            self.states += 1;
            let place = || format!("{place}, {}", state.what);
            if let Err(broken) = promises.check(&state.tree) {
                self.broken.push(format!("{}: {broken}", place()));
            }
            self.trees.entry(state.tree).or_insert_with(place);
        }
    }
}

/// Recovers from every tree, and tells what went wrong.
pub fn recover_all(trees: &BTreeMap<Tree, String>) -> Vec<String> {
    let trees: Vec<_> = trees.iter().collect();
    in_parallel(&trees, |(tree, place)| {
        recover(tree).map_err(|failure| format!("{place}: {failure}"))
    })
}

/// Does something with all, and returns what went wrong.
pub fn in_parallel<T: Sync>(
    all: &[T],
    work: impl Fn(&T) -> Result<(), String> + Sync,
) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, Ordering::SeqCst)) {
                    if let Err(failure) = work(one) {
                        failures.lock().expect("no panic").push(failure);
                    }
                }
            });
        }
    });
    failures.into_inner().expect("no panic")
}
