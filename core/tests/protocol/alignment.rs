//! Barrier alignment, case by case and against any order of barriers.

use cofferdam::CheckpointId;
use cofferdam::protocol::{Alignment, Barrier};
use proptest::prelude::*;

fn barrier(checkpoint: u64) -> Barrier {
    Barrier {
        checkpoint: CheckpointId(checkpoint),
        last: false,
    }
}

#[test]
fn a_single_input_is_never_held() {
    let mut alignment = Alignment::new(1);
    for checkpoint in [1, 2, 5] {
        let aligned = alignment.barrier(0, barrier(checkpoint));
        assert_eq!(aligned, Ok(Some(barrier(checkpoint))));
        assert!(!alignment.is_held(0));
    }
}

#[test]
fn what_no_run_produces_is_refused_and_changes_nothing() {
    let mut alignment = Alignment::new(2);
    assert_eq!(alignment.barrier(0, barrier(2)), Ok(None));
    let before = alignment.clone();
    for (input, found) in [(0, 2), (0, 3), (1, 1), (1, 3), (7, 2)] {
        let error = alignment
            .barrier(input, barrier(found))
            .expect_err("no such order");
        assert_eq!(error.expected, Some(barrier(2)));
        assert_eq!(alignment, before);
    }
    let last = Barrier {
        last: true,
        ..barrier(2)
    };
    assert!(
        alignment.barrier(1, last).is_err(),
        "the same number, and yet another barrier"
    );
    assert_eq!(alignment.barrier(1, barrier(2)), Ok(Some(barrier(2))));
    assert!(alignment.barrier(0, barrier(2)).is_err(), "not newer");
}

#[test]
fn an_unknown_input_is_held() {
    assert!(Alignment::new(2).is_held(2));
    assert!(Alignment::new(0).is_held(0));
}

proptest! {
    /// Each input brings barriers 1 to 6, at its own pace.
    #[test]
    fn barriers_come_out_in_order_and_no_input_runs_ahead(
        inputs in 1..5usize,
        turns in prop::collection::vec(0..5usize, 0..80),
    ) {
        let mut alignment = Alignment::new(inputs);
        let mut brought = vec![0u64; inputs];
        let mut aligned = 0;
        for input in turns {
            let input = input % inputs;
            if alignment.is_held(input) || brought[input] == 6 {
                continue;
            }
            brought[input] += 1;
            let done = alignment.barrier(input, barrier(brought[input])).expect("in order");
            let least = brought.iter().min().copied().unwrap_or(0);
            prop_assert_eq!(done.is_some(), least > aligned);
            aligned = least;
            for (input, brought) in brought.iter().enumerate() {
                prop_assert_eq!(alignment.is_held(input), *brought > aligned);
                prop_assert!(*brought <= aligned + 1);
            }
        }
    }
}
