//! Makes a failing schedule smaller, for as long as it fails.

use crate::schedule::{Effect, Fault, Moment, Schedule, Shape};

/// How many schedules are tried at most.
const TRIES: usize = 4000;

/// A schedule as small as can be found that fails as well: fewer faults, fewer records and subtasks, no delays.
///
/// Gives back the schedule itself if it does not fail.
pub fn shrink(schedule: &Schedule, fails: impl FnMut(&Schedule) -> bool) -> Schedule {
    let mut shrinking = Shrinking {
        best: schedule.clone(),
        fails,
        tries: 0,
    };
    loop {
        let faults = shrinking.faults();
        let fields = shrinking.fields();
        let numbers = shrinking.numbers();
        if !(faults || fields || numbers) || shrinking.tries >= TRIES {
            return shrinking.best;
        }
    }
}

struct Shrinking<F> {
    best: Schedule,
    fails: F,
    tries: usize,
}

impl<F: FnMut(&Schedule) -> bool> Shrinking<F> {
    fn try_out(&mut self, change: impl FnOnce(&mut Schedule)) -> bool {
        let mut smaller = self.best.clone();
        change(&mut smaller);
        if smaller == self.best || self.tries >= TRIES {
            return false;
        }
        self.tries += 1;
        let fails = (self.fails)(&smaller);
        if fails {
            self.best = smaller;
        }
        fails
    }

    /// Leaves out faults: half of them, a quarter, and so on to single ones.
    fn faults(&mut self) -> bool {
        let mut any = false;
        let mut size = self.best.faults.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < self.best.faults.len() {
                let until = (at + size).min(self.best.faults.len());
                if self.try_out(|schedule| drop(schedule.faults.drain(at..until))) {
                    any = true;
                } else {
                    at += size;
                }
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
        any
    }

    /// Sets single fields to what is simplest, or nearer to it.
    fn fields(&mut self) -> bool {
        let steps: [fn(&mut Schedule); 19] = [
            |schedule| schedule.workload.delay = 0,
            |schedule| schedule.workload.delay /= 2,
            |schedule| schedule.workload.restarts = 0,
            |schedule| schedule.workload.ordered = false,
            |schedule| {
                schedule.workload.max_prepared = None;
                schedule.workload.ordered = false;
            },
            |schedule| schedule.workload.idle = false,
            |schedule| schedule.workload.shape = Shape::Plain,
            |schedule| {
                if schedule.workload.shape == Shape::Chained {
                    schedule.workload.shape = Shape::Late { covering: 1 };
                }
            },
            |schedule| {
                if let Shape::Windows { covering } | Shape::Late { covering } =
                    &mut schedule.workload.shape
                {
                    *covering = 1;
                }
            },
            |schedule| schedule.workload.parallelism = vec![1],
            |schedule| {
                schedule.workload.parallelism.pop();
                if schedule.workload.parallelism.is_empty() {
                    schedule.workload.parallelism.push(1);
                }
            },
            |schedule| {
                for parallelism in &mut schedule.workload.parallelism {
                    *parallelism = (*parallelism).min(2);
                }
            },
            |schedule| schedule.workload.splits = 1,
            |schedule| schedule.workload.splits = (schedule.workload.splits - 1).max(1),
            |schedule| schedule.workload.records /= 2,
            |schedule| schedule.workload.records = schedule.workload.records.saturating_sub(1),
            |schedule| schedule.workload.checkpoint_timeout = 60_000,
            |schedule| schedule.workload.retained = 3,
            |schedule| schedule.workload.look_every = 1,
        ];
        let mut any = false;
        for step in steps {
            while self.try_out(step) {
                any = true;
            }
        }
        any
    }

    /// Makes the numbers in faults smaller, and the processes that they strike earlier.
    fn numbers(&mut self) -> bool {
        let steps: [fn(&mut Fault); 4] = [
            |fault| fault.process = fault.process.saturating_sub(1),
            |fault| {
                if let Moment::Call { from, to, .. } = &mut fault.moment {
                    *to = *from;
                }
            },
            |fault| match &mut fault.moment {
                Moment::Call { from, to, .. } if *from > 1 => (*from, *to) = (*from - 1, *to - 1),
                Moment::Call { .. } => {}
                Moment::Time(at) => *at /= 2,
            },
            |fault| match &mut fault.effect {
                Effect::Freeze(millis)
                | Effect::Later(millis)
                | Effect::CrashLater(millis)
                | Effect::Delay(millis) => *millis = (*millis / 2).max(1),
                _ => {}
            },
        ];
        let mut any = false;
        for at in 0..self.best.faults.len() {
            for step in steps {
                while self.try_out(|schedule| step(&mut schedule.faults[at])) {
                    any = true;
                }
            }
        }
        any
    }
}
