//! The checker finds each kind of anomaly in a history made by hand, and nothing in a good one.

use cofferdam::{AtomicUnit, Capabilities, TransactionId};
use cofferdam_conformance::{Event, History, Kind, Promise, Row, Token, check};

fn id(text: &str) -> TransactionId {
    format!("job/sink/{text}").parse().expect("an id")
}

fn row(record: u64, writer: &str) -> Row {
    let writer = id(writer);
    Row {
        text: Token { record, writer }.to_string(),
        lane: Some("lane".to_owned()),
    }
}

fn wrote(writer: &str, records: &[u64]) -> Event {
    Event::Wrote {
        writer: id(writer),
        records: records.to_vec(),
    }
}

fn decided(writer: &str) -> Event {
    Event::Decided(vec![id(writer)])
}

fn history(events: impl IntoIterator<Item = Event>) -> History {
    let mut history = History::default();
    events.into_iter().for_each(|event| history.push(event));
    history
}

fn kinds(unit: AtomicUnit, events: impl IntoIterator<Item = Event>) -> Vec<Kind> {
    let promise = Promise {
        unit,
        ..Promise::of(&Capabilities::TRANSACTIONAL)
    };
    let found = check(&history(events), promise);
    found.iter().map(|anomaly| anomaly.kind).collect()
}

fn subtask(events: impl IntoIterator<Item = Event>) -> Vec<Kind> {
    kinds(AtomicUnit::Subtask, events)
}

#[test]
fn a_good_history_has_nothing() {
    let rolled_back = [
        wrote("1/0/1", &[1, 2]),
        Event::Read(vec![]),
        decided("1/0/1"),
        Event::Read(vec![row(1, "1/0/1"), row(2, "1/0/1")]),
        wrote("1/0/2", &[3, 4]),
        Event::DecidedAgainst(vec![id("1/0/2")]),
        wrote("2/0/2", &[3, 4]),
        decided("2/0/2"),
        Event::Read(vec![
            row(1, "1/0/1"),
            row(2, "1/0/1"),
            row(3, "2/0/2"),
            row(4, "2/0/2"),
        ]),
        Event::Quiet,
    ];
    assert_eq!(subtask(rolled_back), []);
}

#[test]
fn corrupt() {
    let mut damaged = row(1, "1/0/1");
    damaged.text.insert(0, '2');
    let events = [wrote("1/0/1", &[1]), decided("1/0/1")];
    let found = subtask(events.into_iter().chain([Event::Read(vec![damaged])]));
    assert_eq!(found, [Kind::Corrupt]);
}

#[test]
fn phantom() {
    let read = Event::Read(vec![row(1, "1/0/1"), row(2, "1/0/1")]);
    assert_eq!(
        subtask([wrote("1/0/1", &[1]), decided("1/0/1"), read]),
        [Kind::Phantom]
    );
}

#[test]
fn dirty() {
    let read = Event::Read(vec![row(1, "1/0/1")]);
    assert_eq!(
        subtask([wrote("1/0/1", &[1]), read, decided("1/0/1")]),
        [Kind::Dirty]
    );
}

#[test]
fn resurrected() {
    let aborted = Event::DecidedAgainst(vec![id("1/0/1")]);
    let read = Event::Read(vec![row(1, "1/0/1")]);
    assert_eq!(
        subtask([wrote("1/0/1", &[1]), aborted, read]),
        [Kind::Resurrected]
    );
}

#[test]
fn duplicate_within_a_transaction_and_over_two() {
    let twice = Event::Read(vec![row(1, "1/0/1"), row(1, "1/0/1")]);
    assert_eq!(
        subtask([wrote("1/0/1", &[1]), decided("1/0/1"), twice]),
        [Kind::Duplicate]
    );
    let again = Event::Read(vec![row(1, "1/0/1"), row(1, "2/0/2")]);
    let events = [
        wrote("1/0/1", &[1]),
        wrote("2/0/2", &[1]),
        decided("1/0/1"),
        decided("2/0/2"),
        again,
    ];
    assert_eq!(subtask(events), [Kind::Duplicate]);
}

#[test]
fn torn_by_the_declared_unit() {
    let events = || {
        [
            wrote("1/0/1", &[1, 2]),
            wrote("1/1/1", &[3]),
            Event::Decided(vec![id("1/0/1"), id("1/1/1")]),
        ]
    };
    let half = Event::Read(vec![row(1, "1/0/1")]);
    let read = |rows: &Event| events().into_iter().chain([rows.clone()]);
    assert_eq!(kinds(AtomicUnit::Subtask, read(&half)), [Kind::Torn]);
    assert_eq!(kinds(AtomicUnit::Record, read(&half)), []);
    let one_subtask = Event::Read(vec![row(1, "1/0/1"), row(2, "1/0/1")]);
    assert_eq!(kinds(AtomicUnit::Subtask, read(&one_subtask)), []);
    assert_eq!(
        kinds(AtomicUnit::Checkpoint, read(&one_subtask)),
        [Kind::Torn]
    );
}

#[test]
fn torn_within_a_lane_where_partitions_come_one_after_the_other() {
    let placed = |record, lane: &str| Row {
        lane: Some(lane.to_owned()),
        ..row(record, "1/0/1")
    };
    let kinds = |reads: &[&[Row]]| {
        let written = [wrote("1/0/1", &[1, 2, 3]), decided("1/0/1")];
        let reads = reads.iter().map(|rows| Event::Read(rows.to_vec()));
        kinds(AtomicUnit::Partition, written.into_iter().chain(reads))
    };
    let (one, two, three) = (placed(1, "a"), placed(2, "a"), placed(3, "b"));
    let all = [one.clone(), two.clone(), three.clone()];
    assert_eq!(kinds(&[&[one.clone(), two], &all]), []);
    assert_eq!(kinds(&[&[one, three], &all]), [Kind::Torn]);
}

#[test]
fn reordered_within_a_transaction_and_over_two() {
    let events = || {
        [
            wrote("1/0/1", &[1, 2]),
            wrote("1/0/2", &[3]),
            decided("1/0/1"),
            decided("1/0/2"),
        ]
    };
    let rows = [row(1, "1/0/1"), row(2, "1/0/1"), row(3, "1/0/2")];
    for order in [[1, 0, 2], [2, 0, 1]] {
        let read = Event::Read(order.map(|at: usize| rows[at].clone()).to_vec());
        assert_eq!(
            subtask(events().into_iter().chain([read])),
            [Kind::Reordered],
            "{order:?}"
        );
    }
    let no_lane = rows.map(|row| Row { lane: None, ..row });
    let read = Event::Read(no_lane.into_iter().rev().collect());
    assert_eq!(subtask(events().into_iter().chain([read])), []);
}

#[test]
fn vanished() {
    let events = [
        wrote("1/0/1", &[1]),
        decided("1/0/1"),
        Event::Read(vec![row(1, "1/0/1")]),
        Event::Read(vec![]),
    ];
    assert_eq!(subtask(events), [Kind::Vanished]);
}

#[test]
fn lost_only_when_all_is_quiet() {
    let events = || [wrote("1/0/1", &[1]), decided("1/0/1"), Event::Read(vec![])];
    assert_eq!(subtask(events()), []);
    assert_eq!(
        subtask(events().into_iter().chain([Event::Quiet])),
        [Kind::Lost]
    );
}

#[test]
fn an_anomaly_comes_with_the_events_that_show_it_and_no_others() {
    let events = history([
        wrote("1/0/1", &[1]),
        wrote("1/1/1", &[2]),
        decided("1/1/1"),
        Event::Read(vec![row(1, "1/0/1"), row(2, "1/1/1")]),
    ]);
    let found = check(&events, Promise::of(&Capabilities::TRANSACTIONAL));
    let shown = history([wrote("1/0/1", &[1]), Event::Read(vec![row(1, "1/0/1")])]);
    assert_eq!(found[0].history, shown);
    assert!(
        found[0].to_string().contains("record 1 of job/sink/1/0/1"),
        "{}",
        found[0]
    );
}

#[test]
fn what_is_not_promised_is_not_demanded() {
    let promise = Promise::of(&Capabilities::AT_LEAST_ONCE);
    let events = history([
        wrote("1/0/1", &[1]),
        Event::Read(vec![row(1, "1/0/1"), row(1, "1/0/1")]),
    ]);
    assert_eq!(check(&events, promise), []);
}
