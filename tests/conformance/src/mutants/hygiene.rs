//! Connections, locks, secrets and deadlines.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cofferdam::{SinkError, TransactionId, async_trait};

use super::bug::{Bug, Call, NotedHandle, Sink, bug, encode};
use crate::reference::{self, Discipline, OpenTransaction, ReferenceRecord, Request};

bug! {
    /// Closing the sink aborts what it has prepared.
    DeleteOnClose { prepared: Mutex<BTreeSet<TransactionId>> }, "M19",
    seen: "close() that cleans up: temporary files, `abort_transaction` in a destructor, ON DISCONNECT ROLLBACK",
    caught_by: ["CLE-3"]
}

#[async_trait]
impl Bug for DeleteOnClose {
    async fn pre_commit(
        &self,
        sink: &Sink,
        transaction: OpenTransaction,
    ) -> Result<Option<NotedHandle>, SinkError> {
        let id = transaction.id.clone();
        let handle = sink.prepare(transaction).await?;
        self.prepared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id);
        Ok(handle.map(NotedHandle::from))
    }

    fn closed(&self, sink: &Sink) {
        let prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        let aborts = prepared.iter().map(|id| Request::Abort {
            transaction: id.to_string(),
        });
        let _best_effort = ask_blocking(sink, aborts);
    }
}

/// For a destructor, in which nobody can wait but the thread.
fn ask_blocking(sink: &Sink, requests: impl Iterator<Item = Request>) -> std::io::Result<()> {
    let patience = Duration::from_millis(100);
    let mut stream = TcpStream::connect_timeout(&sink.client.address(), patience)?;
    stream.set_read_timeout(Some(patience))?;
    let mut answers = BufReader::new(stream.try_clone()?);
    let password = sink.client.password().clone();
    for request in std::iter::once(Request::Login { password }).chain(requests) {
        let mut line = serde_json::to_vec(&request)?;
        line.push(b'\n');
        stream.write_all(&line)?;
        line.clear();
        answers.read_until(b'\n', &mut line)?;
    }
    Ok(())
}

bug! {
    /// A call that is dropped gives its connection back with an answer on its way, which the next call takes for its own.
    DirtyPool, "M20",
    seen: "sqlx 4393, deadpool-postgres: connections in the middle of a transaction back in the pool",
    caught_by: ["CON-1"]
}

impl Bug for DirtyPool {
    const RETURNS_BUSY_CONNECTIONS: bool = true;
}

bug! {
    /// A background task keeps its connection when the sink is gone.
    LeaksConnections, "M56",
    seen: "producers whose poll thread outlives them; rust-rdkafka's background threads",
    caught_by: ["CLE-4"]
}

#[async_trait]
impl Bug for LeaksConnections {
    async fn opened(&self, sink: &Sink) -> Result<(), SinkError> {
        let background = reference::sink(sink.client.address(), Discipline::Sound);
        tokio::spawn(async move {
            let _listed = background.undecided().await;
            std::future::pending::<()>().await;
        });
        Ok(())
    }
}

bug! {
    /// Shows its configuration in an error, with the password.
    SecretInError, "M27",
    seen: "connection strings in the errors of many database drivers",
    caught_by: ["ERR-1"]
}

#[async_trait]
impl Bug for SecretInError {
    async fn begin(&self, sink: &Sink, id: &TransactionId) -> Result<OpenTransaction, SinkError> {
        sink.open(id).await.map_err(|error| {
            let (password, address) = (sink.client.password().reveal(), sink.client.address());
            let message = format!("can't begin at tcp://sink:{password}@{address}");
            SinkError::new(error.kind(), message).caused_by(error)
        })
    }
}

bug! {
    /// Shows its configuration in `Debug`, with the password.
    SecretInDebug, "M57",
    seen: "derived Debug on configurations, printed once at start",
    caught_by: ["ERR-1"]
}

#[async_trait]
impl Bug for SecretInDebug {
    fn show(&self, sink: &Sink, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink")
            .field("address", &sink.client.address())
            .field("password", &sink.client.password().reveal())
            .finish()
    }
}

bug! {
    /// Panics at a handle that it can't read.
    PanicOnGarbage, "M28",
    seen: "unwrap() on what a checkpoint holds; arroyo 1027 panics in recovery",
    caught_by: ["DUR-5"]
}

#[async_trait]
impl Bug for PanicOnGarbage {
    fn decode(json: serde_json::Value) -> Result<NotedHandle, serde_json::Error> {
        Ok(serde_json::from_value(json).expect("a checkpoint holds only handles"))
    }
}

bug! {
    /// Has no deadline on commit.
    HangingCommit, "M29",
    seen: "commit_transaction(-1); COMMIT PREPARED without statement_timeout",
    caught_by: ["LIV-5"]
}

#[async_trait]
impl Bug for HangingCommit {
    fn has_deadline(&self, call: Call) -> bool {
        call != Call::Commit
    }
}

bug! {
    /// Tries to begin again and again, without an end and without telling anybody.
    EndlessRetry, "M58",
    seen: "client libraries with retries = MAX_INT and no delivery timeout",
    caught_by: ["ERR-2", "LIV-5"]
}

#[async_trait]
impl Bug for EndlessRetry {
    fn has_deadline(&self, call: Call) -> bool {
        call != Call::Begin
    }

    async fn begin(&self, sink: &Sink, id: &TransactionId) -> Result<OpenTransaction, SinkError> {
        loop {
            match sink.client.within(sink.open(id)).await {
                Err(error) if error.kind().is_retriable() => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                begun => return begun,
            }
        }
    }
}

bug! {
    /// Encodes under a lock: one panic of the user's code, and the sink never works again.
    PoisonedLock { lock: Mutex<()> }, "M59",
    seen: "lock().unwrap() around callbacks",
    caught_by: ["ERR-8"]
}

#[async_trait]
impl Bug for PoisonedLock {
    async fn write(
        &self,
        sink: &Sink,
        transaction: &mut OpenTransaction,
        records: Vec<ReferenceRecord>,
    ) -> Result<(), SinkError> {
        let rows = {
            let _lock = self.lock.lock().expect("nobody panics in an encoder");
            encode(&records)
        };
        sink.append(transaction, rows).await
    }
}
