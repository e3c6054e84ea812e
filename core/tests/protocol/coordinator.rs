//! The coordinator, case by case.

use std::collections::BTreeSet;

use cofferdam::protocol::{
    Barrier, Coordinator, CoordinatorAction as Action, CoordinatorEvent as Event,
    CoordinatorSettings, Decision, ParticipantId, Vote,
};
use cofferdam::{CheckpointId, Epoch};

type Machine = Coordinator<&'static str>;

fn settings() -> CoordinatorSettings {
    // Participant 0 is a source, 1 a sink.
    CoordinatorSettings {
        participants: 2,
        committers: BTreeSet::from([ParticipantId(1)]),
        tolerable_failures: 1,
        max_unconfirmed: 2,
        subsumes: true,
        retained: 1,
    }
}

fn machine() -> Machine {
    Coordinator::new(settings(), &[])
}

fn inject(checkpoint: u64, last: bool) -> Action<&'static str> {
    let checkpoint = CheckpointId(checkpoint);
    Action::Inject(Barrier { checkpoint, last })
}

fn vote(checkpoint: u64, participant: usize, snapshot: &'static str) -> Event<&'static str> {
    Event::Voted {
        checkpoint: CheckpointId(checkpoint),
        participant: ParticipantId(participant),
        vote: Vote::Commit(snapshot),
    }
}

fn vote_to_abort(checkpoint: u64) -> Event<&'static str> {
    Event::Voted {
        checkpoint: CheckpointId(checkpoint),
        participant: ParticipantId(1),
        vote: Vote::Abort("no room".to_owned()),
    }
}

fn confirmed(checkpoint: u64) -> Event<&'static str> {
    Event::Confirmed {
        checkpoint: CheckpointId(checkpoint),
        participant: ParticipantId(1),
    }
}

fn commit(checkpoint: u64) -> Action<&'static str> {
    Action::Notify(Decision::Commit(CheckpointId(checkpoint)))
}

/// Triggers a checkpoint and casts all votes; returns what the last vote brings.
fn vote_on(machine: &mut Machine, checkpoint: u64) -> Vec<Action<&'static str>> {
    let _injected = machine.on(Event::Trigger);
    assert_eq!(machine.on(vote(checkpoint, 1, "sink")), []);
    machine.on(vote(checkpoint, 0, "source"))
}

fn decide(machine: &mut Machine, checkpoint: u64) -> Vec<Action<&'static str>> {
    let decide = vote_on(machine, checkpoint);
    assert!(matches!(decide[..], [Action::Decide { .. }]), "{decide:?}");
    machine.on(Event::Decided(CheckpointId(checkpoint)))
}

fn rolls_back(actions: &[Action<&'static str>], reason: &str) -> bool {
    matches!(actions, [Action::RollBack(found)] if found.contains(reason))
}

#[test]
fn all_votes_make_a_decision_in_the_order_of_participants() {
    let mut machine = machine();
    assert_eq!(machine.on(Event::Trigger), [inject(1, false)]);
    assert_eq!(machine.on(Event::Trigger), [], "one at a time");
    assert_eq!(machine.on(vote(1, 1, "sink")), []);
    assert_eq!(
        machine.on(vote(1, 1, "sink")),
        [],
        "a repeated vote counts once"
    );
    let barrier = Barrier {
        checkpoint: CheckpointId(1),
        last: false,
    };
    let snapshots = vec!["source", "sink"];
    assert_eq!(
        machine.on(vote(1, 0, "source")),
        [Action::Decide {
            barrier,
            snapshots,
            settled: None
        }]
    );
    assert_eq!(
        machine.on(Event::TimedOut(CheckpointId(1))),
        [],
        "it may be decided"
    );
    assert_eq!(machine.on(Event::Decided(CheckpointId(1))), [commit(1)]);
    assert_eq!(
        machine.on(Event::Decided(CheckpointId(1))),
        [],
        "said twice"
    );
}

#[test]
fn numbers_go_on_after_the_newest_kept_checkpoint() {
    let kept = [CheckpointId(4), CheckpointId(7)];
    let mut machine: Machine = Coordinator::new(settings(), &kept);
    assert_eq!(machine.on(Event::Trigger), [inject(8, false)]);
}

#[test]
fn a_dropped_checkpoint_takes_no_late_votes() {
    let mut machine = machine();
    assert_eq!(machine.on(Event::Trigger), [inject(1, false)]);
    assert_eq!(machine.on(vote(1, 0, "source")), []);
    assert_eq!(machine.on(Event::TimedOut(CheckpointId(1))), []);
    assert_eq!(machine.on(Event::Trigger), [inject(2, false)]);
    assert_eq!(machine.on(vote(1, 1, "late")), []);
    assert_eq!(
        machine.on(Event::TimedOut(CheckpointId(1))),
        [],
        "long dropped"
    );
    assert_eq!(
        machine.on(vote(2, 0, "source")),
        [],
        "the late vote is not counted for 2"
    );
}

#[test]
fn too_many_dropped_in_a_row_roll_back_and_a_decision_starts_the_count_anew() {
    let mut machine = machine();
    let _injected = machine.on(Event::Trigger);
    assert_eq!(machine.on(Event::TimedOut(CheckpointId(1))), []);
    assert_eq!(decide(&mut machine, 2), [commit(2)]);
    let _injected = machine.on(Event::Trigger);
    assert_eq!(machine.on(Event::TimedOut(CheckpointId(3))), []);
    let _injected = machine.on(Event::Trigger);
    assert!(rolls_back(
        &machine.on(Event::TimedOut(CheckpointId(4))),
        "number 2 in a row"
    ));
    assert_eq!(machine.on(Event::Trigger), [], "over is over");
}

#[test]
fn where_nothing_can_ride_along_the_first_dropped_checkpoint_rolls_back() {
    let without = CoordinatorSettings {
        subsumes: false,
        ..settings()
    };
    let mut machine: Machine = Coordinator::new(without, &[]);
    let _injected = machine.on(Event::Trigger);
    assert!(rolls_back(
        &machine.on(Event::TimedOut(CheckpointId(1))),
        "beside the next"
    ));
}

#[test]
fn a_vote_to_abort_aborts_what_is_undecided_and_rolls_back() {
    let mut machine = machine();
    let _injected = machine.on(Event::Trigger);
    let actions = machine.on(vote_to_abort(1));
    assert_eq!(actions[0], Action::Notify(Decision::Abort(CheckpointId(1))));
    assert!(rolls_back(&actions[1..], "no room"));
}

#[test]
fn a_vote_to_abort_while_the_log_is_asked_aborts_nothing() {
    let mut machine = machine();
    let _decide = vote_on(&mut machine, 1);
    assert!(rolls_back(&machine.on(vote_to_abort(1)), "no room"));
}

#[test]
fn a_decision_without_answer_aborts_nothing() {
    let mut machine = machine();
    let _decide = vote_on(&mut machine, 1);
    let undecidable = Event::Undecidable(CheckpointId(1), "the store is away".to_owned());
    assert!(rolls_back(&machine.on(undecidable), "the store is away"));
    assert_eq!(
        machine.on(Event::Decided(CheckpointId(1))),
        [],
        "for recovery to read"
    );
}

#[test]
fn fenced_stops_and_touches_nothing() {
    let mut machine = machine();
    let _decide = vote_on(&mut machine, 1);
    assert_eq!(
        machine.on(Event::Fenced(Epoch(9))),
        [Action::StopFenced(Epoch(9))]
    );
    assert_eq!(machine.on(vote_to_abort(1)), []);
}

#[test]
fn unconfirmed_checkpoints_hold_up_the_next() {
    let mut machine = machine();
    let _decided = decide(&mut machine, 1);
    let _decided = decide(&mut machine, 2);
    assert_eq!(machine.on(Event::Trigger), [], "two are unconfirmed");
    assert_eq!(machine.on(confirmed(1)), [Action::Retire(CheckpointId(1))]);
    assert_eq!(machine.on(Event::Trigger), [inject(3, false)]);
}

#[test]
fn what_is_unconfirmed_is_not_retired_and_a_later_confirmation_covers_it() {
    let mut machine = machine();
    let _decided = decide(&mut machine, 1);
    assert_eq!(decide(&mut machine, 2), [commit(2)], "1 is in doubt");
    assert_eq!(machine.on(confirmed(2)), [Action::Retire(CheckpointId(1))]);
    assert_eq!(machine.on(confirmed(1)), [], "late, and covered");
}

#[test]
fn stop_makes_a_last_checkpoint_and_finishes_once_the_log_says_that_all_is_committed() {
    let mut machine = machine();
    assert_eq!(machine.on(Event::Stop), [inject(1, true)]);
    let decide = [
        machine.on(vote(1, 0, "source")),
        machine.on(vote(1, 1, "sink")),
    ]
    .concat();
    assert!(matches!(decide[..], [Action::Decide { .. }]), "{decide:?}");
    assert_eq!(machine.on(Event::Decided(CheckpointId(1))), [commit(1)]);
    assert_eq!(
        machine.on(Event::Trigger),
        [],
        "nothing is begun after the last"
    );
    assert_eq!(machine.on(confirmed(1)), [Action::Settle(CheckpointId(1))]);
    assert_eq!(machine.on(confirmed(1)), [], "confirmed twice");
    assert_eq!(machine.on(Event::Settled(CheckpointId(9))), [], "another");
    assert_eq!(
        machine.on(Event::Settled(CheckpointId(1))),
        [Action::Finish]
    );
    assert_eq!(machine.on(Event::Settled(CheckpointId(1))), []);
}

/// Returns a machine that is about to record its last checkpoint as settled.
fn settling() -> Machine {
    let mut machine = machine();
    let _injected = machine.on(Event::Stop);
    let _votes = [
        machine.on(vote(1, 0, "source")),
        machine.on(vote(1, 1, "sink")),
    ];
    let _decided = machine.on(Event::Decided(CheckpointId(1)));
    assert_eq!(machine.on(confirmed(1)), [Action::Settle(CheckpointId(1))]);
    machine
}

#[test]
fn a_run_that_is_overtaken_once_all_is_committed_has_finished() {
    let mut machine = settling();
    assert_eq!(machine.on(Event::Fenced(Epoch(9))), [Action::Finish]);
}

#[test]
fn a_decision_carries_the_newest_older_checkpoint_that_is_settled() {
    let three = CoordinatorSettings {
        max_unconfirmed: 3,
        retained: 3,
        ..settings()
    };
    let mut machine: Machine = Coordinator::new(three, &[]);
    let settled_in = |actions: Vec<Action<&'static str>>| match actions[..] {
        [Action::Decide { settled, .. }] => settled,
        _ => panic!("{actions:?}"),
    };
    assert_eq!(settled_in(vote_on(&mut machine, 1)), None);
    let _decided = machine.on(Event::Decided(CheckpointId(1)));
    assert_eq!(settled_in(vote_on(&mut machine, 2)), None, "unconfirmed");
    let _decided = machine.on(Event::Decided(CheckpointId(2)));
    assert_eq!(machine.on(confirmed(1)), []);
    let settled = settled_in(vote_on(&mut machine, 3));
    assert_eq!(settled, Some(CheckpointId(1)), "2 is unconfirmed");
}

#[test]
fn stop_waits_for_the_checkpoint_under_way() {
    let mut machine = machine();
    let _injected = machine.on(Event::Trigger);
    assert_eq!(machine.on(Event::Stop), []);
    let _votes = [
        machine.on(vote(1, 0, "source")),
        machine.on(vote(1, 1, "sink")),
    ];
    let decided = machine.on(Event::Decided(CheckpointId(1)));
    assert_eq!(decided, [commit(1), inject(2, true)]);
}

#[test]
fn stop_makes_its_last_checkpoint_also_after_a_dropped_one() {
    let mut machine = machine();
    let _injected = machine.on(Event::Trigger);
    assert_eq!(machine.on(Event::Stop), []);
    assert_eq!(
        machine.on(Event::TimedOut(CheckpointId(1))),
        [inject(2, true)]
    );
}

#[test]
fn stop_waits_until_confirmations_leave_room() {
    let mut machine = machine();
    let _decided = decide(&mut machine, 1);
    let _decided = decide(&mut machine, 2);
    assert_eq!(machine.on(Event::Stop), []);
    let actions = machine.on(confirmed(2));
    assert_eq!(actions, [Action::Retire(CheckpointId(1)), inject(3, true)]);
}

#[test]
fn a_last_checkpoint_that_is_late_is_waited_for_since_nobody_is_left_to_vote_on_another() {
    let mut machine = machine();
    let tolerated = settings().tolerable_failures;
    assert_eq!(machine.on(Event::Stop), [inject(1, true)]);
    assert_eq!(machine.on(vote(1, 0, "source")), []);
    for _ in 0..tolerated {
        assert_eq!(machine.on(Event::TimedOut(CheckpointId(1))), []);
    }
    assert!(rolls_back(
        &machine.on(Event::TimedOut(CheckpointId(1))),
        "times in a row"
    ));
}
