//! Rights that are missing, and rights that are taken away.

use std::time::{Duration, Instant};

use cofferdam::{ErrorKind, JobEnd, JobError};

use cofferdam_kafka::TransactionAdmin;

use crate::broker::{PATIENCE, committed, fill, secure, texts, topic, topic_with};
use crate::job::{Work, told, user};
use crate::rules::{Kind, Operation, Pattern, Right, allow, forbid_all};

/// What is to be done about a failed job.
pub fn kind(error: &JobError) -> Option<ErrorKind> {
    match error {
        JobError::Source { cause, .. } => Some(cause.kind()),
        JobError::Sink { cause, .. }
        | JobError::AbortStale { cause, .. }
        | JobError::CommitRefused { cause, .. } => Some(cause.kind()),
        _ => None,
    }
}

/// Whether an error names a right, and what it is about.
fn names(error: &JobError, right: &Right) -> bool {
    let text = told(error);
    let operation = match right.operation {
        Operation::Write => "WRITE",
        _ => "READ",
    };
    let kind = match right.kind {
        Kind::Topic => "topic",
        Kind::Group => "group",
        _ => "transactional id",
    };
    [operation, kind, &right.name]
        .iter()
        .all(|word| text.contains(word))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_right_that_is_missing_is_named() {
    let (broker, all) = (secure(), texts(0..20));
    let input = topic_with(broker, "in", &all).await;
    let rights = Work::new(&input, "").rights().len();
    for missing in 0..rights {
        let work = Work::new(&input, &topic(broker, "out").await);
        let (user, kafka) = user();
        let mut rights = work.rights();
        let right = rights.remove(missing);
        allow(broker, &user, &rights).await;
        let begun = Instant::now();
        let ended = work.job(&kafka, true).run().await;
        if right.kind == Kind::Group && right.pattern == Pattern::Literal {
            // The source's group is for show.
            ended.expect("a job that can't show where it is runs");
            assert_eq!(committed(broker, &work.output), all);
            continue;
        }
        let error = ended.expect_err("a right is missing");
        println!("{right:?}, after {:.1?}: {}", begun.elapsed(), told(&error));
        assert_eq!(
            kind(&error),
            Some(ErrorKind::Configuration),
            "{right:?}: {}",
            told(&error)
        );
        assert!(names(&error, &right), "{right:?}: {}", told(&error));
        assert_eq!(committed(broker, &work.output), Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_look_at_a_transaction_is_told_so_and_finds_none_in_lists() {
    let (_, kafka) = user();
    let admin = TransactionAdmin::new(&kafka);
    assert_eq!(admin.list("cofferdam.").await.expect("a list"), Vec::new());
    let looked = admin.describe("cofferdam.any").await.map(drop);
    for refused in [looked, admin.abort("cofferdam.any").await] {
        let error = refused.expect_err("a right is missing");
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(
            told(&error).contains("TransactionalIdAuthorizationFailed"),
            "{error}"
        );
    }
}

/// Lets a job run, takes rights away, and gives them back to its next run.
async fn loses_nothing_without(taken: fn(&Work) -> Vec<Right>) {
    let broker = secure();
    let input = topic_with(broker, "in", &texts(0..200)).await;
    let work = Work::new(&input, &topic(broker, "out").await);
    let (user, kafka) = user();
    allow(broker, &user, &work.rights()).await;

    let first = tokio::spawn(work.job(&kafka, false).run());
    visible(&work, 200).await;
    forbid_all(broker, &user).await;
    let taken = taken(&work);
    let mut left = work.rights();
    left.retain(|right| !taken.contains(right));
    allow(broker, &user, &left).await;
    fill(broker, &input, &texts(200..400));
    let ended = tokio::time::timeout(PATIENCE, first).await;
    let error = ended
        .expect("it ends")
        .expect("no panic")
        .expect_err("rights are gone");
    println!("{}", told(&error));
    assert_eq!(
        kind(&error),
        Some(ErrorKind::Configuration),
        "{}",
        told(&error)
    );

    allow(broker, &user, &taken).await;
    let second = work.job(&kafka, false);
    let handle = second.handle();
    let second = tokio::spawn(second.run());
    fill(broker, &input, &texts(400..500));
    visible(&work, 500).await;
    handle.stop();
    let report = second.await.expect("no panic").expect("it ends well");
    assert_eq!(report.end, JobEnd::Stopped);
    assert_eq!(committed(broker, &work.output), texts(0..500));
}

async fn visible(work: &Work, records: usize) {
    let until = Instant::now() + PATIENCE;
    while committed(secure(), &work.output).len() < records {
        assert!(Instant::now() < until, "{records} records do not come");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_whose_rights_are_taken_away_loses_nothing() {
    loses_nothing_without(Work::rights_of_sink).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_whose_rights_are_taken_away_loses_nothing() {
    loses_nothing_without(Work::rights_of_source).await;
}
