//! Brokers keep transactions for a limited time.

use std::collections::BTreeSet;

use super::cluster::Relayed;
use super::site::{Site, Start, began};
use super::support::data;
use super::support::model::Variant;
use super::support::victim::eventually;

/// The shortest time that a job takes which tolerates no failed checkpoint.
fn short_lived(timeout: &str) -> Vec<String> {
    let arguments = [
        ("--transaction-timeout", timeout),
        ("--checkpoint-timeout", "1500"),
        ("--tolerable-failures", "0"),
    ];
    let arguments = arguments.into_iter();
    arguments
        .flat_map(|(name, value)| [name.to_owned(), value.to_owned()])
        .collect()
}

fn site(name: &str) -> Site {
    let files = data::generate(61, &[4000, 4000]);
    Site::new(&Relayed::shared().place(), name, &files, Variant::Tumbling)
}

#[test]
fn a_decided_transaction_that_expires_stops_the_job_until_its_loss_is_accepted() {
    let site = site("expiry");
    let start = Start {
        more: short_lived("34000"),
        ..Start::slow()
    };
    // The second checkpoint: the first is visible, and stays so.
    let end = site.run(&start.clone().crash_at("before:commit:3"));
    assert!(end.was_aborted(), "{end:#?}");
    let visible = site.lines();
    let log = site.log();
    let (checkpoint, named) = log.decisions.iter().next_back().expect("a decision");
    let left = site.ongoing();
    assert!(!left.is_empty());
    eventually("the broker's own abort", || site.ongoing().is_empty());

    let (mut accepted, mut lost) = (BTreeSet::new(), 0);
    let report = loop {
        let mut start = Start {
            batch_delay: 0,
            ..start.clone()
        };
        for transaction in &accepted {
            start.more.push("--accept-loss".to_owned());
            start.more.push(String::clone(transaction));
        }
        let end = site.run(&start);
        if end.status.success() {
            break end.report();
        }
        let error = end.error();
        let transaction = named.iter().find(|named| {
            error.contains(&format!(
                "has lost transaction {named} of decided checkpoint {checkpoint}"
            ))
        });
        let transaction = transaction.unwrap_or_else(|| panic!("none of {named:?}: {error}"));
        assert!(
            error.contains("was not committed within 34000 ms"),
            "{error}"
        );
        let hint = format!("accept this loss by name: {transaction}");
        assert!(end.stderr.contains(&hint), "{}", end.stderr);
        let (_, records) = error
            .split_once(&format!("checkpoint {checkpoint}: "))
            .expect("records");
        let (records, _) = records.split_once(" records under").expect("records");
        lost += records.parse::<usize>().expect("a number of records");
        // It is not forgotten by itself.
        assert_eq!(site.run(&start).error(), error);
        assert!(accepted.insert(transaction.clone()), "{error}");
        assert_eq!(site.lines(), visible, "something became visible");
    };
    assert_eq!(report["end"], "Completed");
    println!("accepted: {accepted:?}, {lost} records");
    assert!(!accepted.is_empty() && lost > 0);
    // All but those came out, once.
    let lines = site.lines();
    lines.assert_within(&site.expected, "after a loss");
    let missing = |found: &[String], wanted: &[String]| wanted.len() - found.len();
    let missing =
        missing(&lines.results, &site.expected.results) + missing(&lines.late, &site.expected.late);
    assert_eq!(missing, lost);
    assert!(site.ongoing().is_empty());
    assert_eq!(site.last_stable_offsets(), site.high_watermarks());
}

#[test]
fn a_time_limit_that_the_job_or_the_broker_can_not_keep_is_refused_at_the_start() {
    let site = site("limit");
    for (timeout, words) in [
        // It takes an hour at most.
        ("3600001", &["3600001 ms", "transaction.max.timeout.ms"][..]),
        (
            "30000",
            &["this job can't be started", "keeps a transaction for 30s"],
        ),
    ] {
        let end = site.run(&Start {
            more: short_lived(timeout),
            ..Start::slow()
        });
        for word in words {
            assert!(end.error().contains(word), "{word}: {}", end.error());
        }
        assert!(!began(&end), "{}", end.trace);
    }
    site.complete(1);
    site.assert_exact("refused at first");
}
