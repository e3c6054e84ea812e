//! The reference sink behind the proxy: every answer of every call is lost in turn.

use cofferdam::{
    CheckpointId, CommitError, Committed, Epoch, ErrorKind, Fence, JobId, SinkError, SinkId,
    SubtaskIndex, TransactionId, TwoPhaseCommitSinkFunction,
};

use crate::factory::Factory;
use crate::observer::Observer;
use crate::reference::{
    ReferenceFactory, ReferenceHandle, ReferencePlace, ReferenceRecord, ReferenceSink,
};
use crate::wrappers::proxy::Proxy;

type Sink = ReferenceSink<ReferenceRecord>;

fn id(epoch: u64) -> TransactionId {
    TransactionId {
        job: JobId::new("orders").unwrap(),
        sink: SinkId::new("rows").unwrap(),
        epoch: Epoch(epoch),
        subtask: SubtaskIndex(0),
        checkpoint: CheckpointId(1),
    }
}

async fn prepare(sink: &Sink, id: &TransactionId) -> Result<Option<ReferenceHandle>, SinkError> {
    let mut transaction = sink.begin(id).await?;
    let records = (0..40).map(|number| ReferenceRecord::Text(number.to_string()));
    sink.write(&mut transaction, records.collect()).await?;
    sink.pre_commit(transaction).await
}

async fn site() -> (ReferencePlace, Proxy) {
    let place = ReferenceFactory.place().await.unwrap();
    let proxy = Proxy::start(place.endpoint().unwrap()).await.unwrap();
    (place, proxy)
}

#[tokio::test]
async fn a_lost_answer_before_pre_commit_leaves_nothing_behind() {
    let (place, proxy) = site().await;
    let open = || ReferenceFactory.open_through(&place, proxy.address());
    let sink = open().await.unwrap();
    prepare(&sink, &id(1)).await.unwrap();
    let answers = proxy.answers();
    assert!(answers >= 6, "login, fence, begin, three flushes, prepare");
    for number in 1..=answers {
        let sink = open().await.unwrap();
        proxy.swallow_answer(number);
        let error = prepare(&sink, &id(number + 1)).await.unwrap_err();
        assert!(!proxy.is_armed());
        // Before the login is answered, nothing was asked.
        let expected = if number == 1 {
            ErrorKind::Transient
        } else {
            ErrorKind::Unknown
        };
        assert_eq!(error.kind(), expected, "answer {number}: {error}");
        let fence = Fence::new(id(1).job, id(1).sink, Epoch(number + 2));
        sink.abort_stale(&fence).await.unwrap();
        assert!(place.leftovers().await.unwrap().is_empty());
    }
    assert!(place.visible().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_lost_answer_of_a_commit_is_resolved_by_the_next() {
    let (place, proxy) = site().await;
    // Answers of a second commit: login, commit, ledger.
    for (number, then) in [(1, Committed::Now), (2, Committed::Before)] {
        let id = id(number);
        let handle = prepare(&ReferenceFactory.open(&place).await.unwrap(), &id).await;
        let handle = handle.unwrap().unwrap();
        let sink = ReferenceFactory
            .open_through(&place, proxy.address())
            .await
            .unwrap();
        proxy.swallow_answer(number);
        let lost = sink.commit(&id, &handle).await.unwrap_err();
        assert!(matches!(lost, CommitError::NotYet(_)), "{lost}");
        assert_eq!(sink.commit(&id, &handle).await.unwrap(), then);
        proxy.swallow_answer(2);
        let lost = sink.commit(&id, &handle).await.unwrap_err();
        assert!(matches!(lost, CommitError::NotYet(_)), "{lost}");
        assert_eq!(sink.commit(&id, &handle).await.unwrap(), Committed::Before);
        assert_eq!(
            place.visible().await.unwrap().len(),
            40 * usize::try_from(number).unwrap()
        );
    }
}
