//! Handles that their stored form can't hold.

use std::fmt::Debug;

use cofferdam::memory::MemorySource;
use cofferdam::{
    Capabilities, CommitError, Committed, Fence, InDoubt, JobError, JobId, MemoryCheckpointStore,
    NoEventTime, Pipeline, SinkError, TransactionId, TwoPhaseCommitSinkFunction, Unfinished,
    async_trait,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

/// A sink whose transactions have this handle.
#[derive(Debug)]
struct HasHandle<H>(H);

#[async_trait]
impl<H: Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static>
    TwoPhaseCommitSinkFunction for HasHandle<H>
{
    type Input = u64;
    type Transaction = ();
    type Prepared = H;

    fn capabilities(&self) -> Capabilities {
        Capabilities::TRANSACTIONAL
    }

    async fn begin(&self, _: &TransactionId) -> Result<(), SinkError> {
        Ok(())
    }

    async fn write(&self, (): &mut (), _: Vec<u64>) -> Result<(), SinkError> {
        Ok(())
    }

    async fn pre_commit(&self, (): ()) -> Result<Option<H>, SinkError> {
        Ok(Some(self.0.clone()))
    }

    async fn commit(&self, _: &TransactionId, _: &H) -> Result<Committed, CommitError> {
        Ok(Committed::Now)
    }

    async fn abort(&self, _: Unfinished<(), H>) -> Result<(), SinkError> {
        Ok(())
    }

    async fn abort_stale(&self, _: &Fence<H>) -> Result<Vec<InDoubt>, SinkError> {
        Ok(Vec::new())
    }

    async fn in_doubt(&self, _: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        Ok(Vec::new())
    }
}

/// A handle that is read as another than was written.
#[derive(Debug, Clone, Serialize)]
struct Forgetful(u64);

impl<'de> Deserialize<'de> for Forgetful {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(|_| Self(0))
    }
}

async fn refused<H: Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static>(
    handle: H,
    expected: &str,
) {
    let store = MemoryCheckpointStore::new();
    for _ in 0..2 {
        // Refused by each start alike: nothing was decided that could block the next.
        let error = Pipeline::new("job")
            .source("numbers", MemorySource::new([vec![1]]), NoEventTime)
            .sink("sink", HasHandle(handle.clone()))
            .job(store.clone())
            .run()
            .await
            .unwrap_err();
        let text = format!("{error}");
        let pre_commit = matches!(
            error,
            JobError::Sink {
                action: "pre-commit",
                ..
            }
        );
        assert!(pre_commit && text.contains(expected), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handle_that_its_stored_form_cannot_hold_is_refused_before_the_vote() {
    refused(f64::NAN, "can't be read back").await;
    refused((1_u8, [f32::INFINITY]), "can't be read back").await;
    refused(Forgetful(7), "another handle than was written").await;
}
