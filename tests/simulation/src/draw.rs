//! Draws a schedule from a seed.

use crate::random::{Random, mixed};
use crate::schedule::{Effect, Fault, Mode, Moment, Op, Schedule, Shape, When, Workload};

/// How many processes may have faults.
const FAULTY: u64 = 4;

/// The schedule of a seed; of this mode, if one is wanted.
#[must_use]
pub fn draw(seed: u64, mode: Option<Mode>) -> Schedule {
    let mut random = Random::new(mixed(&[seed, 0]));
    let drawn = match random.one_in(4) {
        true => Mode::Safety,
        false => Mode::Liveness,
    };
    let mode = mode.unwrap_or(drawn);
    let workload = workload(&mut random);
    let count = random.within(1, 6);
    let processes = random.within(1, FAULTY).min(count);
    let fault = |_| fault(&mut random, processes, mode);
    let mut faults: Vec<Fault> = (0..count).map(fault).collect();
    faults.sort_by_key(|fault| fault.process);
    Schedule {
        seed,
        mode,
        workload,
        faults,
        flaw: None,
    }
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn workload(random: &mut Random) -> Workload {
    let covering = random.pick(&[1, 1, 2, 4]);
    let shape = match random.below(9) {
        0..2 => Shape::Plain,
        2..4 => Shape::Twice,
        4 => Shape::Windows { covering },
        5..7 => Shape::Late { covering },
        _ => Shape::Chained,
    };
    // What comes after idleness may be late or not: that is compared only where a record has one window.
    let comparable = matches!(shape, Shape::Late { covering: 1 } | Shape::Chained);
    let starts = random.within(1, 4);
    let delay = random.pick(&[0, 2, 8, 30, 120]);
    let mut workload = Workload {
        shape,
        splits: size(random.within(1, 4)),
        records: size(random.within(3, 40)),
        batch: size(random.within(1, 8)),
        idle: comparable && random.one_in(2),
        pause: random.within(1, 12),
        parallelism: (0..starts)
            .map(|_| random.pick(&[1, 1, 2, 2, 3, 4]))
            .collect(),
        checkpoint_interval: random.within(3, 30),
        checkpoint_timeout: match random.one_in(2) {
            // Votes are never late by delays alone, or the job would get nowhere.
            true => random.within(10, 100) + 8 * delay,
            false => 60_000,
        },
        retained: size(random.within(1, 3)),
        max_prepared: random.one_in(5).then_some(1),
        ordered: false,
        restarts: random.pick(&[0, 0, 2]),
        delay,
        look_every: random.within(1, 8),
    };
    // Not drawn, so that the schedule of a seed stays what it is.
    workload.ordered = workload.max_prepared.is_some() && workload.look_every.is_multiple_of(2);
    workload
}

fn fault(random: &mut Random, processes: u64, mode: Mode) -> Fault {
    let process = size(random.below(processes));
    if random.one_in(6) {
        let effect = match random.below(6) {
            0..2 => Effect::Crash,
            2 => Effect::Freeze(random.within(1, 3000)),
            3..5 => Effect::Stop,
            _ => Effect::StartTwice,
        };
        let moment = Moment::Time(random.within(0, 250));
        return Fault {
            process,
            moment,
            effect,
        };
    }
    if random.one_in(8) {
        // A vote that comes too late, if time is short.
        let op = random.pick(&[Op::PreCommit, Op::CreateState, Op::Write]);
        let effect = Effect::Delay(random.within(30, 1500));
        return before(process, op, number(random.within(1, 8)), effect);
    }
    if random.one_in(10) {
        // A process that comes back in its recovery, mostly while its successor works.
        let op = random.pick(&[
            Op::CreateTakeover,
            Op::List,
            Op::Read,
            Op::Commit,
            Op::AbortStale,
        ]);
        let effect = Effect::Freeze(random.within(10, 300));
        return before(process, op, number(random.within(1, 3)), effect);
    }
    let op = (!random.one_in(6)).then(|| random.pick(&Op::ALL));
    let reach = match op {
        None => 160,
        Some(Op::Next | Op::Read | Op::List | Op::CreateState | Op::Write) => {
            random.pick(&[3, 10, 30])
        }
        Some(_) => random.pick(&[2, 3, 8]),
    };
    let from = number(random.within(1, reach));
    let to = match random.one_in(6) {
        true if mode == Mode::Safety && random.one_in(2) => u32::MAX,
        true => from + number(random.below(4)),
        false => from,
    };
    let when = random.pick(&[When::Before, When::After]);
    let moment = Moment::Call { op, from, to, when };
    let effect = effect(random, op);
    Fault {
        process,
        moment,
        effect,
    }
}

fn before(process: usize, op: Op, call: u32, effect: Effect) -> Fault {
    let moment = Moment::Call {
        op: Some(op),
        from: call,
        to: call,
        when: When::Before,
    };
    Fault {
        process,
        moment,
        effect,
    }
}

fn number(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn effect(random: &mut Random, op: Option<Op>) -> Effect {
    let millis = random.pick(&[5, 40, 400, 4000]);
    let millis = random.within(1, millis);
    let late = op.is_some_and(|op| op.is_request() || op == Op::PreCommit);
    let twice = op.is_some_and(Op::is_request);
    match random.below(20) {
        0..7 => Effect::Crash,
        7..10 => Effect::Unknown,
        10 => Effect::Refused,
        11..13 => Effect::Delay(millis),
        13 => Effect::Panic,
        14..16 if late => Effect::Later(millis),
        16 if late => Effect::CrashLater(millis),
        17 if twice => Effect::Twice,
        14..18 => Effect::Unknown,
        _ => Effect::Freeze(millis),
    }
}
