//! What becomes of a state once nothing more goes wrong.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash};
use std::sync::{Mutex, PoisonError};

use cofferdam::protocol::CoordinatorEvent;
use foldhash::quality::FixedState;

use crate::bounds::Bounds;
use crate::model::CheckpointProtocol;
use crate::outside::Fate;
use crate::process::{End, Over, Process};
use crate::rules::nothing_is_visible_twice;
use crate::step::{Answer, Step};
use crate::world::World;

/// All processes crash here; one more starts, recovers, and is asked to stop. Then nothing is in doubt, and readers see
/// each decided record once.
pub(crate) fn comes_to_rest(model: &CheckpointProtocol, world: &World) -> bool {
    let left = (&world.log, &world.outside, &world.on_their_way);
    once(&model.comes_to_rest, &left, || {
        let mut world = world.clone();
        for process in &mut world.processes {
            *process = Process::Ended(End::Crashed);
        }
        let who = world.processes.len();
        world.processes.push(Process::Waiting);
        world.take(&model.bounds, Step::Start { who });
        while world.processes[who].epoch() == Some(cofferdam::Epoch(0)) {
            let answer = Answer::Given;
            world.take(&model.bounds, Step::Recover { who, answer });
        }
        // What is on its way now arrives after the takeover.
        while !world.on_their_way.is_empty() {
            world.take(&model.bounds, Step::Arrive { write: 0 });
        }
        go_on(&mut world, &model.bounds, who);
        let lost = world.outside.with_fate(Fate::Expired);
        if lost.into_iter().any(|(id, _)| world.log.names(id)) {
            return world.processes[who] == Process::Ended(End::Lost);
        }
        let recovered = world.processes[who].run().is_some() && is_settled(&world, &model.bounds);
        world.coordinate(&model.bounds, who, CoordinatorEvent::Stop);
        go_on(&mut world, &model.bounds, who);
        let finished = matches!(world.processes[who], Process::Ended(End::Finished(_)));
        recovered && finished && is_settled(&world, &model.bounds)
    })
}

/// All but the process that holds the job crash here, and it is asked to stop.
pub(crate) fn a_stop_ends(model: &CheckpointProtocol, world: &World) -> bool {
    let newest = world.log.records.values().next_back();
    let Some(who) = newest.map(|newest| newest.owner) else {
        return true;
    };
    let Some(run) = world.processes.get(who).and_then(Process::run) else {
        return true;
    };
    once(&model.ends, &(run, &world.log, &world.outside), || {
        let mut world = world.clone();
        world.on_their_way.clear();
        go_on(&mut world, &model.bounds, who);
        world.coordinate(&model.bounds, who, CoordinatorEvent::Stop);
        go_on(&mut world, &model.bounds, who);
        match &world.processes[who] {
            Process::Running(run) => run.over == Some(Over::RolledBack),
            Process::Ended(end) => matches!(end, End::Finished(_) | End::Lost),
            Process::Waiting | Process::Recovering(_) => false,
        }
    })
}

/// Asks only if it was not found to hold before.
fn once(held: &Mutex<HashSet<u64>>, of: &impl Hash, holds: impl FnOnce() -> bool) -> bool {
    let hash = FixedState::default().hash_one(of);
    let lock = || held.lock().unwrap_or_else(PoisonError::into_inner);
    if lock().contains(&hash) {
        return true;
    }
    let holds = holds();
    if holds {
        lock().insert(hash);
    }
    holds
}

/// One process goes on until nothing moves any more.
fn go_on(world: &mut World, bounds: &Bounds, who: usize) {
    let is_quiet = |step: &Step| match step {
        Step::Recover { answer, .. }
        | Step::Decide { answer, .. }
        | Step::Settle { answer, .. }
        | Step::Commit { answer, .. } => *answer == Answer::Given,
        Step::Notify { .. }
        | Step::Deliver { .. }
        | Step::HearSource { .. }
        | Step::Prepare { .. }
        | Step::Retire { .. } => true,
        _ => false,
    };
    loop {
        let mut steps = Vec::new();
        match &world.processes[who] {
            Process::Recovering(recovery) => {
                world.recovery_steps(bounds, who, recovery, &mut steps);
            }
            Process::Running(run) => world.run_steps(bounds, who, run, &mut steps),
            Process::Waiting | Process::Ended(_) => return,
        }
        let moved = steps.into_iter().filter(is_quiet).find_map(|step| {
            let mut next = world.clone();
            next.take(bounds, step);
            (next != *world).then_some(next)
        });
        match moved {
            Some(next) => *world = next,
            None => return,
        }
    }
}

fn is_settled(world: &World, bounds: &Bounds) -> bool {
    let newest = world.log.history.last();
    let newest = newest.map_or(0, |decided| decided.manifest.checkpoint.0);
    let empty = bounds
        .empty
        .is_some_and(|(_, checkpoint)| checkpoint <= newest);
    let of_each_sink = usize::try_from(newest).expect("few") * bounds.shares();
    let expected = bounds.sinks * of_each_sink - usize::from(empty) * bounds.shares();
    let visible = world.outside.with_fate(Fate::Committed);
    let visible: usize = visible.map(|(_, slot)| slot.shares.len()).sum();
    world.outside.in_doubt().next().is_none()
        && visible == expected
        && nothing_is_visible_twice(world)
}
