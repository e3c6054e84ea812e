//! What has to hold whatever happens, each rule by its name.

use std::collections::{BTreeMap, BTreeSet};

use cofferdam::{Epoch, TransactionId};

use crate::log::{Decided, Log};
use crate::outside::{Deed, Outside};
use crate::process::sinks;
use crate::world::World;

/// The rules that hold after each step.
pub fn all(world: &World) {
    nothing_visible_is_undecided(world);
    no_commit_without_a_decision(world);
    nothing_decided_is_aborted(world);
    nothing_decided_is_lost(world);
    nothing_is_visible_twice(world);
    an_older_epoch_undoes_nothing_of_a_newer(world);
    epochs_ascend(&world.log);
    checkpoints_are_decided_in_order_and_once(&world.log);
    no_more_is_prepared_than_a_sink_can_hold(world);
}

fn nothing_visible_is_undecided(world: &World) {
    for (id, _) in &world.outside.visible {
        assert!(
            world.log.names(id),
            "{id} is visible, and no decision names it"
        );
    }
}

fn no_commit_without_a_decision(world: &World) {
    for (by, id, deed) in &world.outside.deeds {
        assert_ne!(
            deed,
            &Deed::Committed { decided: false },
            "epoch {by} committed {id} before a decision named it"
        );
    }
}

fn nothing_decided_is_aborted(world: &World) {
    for (by, id, deed) in &world.outside.deeds {
        assert_ne!(
            deed,
            &Deed::Aborted { decided: true },
            "epoch {by} aborted {id}, which is decided"
        );
    }
    for decided in world.log.decisions() {
        for (id, _) in &decided.prepared {
            let aborted = world.outside.aborted.contains(id);
            assert!(!aborted, "{id} was aborted, then decided");
        }
    }
}

fn nothing_decided_is_lost(world: &World) {
    for (by, id, deed) in &world.outside.deeds {
        assert_ne!(deed, &Deed::Lost, "epoch {by} can't find {id}");
    }
}

fn nothing_is_visible_twice(world: &World) {
    for sink in sinks() {
        let mut seen = BTreeSet::new();
        let of_sink = world
            .outside
            .visible
            .iter()
            .filter(|(id, _)| id.sink == sink);
        for record in of_sink.flat_map(|(_, records)| records) {
            assert!(
                seen.insert(record),
                "record {record} is visible twice in {sink}"
            );
        }
    }
}

fn an_older_epoch_undoes_nothing_of_a_newer(world: &World) {
    for (by, id, deed) in &world.outside.deeds {
        let undone = matches!(deed, Deed::Aborted { .. });
        assert!(!undone || *by >= id.epoch, "epoch {by} undid {id}");
    }
}

fn epochs_ascend(log: &Log) {
    for pair in log.records.windows(2) {
        let takes_over = pair[1].decided.is_none();
        let expected = match takes_over {
            true => pair[0].epoch.next(),
            false => pair[0].epoch,
        };
        assert_eq!(pair[1].epoch, expected, "a record of a wrong epoch");
    }
}

fn checkpoints_are_decided_in_order_and_once(log: &Log) {
    let decided: Vec<&Decided> = log.decisions().collect();
    for pair in decided.windows(2) {
        let (before, after) = (pair[0].checkpoint, pair[1].checkpoint);
        assert!(before < after, "{after} was decided after {before}");
        assert!(pair[0].position <= pair[1].position, "positions went back");
    }
}

fn no_more_is_prepared_than_a_sink_can_hold(world: &World) {
    if world.settings.subsumes {
        return;
    }
    let mut prepared = BTreeMap::new();
    for id in world.outside.prepared.keys() {
        *prepared
            .entry((&id.sink, id.epoch, id.subtask))
            .or_insert(0usize) += 1;
    }
    for (subtask, prepared) in prepared {
        let held = world.settings.max_unconfirmed;
        assert!(
            prepared <= held,
            "{subtask:?} holds {prepared}, and can hold {held}"
        );
    }
}

/// Looked at when a checkpoint is retired.
pub fn nothing_unconfirmed_is_retired(retired: Option<&Decided>, outside: &Outside) {
    for (id, _) in retired.iter().flat_map(|retired| &retired.prepared) {
        assert!(outside.is_committed(id), "retired while {id} was in doubt");
    }
}

/// Looked at when a checkpoint is retired.
pub fn enough_is_retained(log: &Log, retained: usize) {
    let kept = log.kept(log.records.len()).count();
    assert!(
        kept >= retained,
        "{kept} checkpoints are kept of {retained}"
    );
}

/// Looked at when a run finishes.
pub fn a_finished_run_has_committed_everything(log: &Log, outside: &Outside, epoch: Epoch) {
    let own = log.records.iter().filter(|record| record.epoch == epoch);
    let named = own.filter_map(|record| record.decided.as_ref());
    for (id, _) in named.flat_map(|decided| &decided.prepared) {
        assert!(
            outside.is_committed(id),
            "finished, and {id} is not committed"
        );
    }
}

/// Looked at after a quiet recovery.
pub fn nothing_is_in_doubt(world: &World) {
    let in_doubt: Vec<&TransactionId> = world.outside.prepared.keys().collect();
    assert!(in_doubt.is_empty(), "in doubt after recovery: {in_doubt:?}");
}

/// Looked at after a quiet recovery.
pub fn every_decided_transaction_is_visible(world: &World) {
    for (id, _) in world.log.decisions().flat_map(|decided| &decided.prepared) {
        let times = world
            .outside
            .visible
            .iter()
            .filter(|(visible, _)| visible == id)
            .count();
        assert_eq!(times, 1, "{id} is decided, and visible so many times");
    }
}

/// Looked at after a quiet recovery: what readers see is what the newest checkpoint has read, record by record.
pub fn visible_is_what_was_read(world: &World) {
    let read = world
        .log
        .decisions()
        .next_back()
        .map_or(0, |newest| newest.position);
    for sink in sinks() {
        let of_sink = world
            .outside
            .visible
            .iter()
            .filter(|(id, _)| id.sink == sink);
        let mut visible: Vec<u64> = of_sink
            .flat_map(|(_, records)| records.iter().copied())
            .collect();
        visible.sort_unstable();
        let expected: Vec<u64> = (0..read).collect();
        assert_eq!(
            visible, expected,
            "{sink} shows other records than were read"
        );
    }
}
