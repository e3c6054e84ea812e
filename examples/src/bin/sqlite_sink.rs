//! An exactly-once sink into SQLite, from the first line to the last, and a job that dies twice on its way into it.
//!
//! Rows wait in a table of their own, under the name of their transaction. A commit moves them into the table that
//! readers read, and notes that it did, in *one* transaction of SQLite: so there is no moment at which one is true and
//! the other is not. Below the sink stands the conformance suite, which crashes it at every step.

#![allow(clippy::doc_markdown, reason = "SQLite is a name, not code")]

use std::error::Error;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{fs, process};

use clap::Parser;
use cofferdam::{
    Capabilities, CommitError, Committed, DirectoryCheckpointStore, ErrorKind, EventTime, Evidence,
    Fence, Fencing, InDoubt, JobId, Pipeline, SinkError, Timestamp, TransactionId,
    TwoPhaseCommitSinkFunction, Unfinished, async_trait,
};
use cofferdam_object_store::FileSource;
use rusqlite::TransactionBehavior::Immediate;
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, Params, params, params_from_iter};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

/// A record that is a row of a table.
trait TableRow: Debug + Send + 'static {
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
struct SqliteSink<R> {
    /// One for all subtasks, as SQLite has one writer at a time.
    connection: Arc<Mutex<Connection>>,
    rows: PhantomData<fn(R)>,
}

impl<R: TableRow> SqliteSink<R> {
    /// Opens the database and makes the tables that are missing. What anyone has staged there stays as it is.
    fn open(path: impl AsRef<Path>) -> Result<Self, SinkError> {
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

fn ids(db: &Connection, sql: &str, of: impl Params) -> rusqlite::Result<Vec<TransactionId>> {
    let mut query = db.prepare(sql)?;
    let names = query.query_map(of, |row| row.get::<_, String>(0))?;
    let parsed = names.map(|name| Ok(name?.parse().ok()));
    parsed.filter_map(Result::transpose).collect()
}

#[async_trait]
impl<R: TableRow> TwoPhaseCommitSinkFunction for SqliteSink<R> {
    type Input = R;
    type Transaction = TransactionId;
    type Prepared = ();

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            evidence: Evidence::Ledger,
            fencing: Fencing::Server,
            ..Capabilities::TRANSACTIONAL
        }
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

    async fn abort_stale(&self, fence: &Fence<()>) -> Result<Vec<TransactionId>, SinkError> {
        let (fence, newest) = (fence.clone(), fence.newest.map(|newest| newest.0));
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
            let visible: Option<u64> = db.query_row(visible, [job, sink], |row| row.get(0))?;
            if visible > newest {
                let text = format!("{} shows a newer checkpoint than {job} knows", R::TABLE);
                let hint = "give the job its newest checkpoints, or a database without its rows";
                return Ok(Err(SinkError::configuration(text).hint(hint)));
            }
            let decided = serde_json::json!(fence.decided).to_string();
            Ok(Ok(ids(db, sweep, params![job, sink, epoch, decided])?))
        })
        .await
    }

    async fn in_doubt(&self, job: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        let job = job.to_string();
        let sql = "SELECT id FROM cofferdam_transactions WHERE job = ? AND state <> 'committed'";
        let in_doubt = |transaction| InDoubt {
            transaction,
            location: format!("staged_{}", R::TABLE),
            expires_in: None,
        };
        self.atomically(move |db| Ok(Ok(ids(db, sql, [job])?.into_iter().map(in_doubt).collect())))
            .await
    }
}

/// A departure; it was cancelled if it never departed.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Flight {
    scheduled: jiff::Timestamp,
    departed: Option<jiff::Timestamp>,
    carrier: String,
    flight: i64,
    origin: String,
    destination: String,
}

impl TableRow for Flight {
    const TABLE: &'static str = "cancelled";
    const COLUMNS: &'static str =
        "scheduled TEXT NOT NULL, carrier TEXT NOT NULL CHECK (carrier <> ''),
        flight INTEGER NOT NULL, origin TEXT NOT NULL, destination TEXT NOT NULL";

    fn values(&self) -> Vec<Value> {
        vec![
            self.scheduled.to_string().into(),
            self.carrier.clone().into(),
            self.flight.into(),
            self.origin.clone().into(),
            self.destination.clone().into(),
        ]
    }
}

/// Emptied at each start, so it is not for the user to name.
const FOLDER: &str = "output/sqlite";

/// Cancelled flights of a quarter, into a table of SQLite: the job dies twice on the way, and each flight is there once.
#[derive(Debug, Parser)]
struct Options {
    /// CSV file or folder of files with departures; plain, gzip or zstd.
    #[arg(long, default_value = "examples/data/departures-2013-q1.csv.gz")]
    input: PathBuf,
    /// Only run the job, on what is there, and die after so many departures, as if by `kill -9`.
    #[arg(long)]
    die_after: Option<u64>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    if options.die_after.is_some() {
        return run(&options).await;
    }
    if Path::new(FOLDER).exists() {
        fs::remove_dir_all(FOLDER)?;
    }
    fs::create_dir_all(FOLDER)?;
    for die_after in ["30000", "35000"] {
        let mut child = process::Command::new(std::env::current_exe()?);
        child.args(["--die-after", die_after, "--input"]);
        let status = child.arg(&options.input).status()?;
        println!("a run ended with {status}, and left this:");
        count()?;
    }
    run(&options).await?;
    println!("the last run came to the end of the input:");
    count()
}

async fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let flights = FileSource::<Flight>::csv(options.input.as_path());
    let time = |flight: &Flight| Timestamp::from_millis(flight.scheduled.as_millisecond());
    let cancelled = SqliteSink::open(Path::new(FOLDER).join("flights.db"))?;
    let checkpoints = DirectoryCheckpointStore::open(Path::new(FOLDER).join("checkpoints"))?;
    let (seen, die_after) = (Arc::new(AtomicU64::new(0)), options.die_after);
    Pipeline::new("flights")
        .source("departures", flights, EventTime::of(time))
        .filter(move |flight| {
            if Some(seen.fetch_add(1, Ordering::Relaxed)) == die_after {
                process::abort();
            }
            flight.departed.is_none()
        })
        .sink("cancelled", cancelled)
        .job(checkpoints)
        .checkpoint_interval(Duration::from_millis(10))
        .run()
        .await?;
    Ok(())
}

/// Plain SQL, as any reader of the database would write it.
fn count() -> Result<(), Box<dyn Error>> {
    let database = Connection::open(Path::new(FOLDER).join("flights.db"))?;
    for (what, sql) in [
        ("cancelled flights", "SELECT count(*) FROM cancelled"),
        (
            "… all different",
            "SELECT count(DISTINCT scheduled || carrier || flight) FROM cancelled",
        ),
        ("staged flights", "SELECT count(*) FROM staged_cancelled"),
        (
            "commits",
            "SELECT count(*) FROM cofferdam_transactions WHERE state = 'committed'",
        ),
    ] {
        let count: u64 = database.query_row(sql, [], |row| row.get(0))?;
        println!("  {what:<17} {count:>6}");
    }
    Ok(())
}

#[cfg(test)]
mod conformance {
    use cofferdam_conformance::{
        Breakage, Factory, GoldenHandle, Observer, Odd, Reality, Row, Trouble, conformance_tests,
    };
    use tempfile::TempDir;

    use super::*;

    /// One column, so that a text is a row. An empty text is refused, and `PANIC` panics.
    #[derive(Debug)]
    struct Line(String);

    impl TableRow for Line {
        const TABLE: &'static str = "lines";
        const COLUMNS: &'static str = "line TEXT NOT NULL CHECK (line <> '')";

        fn values(&self) -> Vec<Value> {
            assert_ne!(self.0, "PANIC", "this row can't be encoded");
            vec![self.0.clone().into()]
        }
    }

    #[derive(Default)]
    struct Sqlite;

    struct Database {
        path: PathBuf,
        /// Deletes the folder, where it was made.
        _folder: Option<TempDir>,
        /// A stranger who keeps the lock for writing, which looks like a database that does not answer.
        stranger: std::sync::Mutex<Option<Connection>>,
    }

    impl Database {
        fn at(path: PathBuf, folder: Option<TempDir>) -> Self {
            Self {
                path,
                _folder: folder,
                stranger: std::sync::Mutex::new(None),
            }
        }

        fn connect(&self) -> Result<Connection, Trouble> {
            let connection = Connection::open(&self.path).map_err(failed("opening"))?;
            connection
                .pragma_update(None, "foreign_keys", true)
                .map_err(failed("setting"))?;
            Ok(connection)
        }

        fn texts(&self, sql: &str) -> Result<Vec<String>, Trouble> {
            let database = self.connect()?;
            let mut select = database.prepare(sql).map_err(failed("preparing"))?;
            let rows = select
                .query_map([], |row| row.get(0))
                .map_err(failed("reading"))?;
            rows.collect::<Result<_, _>>().map_err(failed("reading"))
        }
    }

    fn failed(action: &'static str) -> impl Fn(rusqlite::Error) -> Trouble {
        move |error| Trouble::failed(action, error)
    }

    #[async_trait]
    impl Factory for Sqlite {
        type Sink = SqliteSink<Line>;
        type Place = Database;

        fn name(&self) -> String {
            "SQLite (example)".to_owned()
        }

        fn reality(&self) -> Reality {
            Reality::Real
        }

        async fn place(&self) -> Result<Database, Trouble> {
            let folder =
                TempDir::new().map_err(|error| Trouble::failed("making a folder", error))?;
            let database = Database::at(folder.path().join("lines.db"), Some(folder));
            // The tables, as a reader may come before the first sink.
            self.open(&database).await?;
            Ok(database)
        }

        async fn open(&self, place: &Database) -> Result<Self::Sink, Trouble> {
            SqliteSink::open(&place.path).map_err(|error| Trouble::failed("opening a sink", error))
        }

        fn record(&self, text: &str) -> Line {
            Line(text.to_owned())
        }

        fn odd_record(&self, odd: Odd) -> Result<Line, Trouble> {
            match odd {
                Odd::Refused => Ok(Line(String::new())),
                Odd::Panicking => Ok(Line("PANIC".to_owned())),
                Odd::Oversize => Err(Trouble::unsupported("SQLite takes a gigabyte in one row")),
            }
        }

        fn golden_handles(&self) -> Vec<GoldenHandle> {
            vec![GoldenHandle {
                version: "0.1.0".to_owned(),
                json: "null".to_owned(),
            }]
        }

        async fn attach(&self, address: &str) -> Result<Database, Trouble> {
            Ok(Database::at(PathBuf::from(address), None))
        }
    }

    #[async_trait]
    impl Observer for Database {
        async fn visible(&self) -> Result<Vec<Row>, Trouble> {
            let texts = self.texts("SELECT line FROM lines")?;
            Ok(texts
                .into_iter()
                .map(|text| Row { text, lane: None })
                .collect())
        }

        async fn leftovers(&self) -> Result<Vec<String>, Trouble> {
            self.texts(
                "SELECT id FROM cofferdam_transactions WHERE state <> 'committed'
                 UNION ALL SELECT cofferdam_id || ': ' || line FROM staged_lines",
            )
        }

        /// Files that this process holds open, as the connections of SQLite are just that.
        async fn connections(&self) -> Result<usize, Trouble> {
            let open = fs::read_dir("/proc/self/fd").map_err(|_| {
                Trouble::unsupported("only Linux lists the open files of a process")
            })?;
            let files = open.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
            Ok(files.filter(|file| *file == self.path).count())
        }

        async fn kill_connections(&self) -> Result<(), Trouble> {
            Err(Trouble::unsupported(
                "a connection is an open file, which nobody else can close",
            ))
        }

        async fn restart(&self) -> Result<(), Trouble> {
            Err(Trouble::unsupported(
                "SQLite lives in the process of the sink, and is killed with it",
            ))
        }

        async fn lose(&self, transaction: &TransactionId) -> Result<(), Trouble> {
            let sql = "DELETE FROM cofferdam_transactions WHERE id = ?";
            self.connect()?
                .execute(sql, [transaction.to_string()])
                .map_err(failed("deleting"))?;
            Ok(())
        }

        async fn break_down(&self, breakage: Breakage) -> Result<(), Trouble> {
            let reason = match breakage {
                Breakage::Silent => {
                    let stranger = self.connect()?;
                    stranger
                        .execute_batch("BEGIN IMMEDIATE")
                        .map_err(failed("locking"))?;
                    *self.stranger.lock().expect("no one panics with it") = Some(stranger);
                    return Ok(());
                }
                Breakage::NoRights => "an open file stays writable when its rights are taken away",
                Breakage::Unreachable => "a file is not reached over a network",
                Breakage::Full => "filling a disk needs one of its own",
            };
            Err(Trouble::unsupported(reason))
        }

        async fn mend(&self) -> Result<(), Trouble> {
            *self.stranger.lock().expect("no one panics with it") = None;
            Ok(())
        }

        fn address(&self) -> Option<String> {
            Some(self.path.display().to_string())
        }
    }

    conformance_tests!(Sqlite, report = "reports/sqlite.json");
}
