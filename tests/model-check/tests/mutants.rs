//! Each mistake of a driver violates a rule; the shortest way there is known.

use clap::ValueEnum;
use cofferdam_model_check::{Bounds, Mutant, explore, rules_by_name as rules, shortest_violation};

/// A mistake, where it shows, which rule it violates, and after how many steps at the earliest.
fn expected() -> Vec<(Mutant, Bounds, &'static str, usize)> {
    let one = || Bounds::new(1, 1, 1);
    let next = || Bounds::new(1, 1, 2);
    let two = || Bounds::new(2, 1, 1);
    let late_votes = Bounds {
        time_outs: true,
        ..next()
    };
    let stopped = Bounds {
        stops: true,
        ..one()
    };
    let holds_one = Bounds {
        subsumes: false,
        max_unconfirmed: 1,
        ..late_votes.clone()
    };
    let forgetful = Bounds {
        expiries: 1,
        ..two()
    };
    vec![
        (Mutant::CommitsAtVote, one(), rules::UNDECIDED, 7),
        (Mutant::LostAnswerIsFailure, one(), rules::ABORTED, 10),
        (Mutant::AbortsUndecidable, one(), rules::ABORTED, 11),
        (Mutant::AbortsOnStart, two(), rules::ABORTED, 10),
        (Mutant::AbortsBeforeSettling, two(), rules::ABORTED, 12),
        (Mutant::NoFencing, two(), rules::TWICE, 22),
        (Mutant::ExistsIsDecided, two(), rules::AGREEMENT, 11),
        (
            Mutant::CountsRecordsInGaps,
            Bounds::new(3, 1, 1),
            rules::AGREEMENT,
            14,
        ),
        (Mutant::AbortsNewerEpochs, two(), rules::FENCED, 12),
        (
            Mutant::RecoversFirstSinkOnly,
            Bounds::new(2, 2, 1),
            rules::IN_DOUBT,
            14,
        ),
        (Mutant::ReadsThenTakesOver, two(), rules::ABORTED, 14),
        (
            Mutant::SettlesNewestOnly,
            Bounds::new(2, 1, 2),
            rules::ABORTED,
            19,
        ),
        (Mutant::ConfirmsBeforeCommit, next(), rules::RETIRED, 16),
        (Mutant::ForgetsPending, next(), rules::LOST, 13),
        (Mutant::AbortsDropped, late_votes, rules::ABORTED, 14),
        (Mutant::UnknownIsCommitted, forgetful, rules::LOUD, 17),
        (Mutant::NoFencing, two(), rules::ONE_DECISION, 10),
        (
            Mutant::ConfirmsBeforeCommit,
            stopped.clone(),
            rules::FINISHED,
            12,
        ),
        (Mutant::IgnoresLimit, holds_one, rules::HELD, 10),
        (Mutant::NeverConfirms, stopped, rules::ENDS, 5),
        (Mutant::DeletesKept, two(), rules::RETAINED, 12),
        (
            Mutant::DeletesKept,
            Bounds::new(3, 1, 1),
            rules::READABLE,
            15,
        ),
        (Mutant::KeepsEpoch, two(), rules::REST, 7),
        (Mutant::TakesDecidedForSettled, two(), rules::ABORTED, 14),
        (Mutant::DecidesAsSettled, one(), rules::SETTLED, 9),
    ]
}

#[test]
fn each_is_caught_by_its_rule_in_the_least_number_of_steps() {
    let mut wrong = Vec::new();
    for (mutant, bounds, rule, steps) in expected() {
        let found = shortest_violation(&bounds.with(mutant), Some(rule), 30);
        let text = match &found {
            Some(found) => found.text(),
            None => "not caught".to_owned(),
        };
        println!("{mutant:?}\n{text}\n");
        let found = found.map(|found| found.steps.len());
        if found != Some(steps) {
            wrong.push(format!("{mutant:?}: {found:?} steps, not {steps}\n{text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn without_the_mistake_none_of_these_ways_is_a_violation() {
    for (mutant, bounds, rule, steps) in expected() {
        let found = shortest_violation(&bounds, Some(rule), steps);
        let text = found.map(|found| found.text());
        assert_eq!(text, None, "where {mutant:?} shows");
    }
}

#[test]
fn every_mistake_is_looked_at() {
    let expected: Vec<Mutant> = expected().iter().map(|(mutant, ..)| *mutant).collect();
    for mutant in Mutant::value_variants() {
        assert!(expected.contains(mutant), "{mutant:?}");
    }
}

#[test]
fn an_exploration_that_sees_too_little_fails() {
    let explored = explore(&Bounds::new(2, 1, 1), Some(8), 1);
    let missed = "everything is committed".to_owned();
    assert!(explored.failures.contains(&missed), "{explored:?}");
}
