//! The suite, on a staging store that publishes by a copy: at each await something is in two places.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cofferdam::{SinkError, StagedSink, StagingStore, TransactionId, async_trait};
use cofferdam_conformance::{
    Factory, GoldenHandle, Observer, Reality, Row, Trouble, conformance_tests,
};
use tokio::task::yield_now;

type Objects = BTreeMap<String, Vec<String>>;

/// Objects of two prefixes, as a bucket has them. Clones share what they hold.
#[derive(Debug, Clone, Default)]
struct Bucket {
    staged: Arc<Mutex<Objects>>,
    published: Arc<Mutex<Objects>>,
}

fn lock(objects: &Mutex<Objects>) -> MutexGuard<'_, Objects> {
    objects.lock().unwrap_or_else(PoisonError::into_inner)
}

fn names(objects: &Mutex<Objects>, prefix: &str) -> Vec<String> {
    let names = lock(objects);
    let names = names.keys().filter(|name| name.starts_with(prefix));
    names.cloned().collect()
}

#[async_trait]
impl StagingStore for Bucket {
    type Input = String;

    fn location(&self) -> String {
        "the bucket".to_owned()
    }

    async fn stage(&self, name: &str, records: Vec<String>) -> Result<(), SinkError> {
        yield_now().await;
        lock(&self.staged).insert(name.to_owned(), records);
        yield_now().await;
        Ok(())
    }

    async fn publish(&self, name: &str) -> Result<bool, SinkError> {
        yield_now().await;
        let Some(records) = lock(&self.staged).get(name).cloned() else {
            return Ok(false);
        };
        yield_now().await;
        let before = lock(&self.published).insert(name.to_owned(), records);
        yield_now().await;
        lock(&self.staged).remove(name);
        yield_now().await;
        Ok(before.is_none())
    }

    async fn discard(&self, name: &str) -> Result<(), SinkError> {
        yield_now().await;
        lock(&self.staged).remove(name);
        yield_now().await;
        Ok(())
    }

    async fn staged(&self, prefix: &str) -> Result<Vec<String>, SinkError> {
        yield_now().await;
        Ok(names(&self.staged, prefix))
    }

    async fn published(&self, prefix: &str) -> Result<Vec<String>, SinkError> {
        yield_now().await;
        Ok(names(&self.published, prefix))
    }
}

#[derive(Debug, Default)]
struct Buckets;

#[async_trait]
impl Factory for Buckets {
    type Sink = StagedSink<Bucket>;
    type Place = Bucket;

    fn name(&self) -> String {
        "staging store".to_owned()
    }

    fn reality(&self) -> Reality {
        Reality::Simulated
    }

    async fn place(&self) -> Result<Bucket, Trouble> {
        Ok(Bucket::default())
    }

    async fn open(&self, place: &Bucket) -> Result<Self::Sink, Trouble> {
        Ok(StagedSink::new(place.clone()))
    }

    fn record(&self, text: &str) -> String {
        text.to_owned()
    }

    fn golden_handles(&self) -> Vec<GoldenHandle> {
        vec![GoldenHandle {
            version: "0.1.0".to_owned(),
            json: r#"{"records":3}"#.to_owned(),
        }]
    }
}

#[async_trait]
impl Observer for Bucket {
    async fn visible(&self) -> Result<Vec<Row>, Trouble> {
        let published = lock(&self.published);
        let rows = published.iter().flat_map(|(name, texts)| {
            texts.iter().map(|text| Row {
                text: text.clone(),
                lane: Some(name.clone()),
            })
        });
        Ok(rows.collect())
    }

    async fn leftovers(&self) -> Result<Vec<String>, Trouble> {
        Ok(names(&self.staged, ""))
    }

    async fn lose(&self, transaction: &TransactionId) -> Result<(), Trouble> {
        lock(&self.staged).remove(&transaction.dotted());
        Ok(())
    }
}

/// A store in which publishing was cut off after the copy.
#[tokio::test]
async fn a_copy_that_is_still_staged_is_committed_and_not_in_doubt() {
    use cofferdam::{Epoch, ErrorKind, Fence, TwoPhaseCommitSinkFunction, Unfinished};

    let bucket = Bucket::default();
    let id: TransactionId = "job/sink/1/0/1".parse().expect("an id");
    let records = vec!["record".to_owned()];
    lock(&bucket.staged).insert(id.dotted(), records.clone());
    lock(&bucket.published).insert(id.dotted(), records);
    let sink = StagedSink::new(bucket.clone());
    assert_eq!(sink.in_doubt(&id.job).await.expect("a list"), []);
    let handle = serde_json::from_str(r#"{"records":1}"#).expect("a handle");
    let aborted = sink.abort(Unfinished::Prepared(id.clone(), handle)).await;
    assert_eq!(aborted.expect_err("published").kind(), ErrorKind::Rejected);
    let mut fence = Fence::new(id.job.clone(), id.sink.clone(), Epoch(2));
    fence.newest = Some(id.checkpoint);
    assert_eq!(sink.abort_stale(&fence).await.expect("a sweep"), []);
    assert_eq!(names(&bucket.staged, ""), Vec::<String>::new());
    assert_eq!(names(&bucket.published, ""), [id.dotted()]);
}

/// Another process that has the same epoch, from another checkpoint log.
#[tokio::test]
async fn work_of_another_process_under_one_id_is_not_replaced() {
    use cofferdam::{ErrorKind, TwoPhaseCommitSinkFunction};

    let bucket = Bucket::default();
    let id: TransactionId = "job/sink/1/0/1".parse().expect("an id");
    let sink = StagedSink::new(bucket.clone());
    for (record, refused) in [("first", None), ("second", Some(ErrorKind::Fenced))] {
        let mut open = sink.begin(&id).await.expect("open");
        let records = vec![record.to_owned()];
        sink.write(&mut open, records).await.expect("written");
        let prepared = sink.pre_commit(open).await;
        assert_eq!(
            prepared.err().map(|error| error.kind()),
            refused,
            "{record}"
        );
    }
    assert_eq!(lock(&bucket.staged)[&id.dotted()], ["first"]);
}

conformance_tests!(Buckets);
