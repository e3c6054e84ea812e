//! A small job dies before and after every call, and its successor at every call of its recovery: all of them.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

use cofferdam_simulation::{
    Effect, Fault, Mode, Moment, Report, Schedule, Shape, Sweep, When, Workload, simulate, sweep,
};

/// Two sinks, three checkpoints or a few more.
fn small(faults: Vec<Fault>, parallelism: u32) -> Schedule {
    Schedule {
        seed: 11,
        mode: Mode::Liveness,
        workload: Workload {
            shape: Shape::Twice,
            splits: 2,
            records: 8,
            batch: 2,
            idle: false,
            pause: 4,
            parallelism: vec![parallelism],
            checkpoint_interval: 8,
            checkpoint_timeout: 60_000,
            retained: 1,
            max_prepared: None,
            ordered: false,
            restarts: 0,
            delay: 2,
            look_every: 1,
        },
        faults,
        flaw: None,
    }
}

fn fault(process: usize, call: u32, when: When, effect: Effect) -> Fault {
    let (op, from, to) = (None, call, call);
    let moment = Moment::Call { op, from, to, when };
    Fault {
        process,
        moment,
        effect,
    }
}

const SIDES: [When; 2] = [When::Before, When::After];

/// Each call, before and after.
fn places(calls: u32) -> Vec<(u32, When)> {
    (1..=calls)
        .flat_map(|call| SIDES.map(|when| (call, when)))
        .collect()
}

fn run(schedules: &[Schedule]) -> Sweep {
    let all = 0..schedules.len() as u64;
    let sweep = sweep(
        all,
        1,
        |at| schedules[usize::try_from(at).unwrap()].clone(),
        |_, _| {},
    );
    if let Some((_, schedule)) = sweep.failed.first() {
        panic!(
            "{}\n{}",
            simulate(schedule).wrong.join("\n"),
            schedule.text()
        );
    }
    sweep
}

fn well(schedule: &Schedule) -> Report {
    let report = simulate(schedule);
    assert_eq!(report.wrong, Vec::<String>::new());
    report
}

#[test]
fn a_process_dies_at_every_call_and_the_next_at_every_call_of_its_recovery() {
    let undisturbed = well(&small(Vec::new(), 1));
    let decisions = undisturbed
        .log
        .iter()
        .filter(|entry| entry.to_string().contains("CreateDecision"));
    assert!(decisions.count() >= 3, "{:#?}", undisturbed.log);
    let mut schedules = Vec::new();
    for (call, when) in places(undisturbed.calls[0]) {
        let first = fault(0, call, when, Effect::Crash);
        let once = small(vec![first.clone()], 1);
        // The successor's recovery: all that it asks before it reads.
        let recovery = well(&once).recoveries[1];
        schedules.push(once);
        for (call, when) in places(recovery) {
            schedules.push(small(
                vec![first.clone(), fault(1, call, when, Effect::Crash)],
                1,
            ));
        }
    }
    let sweep = run(&schedules);
    println!("{} schedules", sweep.schedules);
    assert!(sweep.schedules > 3000, "{}", sweep.schedules);
}

#[test]
fn a_process_stands_still_at_every_call_and_comes_back() {
    // Back while its successor recovers, while it works, or when all is done.
    for parallelism in [1, 2] {
        let calls = well(&small(Vec::new(), parallelism)).calls[0];
        let mut schedules = Vec::new();
        for (call, when) in places(calls) {
            for millis in [1, 25, 60, 10_000] {
                let frozen = fault(0, call, when, Effect::Freeze(millis));
                schedules.push(small(vec![frozen], parallelism));
            }
        }
        run(&schedules);
    }
}

#[test]
fn an_effect_comes_late_at_every_call() {
    let calls = well(&small(Vec::new(), 1)).calls[0];
    let mut schedules = Vec::new();
    for call in 1..=calls {
        for millis in [1, 10, 30, 100] {
            for effect in [
                Effect::Later(millis),
                Effect::CrashLater(millis),
                Effect::Twice,
            ] {
                schedules.push(small(vec![fault(0, call, When::Before, effect)], 1));
            }
        }
    }
    run(&schedules);
}

#[test]
fn an_answer_is_lost_or_an_error_comes_at_every_call() {
    let calls = well(&small(Vec::new(), 1)).calls[0];
    let mut schedules = Vec::new();
    for (call, when) in places(calls) {
        for effect in [Effect::Unknown, Effect::Refused, Effect::Panic] {
            for restarts in [0, 2] {
                let mut schedule = small(vec![fault(0, call, when, effect)], 1);
                schedule.workload.restarts = restarts;
                schedules.push(schedule);
            }
        }
    }
    run(&schedules);
}

#[test]
fn a_process_stands_still_in_its_recovery_and_comes_back_while_its_successor_works() {
    // The successor dies later, so that what was taken from it would be missed.
    let windows = |faults| {
        let mut schedule = small(faults, 2);
        schedule.workload.shape = Shape::Late { covering: 1 };
        schedule.workload.records = 30;
        schedule
    };
    let crash = |process, at| Fault {
        process,
        moment: Moment::Time(at),
        effect: Effect::Crash,
    };
    let recovery = well(&windows(vec![crash(0, 60)])).recoveries[1];
    let mut schedules = Vec::new();
    for (call, when) in places(recovery) {
        for millis in [30, 60, 90] {
            let frozen = fault(1, call, when, Effect::Freeze(millis));
            for at in [40, 70, 100] {
                schedules.push(windows(vec![crash(0, 60), frozen.clone(), crash(2, at)]));
            }
        }
    }
    run(&schedules);
}
