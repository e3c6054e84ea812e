//! A sink into SQLite.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cofferdam::{
    Capabilities, CheckpointId, CommitError, Committed, Epoch, ErrorKind, Evidence, Fence, Fencing,
    InDoubt, JobId, SinkError, TransactionId, TwoPhaseCommitSinkFunction, Unfinished, async_trait,
};
use rusqlite::TransactionBehavior::Immediate;
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, Params, params, params_from_iter};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

/// A record that is a row of a table.
pub(crate) trait TableRow: Debug + Send + 'static {
    /// The table that readers read. Its last column, `cofferdam_id`, tells by which transaction a row came.
    const TABLE: &'static str;
    /// Its columns, as in CREATE TABLE. A CHECK belongs here: it is looked at before the decision. A UNIQUE does not: it
    /// would be a commit that breaks it, when it is too late to take anything back.
    const COLUMNS: &'static str;

    /// The values of the columns, in their order.
    fn values(&self) -> Vec<Value>;
}

/// One row for each transaction: what is in doubt and, once committed, the evidence of it. Keys are names, not numbers
/// that SQLite hands out: it hands out that of a deleted row again, and a zombie would take it for its own.
const TRANSACTIONS: &str = "
    CREATE TABLE IF NOT EXISTS cofferdam_transactions (
        id TEXT PRIMARY KEY, job TEXT NOT NULL, sink TEXT NOT NULL,
        epoch INTEGER NOT NULL, checkpoint INTEGER NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('open', 'prepared', 'committed')));
    CREATE TABLE IF NOT EXISTS cofferdam_fences (
        job TEXT, sink TEXT, epoch INTEGER NOT NULL, PRIMARY KEY (job, sink));";

/// Rows of a table of SQLite.
#[derive(Debug)]
pub(crate) struct SqliteSink<R> {
    /// One for all subtasks, as SQLite has one writer at a time.
    connection: Arc<Mutex<Connection>>,
    rows: PhantomData<fn(R)>,
}

impl<R: TableRow> SqliteSink<R> {
    /// Opens the database and makes the tables that are missing. What anyone has staged there stays as it is.
    pub(crate) fn open(path: impl AsRef<Path>) -> Result<Self, SinkError> {
        let connect = || {
            let db = Connection::open(path)?;
            db.busy_timeout(Duration::from_secs(5))?;
            // WAL: readers and a writer don't wait for each other. FULL: what is prepared survives a power cut.
            db.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")?;
            // Staged rows go away with their transaction, and none can come once it is gone.
            db.execute_batch(&format!(
                "PRAGMA foreign_keys = ON; BEGIN IMMEDIATE; {TRANSACTIONS}
                 CREATE TABLE IF NOT EXISTS {table} ({columns}, cofferdam_id TEXT NOT NULL);
                 CREATE TABLE IF NOT EXISTS staged_{table} ({columns}, cofferdam_id TEXT NOT NULL
                     REFERENCES cofferdam_transactions ON DELETE CASCADE);
                 CREATE INDEX IF NOT EXISTS staged_{table}_ids ON staged_{table} (cofferdam_id);
                 COMMIT",
                table = R::TABLE,
                columns = R::COLUMNS,
            ))?;
            Ok(Arc::new(Mutex::new(db)))
        };
        let (connection, rows) = (connect().map_err(failed)?, PhantomData);
        Ok(Self { connection, rows })
    }

    /// Does some work as one transaction of SQLite, which is rolled back by a refusal, an error or a panic.
    ///
    /// A thread can't be stopped, so the work comes to its end even if this future is dropped. Hence it takes the *lock*
    /// along: the next call waits for it, and finds the connection with no transaction open. Against such a straggler of
    /// a run that was given up stands the fence.
    async fn atomically<A: Send + 'static, E: From<SinkError> + Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<Result<A, E>> + Send + 'static,
    ) -> Result<A, E> {
        let mut db = Arc::clone(&self.connection).lock_owned().await;
        let work = move || {
            // IMMEDIATE takes the lock for writing at once: a reader that becomes a writer may be refused.
            let transaction = db.transaction_with_behavior(Immediate)?;
            let answer = work(&transaction)?;
            if answer.is_ok() {
                transaction.commit()?;
            }
            Ok(answer)
        };
        match spawn_blocking(work).await {
            Ok(answer) => answer.map_err(failed)?,
            // A row panicked, or the runtime is shutting down.
            Err(died) => Err(SinkError::unknown("the work was cut off")
                .caused_by(died)
                .into()),
        }
    }
}

/// An error of SQLite, by what is to be done about it.
fn failed(error: rusqlite::Error) -> SinkError {
    use ErrorCode::*;
    let kind = match error.sqlite_error_code() {
        Some(DatabaseBusy | DatabaseLocked | OutOfMemory) => ErrorKind::Transient,
        // The disk may have it or not: the next commit looks.
        Some(SystemIoFailure) => ErrorKind::Unknown,
        // Or, with no code, a value that SQLite has no type for.
        Some(ConstraintViolation | TooBig | TypeMismatch) | None => ErrorKind::Rejected,
        // READONLY, CANTOPEN, FULL, NOTADB, CORRUPT, a table that someone has dropped, …
        Some(_) => ErrorKind::Configuration,
    };
    SinkError::new(kind, "SQLite refused").caused_by(error)
}

/// What is not done is not there any more: a newer run has aborted it, and keeps the old one out.
fn unless_fenced<A>(done: bool, answer: A) -> Result<A, SinkError> {
    done.then_some(answer)
        .ok_or_else(|| SinkError::fenced("a newer run of the job has taken over"))
}

/// Takes a transaction from one state to another; false if it is not in the first.
fn step(db: &Connection, id: &TransactionId, from: &str, to: &str) -> rusqlite::Result<bool> {
    let sql = "UPDATE cofferdam_transactions SET state = ? WHERE id = ? AND state = ?";
    Ok(db.execute(sql, [to, &id.to_string(), from])? == 1)
}

/// The staged transactions whose ids a statement returns.
fn staged<R: TableRow>(
    db: &Connection,
    sql: &str,
    of: impl Params,
) -> rusqlite::Result<Vec<InDoubt>> {
    let mut query = db.prepare(sql)?;
    let location = format!("staged_{}", R::TABLE);
    let in_doubt = |id| InDoubt::new(&id, location.as_str());
    let names = query.query_map(of, |row| row.get::<_, String>(0))?;
    let found = names.map(|name| Ok(name?.parse().ok().map(in_doubt)));
    found.filter_map(Result::transpose).collect()
}

#[async_trait]
impl<R: TableRow> TwoPhaseCommitSinkFunction for SqliteSink<R> {
    type Input = R;
    type Transaction = TransactionId;
    type Prepared = ();

    fn capabilities(&self) -> Capabilities {
        Capabilities::TRANSACTIONAL
            .with_evidence(Evidence::Ledger)
            .with_fencing(Fencing::Server)
    }

    async fn begin(&self, id: &TransactionId) -> Result<TransactionId, SinkError> {
        let id = id.clone();
        // An old run is turned away here. What it had begun before is gone, and it finds that out at its next step.
        let sql = "INSERT INTO cofferdam_transactions SELECT ?1, ?2, ?3, ?4, ?5, 'open'
                   WHERE NOT EXISTS (SELECT * FROM cofferdam_fences
                                     WHERE job = ?2 AND sink = ?3 AND epoch > ?4)";
        self.atomically(move |db| {
            let (job, sink) = (id.job.as_str(), id.sink.as_str());
            let row = params![id.to_string(), job, sink, id.epoch.0, id.checkpoint.0];
            Ok(unless_fenced(db.execute(sql, row)? == 1, id))
        })
        .await
    }

    async fn write(&self, id: &mut TransactionId, records: Vec<R>) -> Result<(), SinkError> {
        let id = id.clone();
        self.atomically(move |db| {
            let open = step(db, &id, "open", "open")?;
            for record in records.iter().take_while(|_| open) {
                let mut row = record.values();
                row.push(id.to_string().into());
                let places = vec!["?"; row.len()].join(", ");
                let sql = format!("INSERT INTO staged_{} VALUES ({places})", R::TABLE);
                db.prepare_cached(&sql)?.execute(params_from_iter(row))?;
            }
            Ok(unless_fenced(open, ()))
        })
        .await
    }

    async fn pre_commit(&self, id: TransactionId) -> Result<Option<()>, SinkError> {
        // It is never empty, as `begin` comes with the first record.
        self.atomically(move |db| Ok(unless_fenced(step(db, &id, "open", "prepared")?, Some(()))))
            .await
    }

    async fn commit(&self, id: &TransactionId, (): &()) -> Result<Committed, CommitError> {
        let (id, table) = (id.clone(), R::TABLE);
        let show = format!(
            "INSERT INTO {table} SELECT * FROM staged_{table} WHERE cofferdam_id = '{id}';
             DELETE FROM staged_{table} WHERE cofferdam_id = '{id}'"
        );
        self.atomically(move |db| {
            Ok(if step(db, &id, "prepared", "committed")? {
                db.execute_batch(&show)?;
                Ok(Committed::Now)
            } else if step(db, &id, "committed", "committed")? {
                Ok(Committed::Before)
            } else {
                Err(CommitError::Lost(format!(
                    "{id} is neither prepared nor committed"
                )))
            })
        })
        .await
    }

    async fn abort(&self, unfinished: Unfinished<TransactionId, ()>) -> Result<(), SinkError> {
        let (Unfinished::Open(id, _) | Unfinished::Prepared(id, ())) = unfinished;
        let sql = "DELETE FROM cofferdam_transactions WHERE id = ? AND state <> 'committed'";
        self.atomically(move |db| {
            db.execute(sql, [id.to_string()])?;
            Ok(match step(db, &id, "committed", "committed")? {
                true => Err(SinkError::rejected(format!("{id} is committed"))),
                false => Ok(()),
            })
        })
        .await
    }

    async fn abort_stale(&self, fence: &Fence<()>) -> Result<Vec<InDoubt>, SinkError> {
        let fence = fence.clone();
        let newest_epoch = "SELECT max(epoch) FROM cofferdam_transactions
                            WHERE job = ? AND sink = ?";
        let visible = "SELECT max(checkpoint) FROM cofferdam_transactions
                       WHERE job = ? AND sink = ? AND state = 'committed'";
        let raise = "INSERT INTO cofferdam_fences VALUES (?, ?, ?) ON CONFLICT
                     DO UPDATE SET epoch = excluded.epoch WHERE excluded.epoch >= epoch";
        let sweep = "DELETE FROM cofferdam_transactions WHERE job = ? AND sink = ? AND epoch < ?
                     AND state <> 'committed' AND id NOT IN
                         (SELECT value ->> 0 FROM json_each(?))
                     RETURNING id";
        self.atomically(move |db| {
            let (job, sink, epoch) = (fence.job.as_str(), fence.sink.as_str(), fence.epoch.0);
            if db.execute(raise, params![job, sink, epoch])? == 0 {
                return Ok(unless_fenced(false, Vec::new()));
            }
            let found: Option<u64> = db.query_row(newest_epoch, [job, sink], |row| row.get(0))?;
            let checked =
                found.map(|found| fence.check(Epoch(found), "a transaction in the database"));
            if let Some(Err(newer)) = checked {
                return Ok(Err(newer));
            }
            let visible: Option<u64> = db.query_row(visible, [job, sink], |row| row.get(0))?;
            let row = "a committed transaction in the database";
            let checked = visible.map(|newest| fence.check_visible(CheckpointId(newest), row));
            if let Some(Err(newer)) = checked {
                return Ok(Err(newer));
            }
            let decided = serde_json::json!(fence.decided).to_string();
            Ok(Ok(staged::<R>(
                db,
                sweep,
                params![job, sink, epoch, decided],
            )?))
        })
        .await
    }

    async fn in_doubt(&self, job: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        let job = job.to_string();
        let sql = "SELECT id FROM cofferdam_transactions WHERE job = ? AND state <> 'committed'";
        self.atomically(move |db| Ok(Ok(staged::<R>(db, sql, [job])?)))
            .await
    }
}
