//! The conformance suite, on the sink: `cargo test -p cofferdam-examples --bin sqlite_sink`.

use std::fs;
use std::path::PathBuf;

use cofferdam::{TransactionId, async_trait};
use cofferdam_conformance::{
    Breakage, Factory, GoldenHandle, Observer, Odd, Reality, Row, Trouble, conformance_tests,
};
use rusqlite::Connection;
use rusqlite::types::Value;
use tempfile::TempDir;

use super::sink::{SqliteSink, TableRow};

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
        let folder = TempDir::new().map_err(|error| Trouble::failed("making a folder", error))?;
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
        let open = fs::read_dir("/proc/self/fd")
            .map_err(|_| Trouble::unsupported("only Linux lists the open files of a process"))?;
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
