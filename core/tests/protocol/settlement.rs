//! The order of recovery, case by case and under any events.

use cofferdam::protocol::{
    NewestCheckpoint, Settlement, SettlementAction as Action, SettlementEvent as Event,
};
use cofferdam::{CheckpointId, Epoch, JobId, SinkId, SubtaskIndex, TransactionId};
use proptest::prelude::*;

fn sinks() -> [SinkId; 2] {
    ["files", "table"].map(|name| SinkId::new(name).expect("a name"))
}

fn id(sink: usize, checkpoint: u64) -> TransactionId {
    TransactionId {
        job: JobId::new("orders").expect("a name"),
        sink: sinks()[sink].clone(),
        epoch: Epoch(1),
        subtask: SubtaskIndex(0),
        checkpoint: CheckpointId(checkpoint),
    }
}

fn newest() -> Event<u8> {
    newest_that_is(false, false)
}

fn newest_that_is(settled: bool, complete: bool) -> Event<u8> {
    Event::Newest(Some(NewestCheckpoint {
        checkpoint: CheckpointId(4),
        prepared: vec![(id(0, 3), 30), (id(1, 3), 31), (id(0, 4), 40)],
        settled,
        complete,
    }))
}

fn record(accepted: Vec<TransactionId>) -> Option<Action<u8>> {
    Some(Action::RecordSettled {
        checkpoint: CheckpointId(4),
        accepted,
    })
}

fn stale(sink: usize, decided: Vec<(TransactionId, u8)>) -> Option<Action<u8>> {
    Some(Action::AbortStale {
        sink: sinks()[sink].clone(),
        epoch: Epoch(2),
        decided,
    })
}

#[test]
fn settles_all_then_aborts_what_is_stale_then_records_it_then_begins() {
    let (mut settlement, first) = Settlement::new(sinks(), Vec::new());
    assert_eq!(first, Action::TakeEpoch);
    assert_eq!(
        settlement.on(Event::EpochTaken(Epoch(2))),
        Some(Action::ReadNewest)
    );
    assert_eq!(settlement.on(newest()), Some(Action::Commit(id(0, 3), 30)));
    let second = settlement.on(Event::Committed(id(0, 3)));
    assert_eq!(second, Some(Action::Commit(id(1, 3), 31)));
    let third = settlement.on(Event::Committed(id(1, 3)));
    assert_eq!(third, Some(Action::Commit(id(0, 4), 40)));
    let files = vec![(id(0, 3), 30), (id(0, 4), 40)];
    assert_eq!(settlement.on(Event::Committed(id(0, 4))), stale(0, files));
    let table = vec![(id(1, 3), 31)];
    assert_eq!(
        settlement.on(Event::StaleAborted(sinks()[0].clone())),
        stale(1, table)
    );
    assert_eq!(
        settlement.on(Event::StaleAborted(sinks()[1].clone())),
        record(Vec::new())
    );
    let begin = settlement.on(Event::Recorded);
    assert_eq!(begin, Some(Action::Begin(Some(CheckpointId(4)))));
    assert_eq!(settlement.on(Event::EpochTaken(Epoch(3))), None);
}

#[test]
fn a_settled_checkpoint_is_not_settled_again() {
    for complete in [false, true] {
        let (mut settlement, _) = Settlement::<u8>::new(sinks(), Vec::new());
        let _read = settlement.on(Event::EpochTaken(Epoch(2)));
        // Its transactions are committed: whatever has their names now is not theirs, and nothing is spared.
        assert_eq!(
            settlement.on(newest_that_is(true, complete)),
            stale(0, Vec::new())
        );
        let _second = settlement.on(Event::StaleAborted(sinks()[0].clone()));
        let begin = settlement.on(Event::StaleAborted(sinks()[1].clone()));
        assert_eq!(begin, Some(Action::Begin(Some(CheckpointId(4)))));
    }
}

#[test]
fn a_checkpoint_that_names_nothing_is_recorded_only_if_the_job_is_complete() {
    for complete in [false, true] {
        let (mut settlement, _) = Settlement::<u8>::new(sinks(), Vec::new());
        let _read = settlement.on(Event::EpochTaken(Epoch(2)));
        let newest = Event::Newest(Some(NewestCheckpoint {
            checkpoint: CheckpointId(4),
            prepared: Vec::new(),
            settled: false,
            complete,
        }));
        assert_eq!(settlement.on(newest), stale(0, Vec::new()));
        let _second = settlement.on(Event::StaleAborted(sinks()[0].clone()));
        let next = settlement.on(Event::StaleAborted(sinks()[1].clone()));
        let begin = Some(Action::Begin(Some(CheckpointId(4))));
        assert_eq!(
            next,
            if complete { record(Vec::new()) } else { begin },
            "{complete}"
        );
    }
}

#[test]
fn a_first_start_aborts_what_is_stale_too() {
    let (mut settlement, _) = Settlement::<u8>::new(sinks(), Vec::new());
    let _read = settlement.on(Event::EpochTaken(Epoch(2)));
    assert_eq!(settlement.on(Event::Newest(None)), stale(0, Vec::new()));
    let _second = settlement.on(Event::StaleAborted(sinks()[0].clone()));
    let begin = settlement.on(Event::StaleAborted(sinks()[1].clone()));
    assert_eq!(begin, Some(Action::Begin(None)));
}

#[test]
fn a_loss_stops_and_names_what_is_lost() {
    let (mut settlement, _) = Settlement::new(sinks(), Vec::new());
    let _read = settlement.on(Event::EpochTaken(Epoch(2)));
    let _commit = settlement.on(newest());
    let stop = settlement.on(Event::Lost(id(0, 3), "expired".to_owned()));
    let expected = Action::StopLost {
        checkpoint: CheckpointId(4),
        transaction: id(0, 3),
        handle: 30,
        reason: "expired".to_owned(),
    };
    assert_eq!(stop, Some(expected));
    assert_eq!(
        settlement.on(Event::Committed(id(0, 3))),
        None,
        "it has stopped"
    );
}

#[test]
fn an_accepted_loss_is_passed_over_and_only_that() {
    let (mut settlement, _) = Settlement::new(sinks(), vec![id(0, 3)]);
    let _read = settlement.on(Event::EpochTaken(Epoch(2)));
    let _commit = settlement.on(newest());
    let next = settlement.on(Event::Lost(id(0, 3), "expired".to_owned()));
    assert_eq!(next, Some(Action::Commit(id(1, 3), 31)));
    let stop = settlement.on(Event::Lost(id(1, 3), "expired".to_owned()));
    assert!(matches!(stop, Some(Action::StopLost { .. })), "{stop:?}");
}

#[test]
fn an_accepted_loss_is_recorded_and_what_is_left_of_it_is_not_spared() {
    let (mut settlement, _) = Settlement::new(sinks(), vec![id(0, 3)]);
    let _read = settlement.on(Event::EpochTaken(Epoch(2)));
    let _commit = settlement.on(newest());
    let _next = settlement.on(Event::Lost(id(0, 3), "expired".to_owned()));
    let _next = settlement.on(Event::Committed(id(1, 3)));
    assert_eq!(
        settlement.on(Event::Committed(id(0, 4))),
        stale(0, vec![(id(0, 4), 40)])
    );
    let _second = settlement.on(Event::StaleAborted(sinks()[0].clone()));
    assert_eq!(
        settlement.on(Event::StaleAborted(sinks()[1].clone())),
        record(vec![id(0, 3)])
    );
}

fn any_event() -> impl Strategy<Value = Event<u8>> {
    let any_id = || (0..2usize, 3..5u64).prop_map(|(sink, checkpoint)| id(sink, checkpoint));
    prop_oneof![
        (1..4u64).prop_map(|epoch| Event::EpochTaken(Epoch(epoch))),
        (any::<bool>(), any::<bool>())
            .prop_map(|(settled, complete)| newest_that_is(settled, complete)),
        Just(Event::Newest(None)),
        any_id().prop_map(Event::Committed),
        any_id().prop_map(|id| Event::Lost(id, "expired".to_owned())),
        (0..2usize).prop_map(|sink| Event::StaleAborted(sinks()[sink].clone())),
        Just(Event::Recorded),
    ]
}

/// Whether an event answers an action.
fn answers(event: &Event<u8>, action: &Action<u8>) -> bool {
    match (event, action) {
        (Event::EpochTaken(_), Action::TakeEpoch)
        | (Event::Newest(_), Action::ReadNewest)
        | (Event::Recorded, Action::RecordSettled { .. }) => true,
        (Event::Committed(found) | Event::Lost(found, _), Action::Commit(asked, _)) => {
            found == asked
        }
        (Event::StaleAborted(found), Action::AbortStale { sink, .. }) => found == sink,
        _ => false,
    }
}

/// The place of an action in the order of recovery.
fn step(action: &Action<u8>) -> u8 {
    match action {
        Action::TakeEpoch => 0,
        Action::ReadNewest => 1,
        Action::Commit(..) => 2,
        Action::StopLost { .. } => 3,
        Action::AbortStale { .. } => 4,
        Action::RecordSettled { .. } => 5,
        Action::Begin(_) => 6,
    }
}

proptest! {
    #[test]
    fn whatever_comes_only_the_answer_to_the_last_action_leads_on_and_always_in_this_order(
        events in prop::collection::vec(any_event(), 0..120),
    ) {
        let (mut settlement, mut asked) = Settlement::new(sinks(), Vec::new());
        let mut unsettled: Vec<TransactionId> = Vec::new();
        for event in events {
            let before = settlement.clone();
            match settlement.on(event.clone()) {
                None => {
                    prop_assert!(!answers(&event, &asked), "{:?} was not taken", event);
                    prop_assert_eq!(&settlement, &before);
                }
                Some(next) => {
                    prop_assert!(answers(&event, &asked), "{event:?} does not answer {asked:?}");
                    prop_assert!(step(&asked) <= step(&next), "{next:?} after {asked:?}");
                    match event {
                        Event::Newest(Some(newest)) if !newest.settled => {
                            unsettled = newest.prepared.into_iter().map(|(id, _)| id).collect();
                        }
                        Event::Committed(id) => unsettled.retain(|unsettled| *unsettled != id),
                        _ => {}
                    }
                    let settled = unsettled.is_empty();
                    let after_settling = matches!(
                        next,
                        Action::AbortStale { .. } | Action::RecordSettled { .. } | Action::Begin(_)
                    );
                    prop_assert!(settled || !after_settling, "{next:?} before {unsettled:?}");
                    asked = next;
                }
            }
        }
    }
}
