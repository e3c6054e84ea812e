//! Takeovers, decisions, retention.

use std::collections::BTreeSet;

use tokio::task::JoinSet;

use super::super::{DirectoryCheckpointStore, read_state};
use super::faulty::{Fault, Lossy, Slow};
use super::*;
use crate::identity::Epoch;

async fn eight_race_for_the_job(store: Arc<dyn CheckpointStore>) {
    let mut racing = JoinSet::new();
    for _ in 0..8 {
        let store = Arc::clone(&store);
        racing.spawn(async move { take_over(&store).await });
    }
    let mut logs = racing.join_all().await;
    let epochs: BTreeSet<Epoch> = logs.iter().map(CheckpointLog::epoch).collect();
    assert_eq!(epochs.len(), 8, "two runs share an epoch: {epochs:?}");
    let mut holders = Vec::new();
    for log in &mut logs {
        let own = log.epoch();
        match log.decide(&manifest(own.0)).await.unwrap() {
            Written::Done => holders.push(own),
            Written::Fenced { by, .. } => assert!(by > own, "epoch {own} is fenced by {by}"),
        }
    }
    assert_eq!(
        holders,
        [*epochs.last().unwrap()],
        "the newest epoch, and it alone, holds the job"
    );
    let (_, kept) = recover(&store).await;
    assert_eq!(kept, [holders[0].0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_eight_that_race_for_a_job_one_holds_it() {
    for _ in 0..20 {
        eight_race_for_the_job(memory()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_eight_that_race_for_a_directory_one_holds_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = DirectoryCheckpointStore::open(folder.path()).unwrap();
    eight_race_for_the_job(Arc::new(store)).await;
}

#[tokio::test]
async fn after_a_takeover_the_older_epoch_decides_nothing() {
    let store = memory();
    let mut old = take_over(&store).await;
    decide(&mut old, 1).await;
    let (mut new, kept) = recover(&store).await;
    assert_eq!(kept, [1]);
    assert_eq!(
        old.decide(&manifest(2)).await.unwrap(),
        Written::Fenced {
            by: Epoch(2),
            unwritten: true
        }
    );
    decide(&mut new, 2).await;
    assert_eq!(
        old.decide(&manifest(2)).await.unwrap(),
        Written::Fenced {
            by: Epoch(2),
            unwritten: true
        }
    );
    assert_eq!(recover(&store).await.1, [1, 2]);
}

#[tokio::test]
async fn a_takeover_whose_answer_was_lost_is_recognised() {
    for (fault, records) in [(Fault::AppliedUnanswered, 1), (Fault::NotApplied, 1)] {
        let memory = MemoryCheckpointStore::new();
        let store: Arc<dyn CheckpointStore> = Arc::new(Lossy::new(&memory, [fault]));
        let nonce = Nonce::random();
        let first = CheckpointLog::take_over(Arc::clone(&store), job(), nonce.clone()).await;
        assert!(first.unwrap_err().is_retriable());
        let mut log = CheckpointLog::take_over(Arc::clone(&store), job(), nonce)
            .await
            .unwrap();
        assert_eq!(log.epoch(), Epoch(1), "{fault:?}");
        assert_eq!(
            store.list("log/").await.unwrap().len(),
            records,
            "{fault:?}"
        );
        decide(&mut log, 1).await;
    }
}

#[tokio::test]
async fn a_decision_whose_answer_was_lost_is_recognised() {
    for fault in [Fault::AppliedUnanswered, Fault::NotApplied] {
        let memory = MemoryCheckpointStore::new();
        let clean: Arc<dyn CheckpointStore> = Arc::new(memory.clone());
        let lossy = Arc::new(Lossy::new(&memory, []));
        let mut log = take_over(&(Arc::clone(&lossy) as Arc<dyn CheckpointStore>)).await;
        decide(&mut log, 1).await;
        lossy.lose_next(fault);
        assert!(log.decide(&manifest(2)).await.unwrap_err().is_retriable());
        decide(&mut log, 2).await;
        decide(&mut log, 3).await;
        assert_eq!(clean.list("log/").await.unwrap().len(), 4, "{fault:?}");
        assert_eq!(recover(&clean).await.1, [1, 2, 3], "{fault:?}");
    }
}

#[tokio::test]
async fn a_decision_whose_answer_was_lost_is_not_taken_for_another_runs() {
    let memory = MemoryCheckpointStore::new();
    let lossy = Arc::new(Lossy::new(&memory, []));
    let store = Arc::clone(&lossy) as Arc<dyn CheckpointStore>;
    let mut old = take_over(&store).await;
    lossy.lose_next(Fault::NotApplied);
    assert!(old.decide(&manifest(1)).await.is_err());
    let (mut new, kept) = recover(&store).await;
    assert!(kept.is_empty());
    decide(&mut new, 1).await;
    assert_eq!(
        old.decide(&manifest(1)).await.unwrap(),
        Written::Fenced {
            by: Epoch(2),
            unwritten: false
        }
    );
}

/// A zombie finds its next number free again, since the record that fenced it was deleted.
#[tokio::test]
async fn a_decision_written_into_a_gap_does_not_count_and_is_never_read() {
    let store = memory();
    let mut zombie = take_over(&store).await;
    let (mut second, _) = recover(&store).await;
    assert_eq!(
        second
            .decide(&with_state(&store, &second, 1).await)
            .await
            .unwrap(),
        Written::Done
    );
    // The third run deletes the takeovers before it: number 2 is free.
    let (mut third, kept) = recover(&store).await;
    assert_eq!(kept, [1]);
    assert_eq!(store.read(&record(2)).await.unwrap(), None);
    let late = zombie.decide(&manifest(1)).await.unwrap();
    assert_eq!(
        late,
        Written::Fenced {
            by: Epoch(3),
            unwritten: false
        }
    );
    assert!(
        store.read(&record(2)).await.unwrap().is_some(),
        "it was written into the gap"
    );
    decide(&mut third, 2).await;
    let mut fourth = take_over(&store).await;
    let Decisions { newest, kept, .. } = fourth.recover().await.unwrap();
    assert_eq!(newest.unwrap(), manifest(2));
    assert_eq!(kept, [CheckpointId(1), CheckpointId(2)]);
    assert_eq!(store.read(&record(2)).await.unwrap(), None, "swept");
    assert!(
        store.read(&record(3)).await.unwrap().is_some(),
        "the decision of the second run"
    );
}

/// A process lists the log, sleeps, and writes its takeover where a decision was that has been retired since.
#[tokio::test]
async fn a_takeover_written_into_a_gap_does_not_hide_what_is_decided() {
    let memory = MemoryCheckpointStore::new();
    let store: Arc<dyn CheckpointStore> = Arc::new(memory.clone());
    let slow = Arc::new(Slow::new(&memory));
    let mut holder = take_over(&store).await;
    let sleeper = CheckpointLog::take_over(
        Arc::clone(&slow) as Arc<dyn CheckpointStore>,
        job(),
        Nonce::random(),
    );
    let works_on = async {
        // The sleeper has listed the log, and is about to write number 2.
        slow.waiting.acquire().await.unwrap().forget();
        for checkpoint in 1..=3 {
            decide(&mut holder, checkpoint).await;
        }
        holder.retire(CheckpointId(1)).await.unwrap();
        slow.let_through.add_permits(2);
    };
    let (sleeper, ()) = tokio::join!(sleeper, works_on);
    let mut sleeper = sleeper.unwrap();
    assert!(
        store.read(&record(2)).await.unwrap().is_some(),
        "it was written into the gap"
    );
    assert_eq!(sleeper.epoch(), Epoch(2));
    let Decisions { newest, kept, .. } = sleeper.recover().await.unwrap();
    assert_eq!(newest.unwrap(), manifest(3));
    assert_eq!(kept, [CheckpointId(2), CheckpointId(3)]);
    assert_eq!(store.read(&record(2)).await.unwrap(), None, "swept");
    assert_eq!(
        holder.decide(&manifest(4)).await.unwrap(),
        Written::Fenced {
            by: Epoch(2),
            unwritten: true
        }
    );
}

#[tokio::test]
async fn retiring_deletes_record_and_state_and_keeps_the_newest() {
    let store = memory();
    let mut log = take_over(&store).await;
    let mut parts = Vec::new();
    for checkpoint in 1..=3 {
        let manifest = with_state(&store, &log, checkpoint).await;
        parts.push(manifest.state[0].clone());
        assert_eq!(log.decide(&manifest).await.unwrap(), Written::Done);
    }
    for checkpoint in [1, 2, 2, 9] {
        log.retire(CheckpointId(checkpoint)).await.unwrap();
    }
    assert_eq!(
        store.list("state/").await.unwrap(),
        [parts[2].object.clone()]
    );
    assert_eq!(read_state(&*store, &parts[2]).await.unwrap(), b"state");
    assert_eq!(recover(&store).await.1, [3]);
    // Takeovers alone, one after another, leave the newest decision alone.
    for _ in 0..3 {
        assert_eq!(recover(&store).await.1, [3]);
    }
    assert_eq!(
        store.list("log/").await.unwrap().len(),
        2,
        "one decision, one takeover"
    );
}

#[tokio::test]
async fn recovery_sweeps_state_that_no_decision_names_of_older_epochs_only() {
    let store = memory();
    let mut first = take_over(&store).await;
    let named = with_state(&store, &first, 1).await;
    assert_eq!(first.decide(&named).await.unwrap(), Written::Done);
    let dropped = part(&store, &first, 2).await;
    let mut second = take_over(&store).await;
    let own = part(&store, &second, 3).await;
    let newer = part(&store, &take_over(&store).await, 4).await;
    let _kept = second.recover().await.unwrap();
    let left = store.list("state/").await.unwrap();
    assert_eq!(
        left,
        [named.state[0].object.clone(), own.object, newer.object]
    );
    assert!(!left.contains(&dropped.object));
}

#[tokio::test]
async fn names_that_are_not_of_the_log_are_left_alone() {
    let store = memory();
    for name in ["log/notes.txt", "log/7.json", "state/notes"] {
        assert_eq!(
            store.create(name, Vec::new()).await.unwrap(),
            crate::Create::Created
        );
    }
    let (mut log, _) = recover(&store).await;
    decide(&mut log, 1).await;
    let (log, _) = recover(&store).await;
    assert_eq!(log.epoch(), Epoch(2));
    for name in ["log/notes.txt", "log/7.json", "state/notes"] {
        assert!(store.read(name).await.unwrap().is_some(), "{name}");
    }
}

/// Reads whether the newest decision is recorded as settled, as the next run does.
async fn is_settled(store: &Arc<dyn CheckpointStore>) -> bool {
    take_over(store).await.recover().await.unwrap().settled
}

#[tokio::test]
async fn a_settled_record_counts_for_the_newest_decision_alone() {
    let store = memory();
    assert!(!is_settled(&store).await, "nothing is decided");
    let (mut log, _) = recover(&store).await;
    decide(&mut log, 1).await;
    assert_eq!(
        log.settle(CheckpointId(1), &[]).await.unwrap(),
        Written::Done
    );
    // Also behind takeovers, which delete the record itself.
    for _ in 0..3 {
        assert!(is_settled(&store).await);
    }
    let (mut log, _) = recover(&store).await;
    decide(&mut log, 2).await;
    assert!(!is_settled(&store).await, "2 is decided and not settled");
}

#[tokio::test]
async fn a_decision_carries_what_is_settled_and_does_not_settle_itself() {
    let store = memory();
    let mut log = take_over(&store).await;
    decide(&mut log, 1).await;
    log.note_settled(CheckpointId(1));
    decide(&mut log, 2).await;
    assert!(!is_settled(&store).await);
    let mut log = take_over(&store).await;
    log.note_settled(CheckpointId(2));
    assert!(!is_settled(&store).await, "nothing was written");
}

#[tokio::test]
async fn a_settled_record_whose_answer_was_lost_is_recognised_and_takes_no_decisions_place() {
    for fault in [Fault::AppliedUnanswered, Fault::NotApplied] {
        for then_settle in [true, false] {
            let memory = MemoryCheckpointStore::new();
            let clean: Arc<dyn CheckpointStore> = Arc::new(memory.clone());
            let lossy = Arc::new(Lossy::new(&memory, []));
            let mut log = take_over(&(Arc::clone(&lossy) as Arc<dyn CheckpointStore>)).await;
            decide(&mut log, 1).await;
            lossy.lose_next(fault);
            assert!(log.settle(CheckpointId(1), &[]).await.is_err());
            if then_settle {
                let settled = log.settle(CheckpointId(1), &[]).await.unwrap();
                assert_eq!(settled, Written::Done);
            }
            decide(&mut log, 2).await;
            assert_eq!(
                recover(&clean).await.1,
                [1, 2],
                "{fault:?}, settled again: {then_settle}"
            );
        }
    }
}

#[tokio::test]
async fn after_a_takeover_the_older_epoch_records_nothing_as_settled() {
    let store = memory();
    let mut old = take_over(&store).await;
    decide(&mut old, 1).await;
    let mut new = take_over(&store).await;
    let settled = old.settle(CheckpointId(1), &[]).await.unwrap();
    let fenced = Written::Fenced {
        by: Epoch(2),
        unwritten: true,
    };
    assert_eq!(settled, fenced);
    assert!(!new.recover().await.unwrap().settled);
}

#[tokio::test]
async fn settled_records_do_not_pile_up() {
    let store = memory();
    let mut log = take_over(&store).await;
    for checkpoint in 1..=20 {
        decide(&mut log, checkpoint).await;
        let checkpoint = CheckpointId(checkpoint);
        assert_eq!(log.settle(checkpoint, &[]).await.unwrap(), Written::Done);
        log.retire(CheckpointId(checkpoint.0 - 1)).await.unwrap();
    }
    let records = store.list("log/").await.unwrap().len();
    assert!(
        records <= 5,
        "{records} records for one checkpoint that is kept"
    );
    assert_eq!(recover(&store).await.1, [20]);
}
