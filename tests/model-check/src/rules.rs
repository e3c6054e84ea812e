//! What has to hold whatever happens, each rule by its name.

use std::collections::{BTreeMap, BTreeSet};

use cofferdam::protocol::{CoordinatorAction, CoordinatorEvent, Decision, ParticipantId, Vote};
use cofferdam::{CheckpointId, Epoch};
use stateright::Property;

use crate::log::Decided;
use crate::model::CheckpointProtocol;
use crate::outside::{Fate, Transaction};
use crate::process::{End, Over, Process, Run};
use crate::rest;
use crate::world::World;

type Model = CheckpointProtocol;

/// The names of the rules.
#[allow(missing_docs, reason = "the text of each says what it is")]
pub mod names {
    pub const UNDECIDED: &str = "nothing is visible that is not decided";
    pub const ABORTED: &str = "nothing decided is aborted";
    pub const LOST: &str =
        "every decided record is visible, or can be committed by whoever reads the log";
    pub const TWICE: &str = "nothing is visible twice";
    pub const FENCED: &str = "an older epoch undoes nothing of a newer one";
    pub const ONE_DECISION: &str = "a checkpoint is decided once, and in order";
    pub const AGREEMENT: &str = "all processes know the same decisions";
    pub const IN_DOUBT: &str = "what a run finds in doubt is resolved before it begins";
    pub const RETIRED: &str = "nothing is retired while it is in doubt";
    pub const RETAINED: &str = "enough checkpoints are kept";
    pub const FINISHED: &str = "a finished run has committed everything";
    pub const SETTLED: &str = "what is recorded as settled is committed";
    pub const HELD: &str = "no sink holds more than it can";
    pub const LOUD: &str = "a loss ends the job";
    pub const READABLE: &str = "whoever holds the log can read it";
    pub const STALE: &str = "an event that comes too late changes nothing";
    pub const REST: &str = "whatever crashed, one more process settles everything";
    pub const ENDS: &str = "a run that is asked to stop ends";
}

/// All rules.
pub(crate) fn all() -> Vec<Property<Model>> {
    vec![
        Property::always(names::UNDECIDED, |_, world| visible_is_decided(world)),
        Property::always(names::ABORTED, |_, world| nothing_decided_is_aborted(world)),
        Property::always(names::LOST, nothing_decided_is_lost),
        Property::always(names::TWICE, |_, world| nothing_is_visible_twice(world)),
        Property::always(names::FENCED, |_, world: &World| {
            !world.outside.trespassed && !world.log.trespassed && only_newer_epochs_fence(world)
        }),
        Property::always(names::ONE_DECISION, |_, world| one_decision_in_order(world)),
        Property::always(names::AGREEMENT, |_, world| all_know_the_same(world)),
        Property::always(names::IN_DOUBT, |_, world| {
            found_in_doubt_is_resolved(world)
        }),
        Property::always(names::RETIRED, |_, world| retired_is_committed(world)),
        Property::always(names::RETAINED, enough_is_kept),
        Property::always(names::FINISHED, |_, world| finished_is_committed(world)),
        Property::always(names::SETTLED, |_, world| settled_is_committed(world)),
        Property::always(names::HELD, no_more_than_held),
        Property::always(names::LOUD, |_, world| a_loss_is_loud(world)),
        Property::always(names::READABLE, |_, world: &World| {
            !world.processes.contains(&Process::Ended(End::Unreadable))
        }),
        Property::always(names::STALE, |_, world| late_events_change_nothing(world)),
        Property::always(names::REST, rest::comes_to_rest),
        Property::always(names::ENDS, rest::a_stop_ends),
    ]
}

fn runs(world: &World) -> impl Iterator<Item = &Run> {
    world.processes.iter().filter_map(|process| match process {
        Process::Running(run) => Some(&**run),
        _ => None,
    })
}

fn visible_is_decided(world: &World) -> bool {
    let mut visible = world.outside.with_fate(Fate::Committed);
    visible.all(|(id, _)| world.log.names(id))
}

fn nothing_decided_is_aborted(world: &World) -> bool {
    let mut aborted = world.outside.with_fate(Fate::Aborted);
    !world.outside.abort_refused && aborted.all(|(id, _)| !world.log.names(id))
}

/// Each share of the records before the newest decision is in a transaction that is visible, or prepared and named by
/// that decision. (Forgotten by the outside system, if that may happen: then the loss has to be loud.)
fn nothing_decided_is_lost(model: &Model, world: &World) -> bool {
    let bounds = &model.bounds;
    let Some(newest) = world.log.history.last().map(|decided| &decided.manifest) else {
        return true;
    };
    let mut found = BTreeSet::new();
    for (id, slot) in &world.outside.slots {
        let counts = match slot.fate {
            Fate::Committed => true,
            Fate::Prepared => newest.prepared.contains(id),
            Fate::Expired => world.log.names(*id),
            Fate::Open | Fate::Aborted => false,
        };
        if counts {
            let shares = slot.shares.iter();
            found.extend(shares.map(|share| (id.sink, id.checkpoint.0, *share)));
        }
    }
    (0..bounds.sinks).all(|sink| {
        (1..=newest.checkpoint.0)
            .filter(|checkpoint| bounds.empty != Some((sink, *checkpoint)))
            .all(|checkpoint| {
                (0..bounds.shares()).all(|share| found.contains(&(sink, checkpoint, share)))
            })
    })
}

pub(crate) fn nothing_is_visible_twice(world: &World) -> bool {
    let mut seen = BTreeSet::new();
    let mut visible = world.outside.with_fate(Fate::Committed);
    visible.all(|(id, slot)| {
        let mut shares = slot.shares.iter();
        shares.all(|share| seen.insert((id.sink, id.checkpoint, *share)))
    })
}

fn one_decision_in_order(world: &World) -> bool {
    world.log.history.windows(2).all(|pair| {
        pair[0].manifest.checkpoint < pair[1].manifest.checkpoint && pair[0].epoch <= pair[1].epoch
    })
}

/// What a process was told or has read is what was decided.
fn all_know_the_same(world: &World) -> bool {
    let is_decided = |known: &dyn Fn(&Decided) -> bool| world.log.history.iter().any(known);
    world.processes.iter().all(|process| {
        let read = match process {
            Process::Recovering(recovery) => recovery.newest.as_ref(),
            Process::Running(run) => run.from.as_ref(),
            Process::Waiting | Process::Ended(_) => None,
        };
        read.is_none_or(|read| is_decided(&|decided| decided.manifest == *read))
    }) && runs(world).all(|run| {
        run.notified.iter().all(|told| match told {
            Decision::Commit(checkpoint) => is_decided(&|decided| {
                decided.manifest.checkpoint == *checkpoint && decided.epoch == run.held.epoch
            }),
            Decision::Abort(_) => true,
        })
    })
}

/// What a zombie has written since the takeover is for the next recovery to resolve.
fn found_in_doubt_is_resolved(world: &World) -> bool {
    runs(world).all(|run| {
        let mut in_doubt = world.outside.in_doubt();
        let epoch = run.held.epoch;
        in_doubt.all(|(id, slot)| id.epoch >= epoch || slot.beside >= epoch)
    })
}

fn only_newer_epochs_fence(world: &World) -> bool {
    runs(world).all(|run| match run.over {
        Some(Over::Fenced(by)) => by > run.held.epoch,
        _ => true,
    })
}

fn retired_is_committed(world: &World) -> bool {
    let mut retired = world.log.history.iter().filter(|decided| decided.retired);
    retired.all(|decided| is_committed(world, decided))
}

fn is_committed(world: &World, decided: &Decided) -> bool {
    let mut prepared = decided.manifest.prepared.iter();
    prepared.all(|id| world.outside.fate(*id) == Some(Fate::Committed))
}

fn enough_is_kept(model: &Model, world: &World) -> bool {
    let kept = world.log.chain(world.log.newest_decision());
    let kept = kept.map_or(0, |chain| chain.len());
    kept >= model.bounds.retained.min(world.log.history.len())
}

fn finished_is_committed(world: &World) -> bool {
    world.processes.iter().all(|process| match process {
        Process::Ended(End::Finished(epoch)) => {
            let history = world.log.history.iter();
            let mut own = history.filter(|decided| decided.epoch == *epoch);
            own.all(|decided| is_committed(world, decided))
        }
        _ => true,
    })
}

/// Whoever wrote the record, and wherever: a commit stays a commit.
fn settled_is_committed(world: &World) -> bool {
    let settled = world
        .log
        .records
        .values()
        .filter_map(|record| record.settled);
    settled.max().is_none_or(|settled| {
        let history = world.log.history.iter();
        let mut covered = history.filter(|decided| decided.manifest.checkpoint <= settled);
        covered.all(|decided| is_committed(world, decided))
    })
}

fn no_more_than_held(model: &Model, world: &World) -> bool {
    if model.bounds.subsumes {
        return true;
    }
    let mut held: BTreeMap<(usize, Epoch, usize), usize> = BTreeMap::new();
    for (id, _) in world.outside.with_fate(Fate::Prepared) {
        *held.entry((id.sink, id.epoch, id.subtask)).or_default() += 1;
    }
    held.into_values()
        .all(|held| held <= model.bounds.max_unconfirmed)
}

/// No run goes on from a decision of which something is lost.
fn a_loss_is_loud(world: &World) -> bool {
    runs(world).all(|run| {
        let mut prepared = run.from.iter().flat_map(|newest| &newest.prepared);
        prepared.all(|id| world.outside.fate(*id) == Some(Fate::Committed))
    })
}

/// What is said of older checkpoints, or by strangers, after the first of them: any event may retire what a run with
/// more to keep has left. What is said of the one under way is no stray.
fn late_events_change_nothing(world: &World) -> bool {
    runs(world).all(|run| {
        let stranger = ParticipantId(run.subtasks.len() + 7);
        let from = run.from.as_ref().map_or(0, |newest| newest.checkpoint.0);
        (from + 1..=run.begun.0)
            .map(CheckpointId)
            .all(|checkpoint| {
                let mut settled = run.coordinator.clone();
                let first = settled.on(CoordinatorEvent::Confirmed {
                    checkpoint,
                    participant: stranger,
                });
                let mut coordinator = settled.clone();
                let mut later = late_events(run, checkpoint, stranger).into_iter();
                first
                    .iter()
                    .all(|action| matches!(action, CoordinatorAction::Retire(_)))
                    && later.all(|event| coordinator.on(event).is_empty())
                    && coordinator == settled
            })
    })
}

fn late_events(
    run: &Run,
    checkpoint: CheckpointId,
    stranger: ParticipantId,
) -> Vec<CoordinatorEvent<Vec<Transaction>>> {
    let is_on = run.is_on();
    let deciding = run.deciding.as_ref().map(|(barrier, _)| barrier.checkpoint);
    let under_way = run.under_way.map(|barrier| barrier.checkpoint);
    let mut events = vec![CoordinatorEvent::Voted {
        checkpoint,
        participant: stranger,
        vote: Vote::Commit(Vec::new()),
    }];
    if !is_on {
        events.extend([CoordinatorEvent::Trigger, CoordinatorEvent::Stop]);
    }
    if deciding != Some(checkpoint) || !is_on {
        events.push(CoordinatorEvent::Decided(checkpoint));
        events.push(CoordinatorEvent::Undecidable(checkpoint, String::new()));
    }
    if run.settling != Some(checkpoint) {
        events.push(CoordinatorEvent::Settled(checkpoint));
    }
    if under_way != Some(checkpoint) {
        events.push(CoordinatorEvent::TimedOut(checkpoint));
    }
    events
}
