//! Every rule holds in every state within these bounds, and each exploration finds its examples.

use cofferdam_model_check::{Bounds, explore, shortest_violation};

/// Explores all, or down to a depth.
fn holds(bounds: &Bounds, depth: Option<usize>) {
    let explored = explore(bounds, depth, 1);
    println!("{explored:?}");
    if !explored.failures.is_empty() {
        let found = shortest_violation(bounds, None, explored.depth);
        let shortest = found.map_or_else(String::new, |found| found.text());
        panic!("{:#?}\n{shortest}", explored.failures);
    }
}

fn all_faults(bounds: Bounds) -> Bounds {
    Bounds {
        late_writes: 1,
        time_outs: true,
        refusals: true,
        stops: true,
        opens: true,
        ..bounds
    }
}

#[test]
fn two_processes_two_sinks_two_checkpoints() {
    let bounds = Bounds {
        prompt: true,
        ..Bounds::new(2, 2, 2)
    };
    holds(&bounds, None);
}

#[test]
fn two_processes_two_sinks_and_a_source() {
    let bounds = Bounds {
        source: true,
        ..Bounds::new(2, 2, 1)
    };
    holds(&bounds, None);
}

#[test]
fn two_processes_with_all_faults() {
    holds(&all_faults(Bounds::new(2, 1, 1)), None);
}

#[test]
fn two_processes_with_checkpoints_dropped_and_voted_down() {
    let bounds = Bounds {
        time_outs: true,
        refusals: true,
        ..Bounds::new(2, 1, 2)
    };
    holds(&bounds, None);
}

#[test]
fn two_processes_with_a_late_write() {
    let bounds = Bounds {
        late_writes: 1,
        ..Bounds::new(2, 1, 2)
    };
    holds(&bounds, None);
}

#[test]
fn one_process_three_checkpoints() {
    let bounds = Bounds {
        time_outs: true,
        refusals: true,
        twice: true,
        stops: true,
        retained: 2,
        max_unconfirmed: 1,
        ..Bounds::new(1, 2, 3)
    };
    holds(&bounds, None);
}

#[test]
fn sinks_that_hold_one_prepared_transaction() {
    let bounds = Bounds {
        subsumes: false,
        max_unconfirmed: 1,
        time_outs: true,
        stops: true,
        ..Bounds::new(2, 1, 2)
    };
    holds(&bounds, None);
}

#[test]
fn a_run_of_fewer_subtasks_recovers() {
    let bounds = Bounds {
        parallelism: vec![2, 1],
        ..Bounds::new(2, 1, 1)
    };
    holds(&bounds, None);
}

#[test]
fn transactions_without_records() {
    let bounds = Bounds {
        empty: Some((0, 2)),
        stops: true,
        ..Bounds::new(2, 1, 2)
    };
    holds(&bounds, None);
}

#[test]
fn an_outside_system_that_forgets() {
    let bounds = Bounds {
        expiries: 1,
        stops: true,
        ..Bounds::new(2, 1, 1)
    };
    holds(&bounds, None);
}

#[test]
fn three_processes_for_the_first_steps() {
    holds(&Bounds::new(3, 1, 1), Some(19));
}

#[test]
#[ignore = "takes a minute or more"]
fn two_processes_two_sinks_two_checkpoints_in_every_order_of_messages() {
    holds(&Bounds::new(2, 2, 2), None);
}

#[test]
#[ignore = "takes a minute or more"]
fn two_processes_two_sinks_with_all_faults() {
    holds(&all_faults(Bounds::new(2, 2, 1)), None);
}

#[test]
#[ignore = "takes a minute or more"]
fn three_processes() {
    holds(&Bounds::new(3, 1, 1), None);
}
