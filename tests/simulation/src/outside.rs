//! The outside system of one sink: the reference sink in memory, sound or with a flaw.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cofferdam::memory::{MemoryHandle, MemorySink, MemoryTransaction};
use cofferdam::{
    CommitError, Committed, Epoch, Fence, InDoubt, JobId, SinkError, TransactionId,
    TwoPhaseCommitSinkFunction, Unfinished,
};

use crate::flaw::Flaw;

/// A record, and the transaction that wrote it.
pub type Written = (TransactionId, u64);

/// The outside system of one sink. Clones are the same system.
#[derive(Debug, Clone)]
pub struct Outside {
    sink: MemorySink<Written>,
    flaw: Option<Flaw>,
    spoilt: Arc<Mutex<Spoilt>>,
}

/// What only a flaw brings about.
#[derive(Debug, Default)]
struct Spoilt {
    /// Visible besides.
    extra: Vec<Written>,
    /// Prepared and committed, and not visible.
    hidden: BTreeSet<TransactionId>,
    /// What a transaction holds, to show it again.
    copies: Vec<(TransactionId, Vec<Written>)>,
}

/// An open transaction.
#[derive(Debug)]
pub struct OpenTransaction {
    id: TransactionId,
    inner: MemoryTransaction<Written>,
    last: Vec<Written>,
}

impl OpenTransaction {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &TransactionId {
        &self.id
    }
}

impl Outside {
    /// An empty system.
    #[must_use]
    pub fn new(flaw: Option<Flaw>) -> Self {
        Self {
            sink: MemorySink::new(),
            flaw,
            spoilt: Arc::default(),
        }
    }

    fn spoilt(&self) -> MutexGuard<'_, Spoilt> {
        self.spoilt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// All that a reader sees.
    #[must_use]
    pub fn visible(&self) -> Vec<Written> {
        let mut visible = self.sink.visible();
        if self.flaw.is_some() {
            let spoilt = self.spoilt();
            visible.retain(|(id, _)| !spoilt.hidden.contains(id));
            visible.extend(spoilt.extra.iter().cloned());
        }
        visible
    }

    /// A process has died.
    pub fn process_died(&self) {
        if !self.is(Flaw::UnknownIsDone) {
            return;
        }
        let Some((id, _)) = self.spoilt().copies.first().cloned() else {
            return;
        };
        let all = Fence::new(id.job, id.sink, Epoch(u64::MAX));
        // Nothing in it waits.
        let _gone = now(self.sink.abort_stale(&all));
    }

    /// See [`TwoPhaseCommitSinkFunction::begin`].
    ///
    /// # Errors
    /// As there.
    pub async fn begin(&self, id: &TransactionId) -> Result<OpenTransaction, SinkError> {
        Ok(OpenTransaction {
            id: id.clone(),
            inner: self.sink.begin(id).await?,
            last: Vec::new(),
        })
    }

    /// See [`TwoPhaseCommitSinkFunction::write`].
    ///
    /// # Errors
    /// As there.
    pub async fn write(
        &self,
        transaction: &mut OpenTransaction,
        records: &[u64],
    ) -> Result<(), SinkError> {
        let written = records
            .iter()
            .map(|record| (transaction.id.clone(), *record))
            .collect();
        let before = std::mem::replace(&mut transaction.last, written);
        self.sink.write(&mut transaction.inner, before).await
    }

    /// See [`TwoPhaseCommitSinkFunction::pre_commit`].
    ///
    /// # Errors
    /// As there.
    pub async fn pre_commit(
        &self,
        transaction: OpenTransaction,
    ) -> Result<Option<MemoryHandle>, SinkError> {
        let OpenTransaction {
            id,
            mut inner,
            last,
        } = transaction;
        if matches!(self.flaw, Some(Flaw::AppendsOnRetry | Flaw::UnknownIsDone)) {
            self.spoilt().copies.push((id.clone(), last.clone()));
        }
        if !self.is(Flaw::ForgetsLastBatch) || last.len() == 1 {
            self.sink.write(&mut inner, last).await?;
        }
        let handle = self.sink.pre_commit(inner).await?;
        if self.is(Flaw::CommitsInPreCommit)
            && let Some(handle) = &handle
        {
            let _shown = self.sink.commit(&id, handle).await;
        }
        Ok(handle)
    }

    /// See [`TwoPhaseCommitSinkFunction::commit`].
    ///
    /// # Errors
    /// As there.
    pub async fn commit(
        &self,
        id: &TransactionId,
        handle: &MemoryHandle,
    ) -> Result<Committed, CommitError> {
        if self.is(Flaw::CommitsNothing) && id.checkpoint.0.is_multiple_of(3) {
            self.spoilt().hidden.insert(id.clone());
        }
        let committed = self.sink.commit(id, handle).await;
        match (self.flaw, &committed) {
            (Some(Flaw::AppendsOnRetry), Ok(Committed::Before)) => {
                let mut spoilt = self.spoilt();
                let copies = spoilt.copies.iter().filter(|(copied, _)| copied == id);
                let again: Vec<Written> = copies.flat_map(|(_, records)| records.clone()).collect();
                spoilt.extra.extend(again);
            }
            (Some(Flaw::UnknownIsDone), Err(CommitError::Lost(_))) => return Ok(Committed::Before),
            (Some(Flaw::ShowsInParts), Ok(Committed::Now)) => {
                let ours: Vec<Written> = (self.sink.visible().into_iter())
                    .filter(|(writer, _)| writer == id)
                    .collect();
                let mut spoilt = self.spoilt();
                // What was shown in part comes out in full; this one in part.
                let hidden = std::mem::take(&mut spoilt.hidden);
                spoilt.extra.retain(|(writer, _)| !hidden.contains(writer));
                if ours.len() > 1 {
                    spoilt.extra.extend(ours.into_iter().take(1));
                    spoilt.hidden.insert(id.clone());
                }
            }
            _ => {}
        }
        committed
    }

    /// See [`TwoPhaseCommitSinkFunction::abort`].
    ///
    /// # Errors
    /// As there.
    pub async fn abort(
        &self,
        unfinished: Unfinished<OpenTransaction, MemoryHandle>,
    ) -> Result<(), SinkError> {
        let unfinished = match unfinished {
            Unfinished::Open(id, open) => Unfinished::Open(id, open.inner),
            Unfinished::Prepared(id, handle) => Unfinished::Prepared(id, handle),
        };
        self.sink.abort(unfinished).await
    }

    /// See [`TwoPhaseCommitSinkFunction::abort_stale`].
    ///
    /// # Errors
    /// As there.
    pub async fn abort_stale(
        &self,
        fence: &Fence<MemoryHandle>,
    ) -> Result<Vec<InDoubt>, SinkError> {
        match self.flaw {
            Some(Flaw::NeverAbortsStale) => Ok(Vec::new()),
            Some(Flaw::AbortsNewerEpochs) => {
                let mut fence = fence.clone();
                fence.epoch = Epoch(u64::MAX);
                self.sink.abort_stale(&fence).await
            }
            _ => self.sink.abort_stale(fence).await,
        }
    }

    /// See [`TwoPhaseCommitSinkFunction::in_doubt`].
    ///
    /// # Errors
    /// As there.
    pub async fn in_doubt(&self, job: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        self.sink.in_doubt(job).await
    }
}

/// The result of a future that never waits.
fn now<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(result) => Some(result),
        std::task::Poll::Pending => None,
    }
}
