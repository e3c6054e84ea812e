//! Errors of the wrong kind, and aborts and lists that are not true.

use cofferdam::{
    CommitError, Committed, ErrorKind, InDoubt, JobId, SinkError, TransactionId, Unfinished,
    async_trait,
};

use super::bug::{Bug, Call, NotedHandle, Sink, bug};
use crate::reference::{OpenTransaction, ReferenceHandle, Request};

/// The same error, but of one kind instead of another.
fn as_kind(from: ErrorKind, to: ErrorKind, error: SinkError) -> SinkError {
    if error.kind() == from {
        SinkError::new(to, error.to_string()).caused_by(error)
    } else {
        error
    }
}

bug! {
    /// Takes an answer that did not come for a no.
    NoAnswerIsNo, "M39",
    seen: "Materialize 30508: a socket timeout taken for the failure of what was asked",
    caught_by: ["LIV-5", "IDE-7"]
}

#[async_trait]
impl Bug for NoAnswerIsNo {
    // Keeps its own, to see what comes of it.
    fn has_deadline(&self, call: Call) -> bool {
        call != Call::Commit
    }

    async fn commit(
        &self,
        sink: &Sink,
        id: &TransactionId,
        prepared: &NotedHandle,
    ) -> Result<Committed, CommitError> {
        let settle = async {
            match sink.settle(id, &prepared.handle).await {
                Err(CommitError::NotYet(error)) => Ok(Err(error)),
                settled => Ok(Ok(settled)),
            }
        };
        match sink.client.within(settle).await {
            Ok(Ok(settled)) => settled,
            Ok(Err(error)) | Err(error) => {
                Err(as_kind(ErrorKind::Unknown, ErrorKind::Transient, error).into())
            }
        }
    }
}

bug! {
    /// Reports a fence as something that passes: the zombie tries for ever, and does not stop.
    FencedIsTransient, "M46",
    seen: "materialize 8540: a fenced producer is made anew, and fences its successor in turn",
    caught_by: ["FEN-1"]
}

#[async_trait]
impl Bug for FencedIsTransient {
    async fn begin(&self, sink: &Sink, id: &TransactionId) -> Result<OpenTransaction, SinkError> {
        let begun = sink.open(id).await;
        begun.map_err(|error| as_kind(ErrorKind::Fenced, ErrorKind::Transient, error))
    }

    async fn pre_commit(
        &self,
        sink: &Sink,
        transaction: OpenTransaction,
    ) -> Result<Option<NotedHandle>, SinkError> {
        match sink.prepare(transaction).await {
            Ok(prepared) => Ok(prepared.map(NotedHandle::from)),
            Err(error) => Err(as_kind(ErrorKind::Fenced, ErrorKind::Transient, error)),
        }
    }
}

bug! {
    /// Reports what only a human can change as something that passes: the job tries for ever, and nobody hears of it.
    NoRightsIsTransient, "M47",
    seen: "clients that retry authorisation errors; a full disk retried without end",
    caught_by: ["ERR-1"]
}

#[async_trait]
impl Bug for NoRightsIsTransient {
    async fn begin(&self, sink: &Sink, id: &TransactionId) -> Result<OpenTransaction, SinkError> {
        let begun = sink.open(id).await;
        begun.map_err(|error| as_kind(ErrorKind::Configuration, ErrorKind::Transient, error))
    }

    async fn pre_commit(
        &self,
        sink: &Sink,
        transaction: OpenTransaction,
    ) -> Result<Option<NotedHandle>, SinkError> {
        match sink.prepare(transaction).await {
            Ok(prepared) => Ok(prepared.map(NotedHandle::from)),
            Err(error) => Err(as_kind(
                ErrorKind::Configuration,
                ErrorKind::Transient,
                error,
            )),
        }
    }
}

bug! {
    /// Fails to abort what is aborted already.
    AbortOnce, "M48",
    seen: "librdkafka 3297: abort in the wrong state is an error, and the process is stuck",
    caught_by: ["IDE-4"]
}

#[async_trait]
impl Bug for AbortOnce {
    async fn abort(
        &self,
        sink: &Sink,
        unfinished: Unfinished<OpenTransaction, ReferenceHandle>,
    ) -> Result<(), SinkError> {
        let (Unfinished::Open(id, _) | Unfinished::Prepared(id, _)) = unfinished;
        let transaction = id.to_string();
        sink.client.ask(Request::Abort { transaction }).await?;
        Ok(())
    }
}

bug! {
    /// Says that it has aborted what is committed.
    AbortsCommitted, "M49",
    seen: "rollback paths that log every error and return",
    caught_by: ["IDE-5"]
}

#[async_trait]
impl Bug for AbortsCommitted {
    async fn abort(
        &self,
        sink: &Sink,
        unfinished: Unfinished<OpenTransaction, ReferenceHandle>,
    ) -> Result<(), SinkError> {
        match sink.undo(unfinished).await {
            Err(error) if error.kind() == ErrorKind::Rejected => Ok(()),
            undone => undone,
        }
    }
}

bug! {
    /// Never has anything in doubt, if you ask it.
    NothingInDoubt, "M50",
    seen: "sinks that list what they remember, and remember nothing after a restart",
    caught_by: ["ERR-6"]
}

#[async_trait]
impl Bug for NothingInDoubt {
    async fn in_doubt(&self, _: &Sink, _: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        Ok(Vec::new())
    }
}
