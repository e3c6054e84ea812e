//! The participant, case by case.

use cofferdam::CheckpointId;
use cofferdam::protocol::{
    Decision, Participant, ParticipantAction as Action, ParticipantEvent as Event, Vote,
};

type Machine = Participant<&'static str>;

fn prepared(checkpoint: u64, handle: &'static str) -> Event<&'static str> {
    Event::Prepared(CheckpointId(checkpoint), Some(handle))
}

fn commit_decided(checkpoint: u64) -> Event<&'static str> {
    Event::Decision(Decision::Commit(CheckpointId(checkpoint)))
}

fn abort_decided(checkpoint: u64) -> Event<&'static str> {
    Event::Decision(Decision::Abort(CheckpointId(checkpoint)))
}

fn committed(checkpoint: u64) -> Event<&'static str> {
    Event::Committed(CheckpointId(checkpoint))
}

fn votes(checkpoint: u64, handles: &[(u64, &'static str)]) -> Vec<Action<&'static str>> {
    let handles = handles
        .iter()
        .map(|(checkpoint, handle)| (CheckpointId(*checkpoint), *handle))
        .collect();
    vec![Action::Vote(
        CheckpointId(checkpoint),
        Vote::Commit(handles),
    )]
}

fn commit(checkpoint: u64, handle: &'static str) -> Action<&'static str> {
    Action::Commit(CheckpointId(checkpoint), handle)
}

fn confirm(checkpoint: u64) -> Action<&'static str> {
    Action::Confirm(CheckpointId(checkpoint))
}

#[test]
fn prepares_votes_commits_confirms() {
    let mut machine = Machine::new();
    assert_eq!(machine.on(prepared(1, "a")), votes(1, &[(1, "a")]));
    assert_eq!(machine.on(commit_decided(1)), [commit(1, "a")]);
    assert_eq!(machine.on(committed(1)), [confirm(1)]);
}

#[test]
fn an_empty_transaction_leaves_no_handle_and_is_confirmed_at_once() {
    let mut machine = Machine::new();
    let empty = Event::Prepared(CheckpointId(1), None);
    assert_eq!(machine.on(empty), votes(1, &[]));
    assert_eq!(machine.on(commit_decided(1)), [confirm(1)]);
}

#[test]
fn a_handle_rides_with_each_vote_until_it_is_committed() {
    let mut machine = Machine::new();
    let _vote = machine.on(prepared(1, "a"));
    assert_eq!(
        machine.on(prepared(2, "b")),
        votes(2, &[(1, "a"), (2, "b")])
    );
    assert_eq!(
        machine.on(commit_decided(2)),
        [commit(1, "a")],
        "1 was dropped, 2 names it"
    );
    assert_eq!(
        machine.on(prepared(3, "c")),
        votes(3, &[(1, "a"), (2, "b"), (3, "c")])
    );
    assert_eq!(
        machine.on(committed(1)),
        [commit(2, "b")],
        "oldest first, one at a time"
    );
    assert_eq!(machine.on(committed(2)), [confirm(2)], "3 is not decided");
    assert_eq!(
        machine.on(prepared(4, "d")),
        votes(4, &[(3, "c"), (4, "d")])
    );
}

#[test]
fn notifications_that_come_twice_late_or_out_of_order_change_nothing() {
    let mut machine = Machine::new();
    let _votes = [machine.on(prepared(1, "a")), machine.on(prepared(2, "b"))];
    assert_eq!(machine.on(commit_decided(2)), [commit(1, "a")]);
    assert_eq!(machine.on(commit_decided(1)), [], "an older one");
    assert_eq!(machine.on(commit_decided(2)), [], "a commit is under way");
    assert_eq!(machine.on(committed(1)), [commit(2, "b")]);
    assert_eq!(machine.on(committed(1)), [], "said twice");
    assert_eq!(machine.on(committed(2)), [confirm(2)]);
    assert_eq!(machine.on(commit_decided(2)), [], "confirmed once");
    assert_eq!(machine.on(commit_decided(1)), []);
}

#[test]
fn a_notification_that_never_came_is_made_good_by_the_next() {
    let mut machine = Machine::new();
    let _votes = [machine.on(prepared(1, "a")), machine.on(prepared(2, "b"))];
    assert_eq!(machine.on(commit_decided(2)), [commit(1, "a")]);
    assert_eq!(machine.on(committed(1)), [commit(2, "b")]);
    assert_eq!(machine.on(committed(2)), [confirm(2)]);
}

#[test]
fn an_abort_undoes_what_is_undecided_and_nothing_else() {
    let mut machine = Machine::new();
    for (checkpoint, handle) in [(1, "a"), (2, "b"), (3, "c")] {
        let _vote = machine.on(prepared(checkpoint, handle));
    }
    assert_eq!(machine.on(commit_decided(1)), [commit(1, "a")]);
    assert_eq!(
        machine.on(abort_decided(3)),
        [Action::Abort(CheckpointId(3), "c")]
    );
    assert_eq!(
        machine.on(committed(1)),
        [confirm(1)],
        "2 is left to recovery"
    );
}

#[test]
fn an_abort_of_what_is_decided_undoes_nothing() {
    let mut machine = Machine::new();
    let _vote = machine.on(prepared(1, "a"));
    assert_eq!(machine.on(commit_decided(1)), [commit(1, "a")]);
    assert_eq!(machine.on(abort_decided(1)), []);
    assert_eq!(machine.on(committed(1)), [confirm(1)]);
}

#[test]
fn after_a_transaction_is_gone_no_checkpoint_is_voted_for() {
    for gone in [
        Event::NotPrepared(CheckpointId(1), "no room".to_owned()),
        abort_decided(1),
    ] {
        let mut machine = Machine::new();
        let _vote = machine.on(gone);
        let vote = machine.on(prepared(2, "b"));
        let against = matches!(vote[..], [Action::Vote(CheckpointId(2), Vote::Abort(_))]);
        assert!(against, "{vote:?}");
    }
}
