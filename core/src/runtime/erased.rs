//! A sink behind one type, with handles as text: all that settles a transaction goes through here, in the process that
//! prepared it as in any other, so nothing can be smuggled past the handle.

use std::sync::Arc;

use async_trait::async_trait;

use crate::capabilities::Capabilities;
use crate::envelope::{self, Kind};
use crate::error::SinkError;
use crate::identity::{JobId, TransactionId};
use crate::sink::{CommitError, Committed, Fence, InDoubt, TwoPhaseCommitSinkFunction, Unfinished};

/// Longest handle that is taken into a checkpoint, in bytes.
const MAX_HANDLE: usize = 1 << 20;

#[async_trait]
pub(crate) trait ErasedSink: Send + Sync {
    fn capabilities(&self) -> Capabilities;
    async fn commit(&self, id: &TransactionId, handle: &str) -> Result<Committed, CommitError>;
    async fn abort(&self, id: &TransactionId, handle: &str) -> Result<(), SinkError>;
    /// Decodes what the fence names, and sweeps.
    async fn abort_stale(&self, fence: &Fence<String>) -> Result<Vec<InDoubt>, SinkError>;
    async fn in_doubt(&self, job: &JobId) -> Result<Vec<InDoubt>, SinkError>;
}

#[async_trait]
impl<S: TwoPhaseCommitSinkFunction> ErasedSink for Arc<S> {
    fn capabilities(&self) -> Capabilities {
        S::capabilities(self)
    }

    async fn commit(&self, id: &TransactionId, handle: &str) -> Result<Committed, CommitError> {
        S::commit(self, id, &decode::<S::Prepared>(id, handle)?).await
    }

    async fn abort(&self, id: &TransactionId, handle: &str) -> Result<(), SinkError> {
        let prepared = decode::<S::Prepared>(id, handle)?;
        S::abort(self, Unfinished::Prepared(id.clone(), prepared)).await
    }

    async fn abort_stale(&self, fence: &Fence<String>) -> Result<Vec<InDoubt>, SinkError> {
        let decided = fence
            .decided
            .iter()
            .map(|(id, handle)| Ok((id.clone(), decode::<S::Prepared>(id, handle)?)))
            .collect::<Result<_, SinkError>>()?;
        S::abort_stale(self, &fence.with_decided(decided)).await
    }

    async fn in_doubt(&self, job: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        S::in_doubt(self, job).await
    }
}

/// Encodes a handle in its stored form, and decodes it again: a handle that its stored form can't hold (a NaN in JSON, for
/// one) is refused before the vote. Found after the decision, it would block every start of the job.
pub(crate) fn encode<P: serde::Serialize + serde::de::DeserializeOwned>(
    id: &TransactionId,
    prepared: &P,
) -> Result<String, SinkError> {
    let refuse =
        |why: String| SinkError::rejected(format!("the handle of {id} can't be stored: {why}"));
    let content = serde_json::to_vec(prepared).map_err(|error| refuse(error.to_string()))?;
    if content.len() > MAX_HANDLE {
        return Err(refuse(format!(
            "it has {} bytes, more than {MAX_HANDLE}",
            content.len()
        )));
    }
    let decoded: P = serde_json::from_slice(&content)
        .map_err(|error| refuse(format!("it can't be read back: {error}")))?;
    let again = serde_json::to_vec(&decoded).map_err(|error| refuse(error.to_string()))?;
    if again != content {
        return Err(refuse(
            "what is read back is another handle than was written".to_owned(),
        ));
    }
    // Header and JSON are both text.
    String::from_utf8(envelope::seal(Kind::Handle, &content))
        .map_err(|error| refuse(error.to_string()))
}

fn decode<P: serde::de::DeserializeOwned>(
    id: &TransactionId,
    handle: &str,
) -> Result<P, SinkError> {
    let refuse = |why: String| {
        SinkError::configuration(format!("the handle of {id} can't be read: {why}"))
            .hint("run the program that wrote it, or a newer one")
    };
    let content = envelope::open(Kind::Handle, handle.as_bytes());
    let content = content.map_err(|error| refuse(error.to_string()))?;
    serde_json::from_slice(content).map_err(|error| refuse(error.to_string()))
}
