//! The checks, one file a group.

pub(crate) mod atomicity;
pub(crate) mod cleanup;
pub(crate) mod concurrency;
pub(crate) mod durability;
pub(crate) mod errors;
pub(crate) mod fencing;
pub(crate) mod idempotence;
pub(crate) mod liveness;
pub(crate) mod recovery;
pub(crate) mod visibility;

use crate::check::Check;

/// The groups of checks: the letters of their ids, and what they are about.
pub const GROUPS: &[(&str, &str)] = &[
    ("VIS", "visibility"),
    ("ATO", "atomicity"),
    ("DUR", "durability"),
    ("IDE", "idempotence"),
    ("FEN", "fencing"),
    ("REC", "recovery"),
    ("LIV", "liveness"),
    ("CLE", "clean-up"),
    ("ERR", "errors"),
    ("CON", "concurrency"),
];

/// All checks, in the order in which they are reported.
pub(crate) fn all() -> Vec<Check> {
    [
        visibility::checks(),
        atomicity::checks(),
        durability::checks(),
        idempotence::checks(),
        fencing::checks(),
        recovery::checks(),
        liveness::checks(),
        cleanup::checks(),
        errors::checks(),
        concurrency::checks(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Hands the names of all checks to a macro, in the order of the suite. A test compares them with the checks.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_check {
    ($macro:path, $type:ty) => {
        $macro! {
            $type;
            nothing_is_visible_before_pre_commit
            nothing_is_visible_before_commit
            a_commit_shows_exactly_what_was_written
            what_is_aborted_is_never_visible
            a_commit_shows_its_own_transaction_alone
            a_commit_is_visible_when_it_returns
            the_declared_isolation_is_what_hides
            a_reader_never_sees_part_of_a_transaction
            a_refused_record_leaves_nothing_of_its_transaction
            a_large_transaction_is_all_or_nothing
            an_empty_transaction_leaves_nothing
            a_crash_between_the_commits_of_subtasks_is_made_good
            another_process_commits_what_was_prepared
            what_is_prepared_survives_kill_9
            what_is_prepared_survives_a_restart_of_the_system
            what_is_committed_survives_a_restart_of_the_system
            a_handle_is_plain_data
            handles_of_earlier_versions_still_commit
            a_second_commit_changes_nothing
            a_second_commit_by_another_process_changes_nothing
            commits_at_the_same_time_make_one_copy
            a_second_abort_changes_nothing
            an_abort_of_what_is_committed_is_refused
            a_commit_of_what_was_aborted_is_lost
            a_lost_answer_to_a_commit_is_made_good_by_the_next
            a_lost_answer_to_a_write_makes_no_second_copy
            a_lost_answer_to_a_pre_commit_leaves_nothing
            an_older_epoch_is_refused_by_its_pre_commit_at_the_latest
            a_zombie_cannot_commit_what_was_aborted_as_stale
            a_zombie_cannot_abort_what_a_newer_epoch_prepared
            a_zombie_that_wakes_inside_its_recovery_changes_nothing
            recoveries_that_race_give_one_result
            a_job_started_twice_writes_once
            similar_names_do_not_meet
            a_late_or_ambiguous_decision_is_made_good_by_the_log
            work_of_its_own_epoch_or_a_newer_one_stops_a_recovery
            output_of_its_own_epoch_or_a_newer_one_stops_a_recovery
            a_late_sweep_aborts_what_was_opened_after_the_recovery
            what_was_not_decided_is_aborted_and_written_again
            what_was_decided_is_committed_from_its_handle_alone
            recovery_finishes_commits_wherever_they_stopped
            a_crash_at_any_step_is_recovered_from
            a_crash_at_any_step_of_recovery_is_recovered_from
            several_checkpoints_in_doubt_are_committed_in_order
            recovery_without_a_decision_removes_what_is_older
            a_job_that_comes_back_at_another_parallelism_settles_every_handle
            older_state_is_refused
            what_has_vanished_is_lost
            what_has_expired_is_lost
            kill_9_at_any_step_is_recovered_from
            kill_9_at_any_time_is_recovered_from
            what_came_after_a_commit_is_aborted_whatever_its_name
            what_a_crash_left_open_does_not_hold_up_readers
            writing_the_same_records_again_is_not_blocked
            too_many_prepared_transactions_are_an_error_that_passes
            a_commit_outlives_a_system_that_is_away
            no_call_waits_for_ever
            many_checkpoints_with_crashes_settle
            a_normal_end_leaves_nothing
            what_crashes_leave_is_removed_by_the_next_recovery
            closing_keeps_what_is_prepared
            connections_return_to_where_they_were
            missing_rights_are_told_and_no_secret_is
            a_system_that_is_away_is_to_be_tried_again
            a_refused_record_is_rejected
            an_oversize_record_is_rejected
            a_full_system_is_told_and_passes
            what_is_declared_is_true
            a_commit_that_could_not_be_done_is_no_success
            a_panic_in_the_users_code_leaves_nothing
            a_call_dropped_at_any_await_leaves_the_sink_usable
            subtasks_side_by_side_do_not_meet
            a_commit_beside_the_next_writes_mixes_nothing
            commits_in_any_order_and_number_show_each_once
            order_is_kept_in_each_lane
            a_dropped_call_that_comes_late_changes_nothing
        }
    };
}
