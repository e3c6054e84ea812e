//! Files as splits that can be read again from any position, and as transactions that appear whole or not at all.
//!
//! * [`FileSource`] reads CSV and JSON Lines, plain or compressed with gzip or zstd, and goes on exactly where a
//!   checkpoint left off.
//! * [`StagedFileSink`] writes CSV and JSON Lines; each transaction is a file that readers see once its checkpoint is
//!   decided.
//!
//! ```
//! use cofferdam::{Source, SourceEvent, SourceReader};
//! use cofferdam_object_store::FileSource;
//!
//! #[derive(serde::Deserialize, Debug, PartialEq)]
//! struct Order {
//!     id: u32,
//!     item: String,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! std::fs::write(folder.path().join("orders.csv"), "id,item\n1,tea\n2,coffee\n")?;
//!
//! let source = FileSource::<Order>::csv(folder.path());
//! let splits = source.splits(&[]).await?.into_iter().map(|split| (split, None)).collect();
//! let mut reader = source.open(splits).await?;
//! let SourceEvent::Batch(batch) = reader.next().await? else { panic!("no batch") };
//! assert_eq!(batch.records[1], Order { id: 2, item: "coffee".into() });
//! assert_eq!((batch.position.offset, batch.position.line), (23, 4));
//! # Ok(())
//! # }
//! ```
//!
//! The runtime of a pipeline calls the sink; by hand it goes like this:
//!
//! ```
//! use cofferdam::{Committed, TransactionId, TwoPhaseCommitSinkFunction};
//! use cofferdam_object_store::StagedFileSink;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let sink = StagedFileSink::json_lines(folder.path());
//! let id: TransactionId = "orders/files/1/0/7".parse()?;
//!
//! let mut transaction = sink.begin(&id).await?;
//! sink.write(&mut transaction, vec!["tea", "coffee"]).await?;
//! let handle = sink.pre_commit(transaction).await?.ok_or("no records")?;
//! let file = folder.path().join("orders.files.1.0.7.jsonl");
//! assert!(!file.exists());
//!
//! assert_eq!(sink.commit(&id, &handle).await?, Committed::Now);
//! assert_eq!(std::fs::read_to_string(file)?, "\"tea\"\n\"coffee\"\n");
//! assert_eq!(sink.commit(&id, &handle).await?, Committed::Before);
//! # Ok(())
//! # }
//! ```
//!
//! # What the sink can do
//! | capability | |
//! | --- | --- |
//! | who can finish a prepared transaction | any process that has the handle and reaches the folder |
//! | isolation | hidden until commit |
//! | atomic unit | a subtask: one file for each transaction |
//! | evidence of a commit | the data: a file of that name, length and checksum |
//! | fencing | names carry the epoch |
//! | lists what is in doubt | yes: the files in `_staging` |
//! | expiry | never |
//! | prepared transactions at once | any number |
//!
//! # The reader's rule
//! Readers list the files of the output folder and ignore names beginning with `_` or `.`, as [`FileSource`] does. They
//! don't descend into folders.
//!
//! # Limits
//! * The output folder must be on one file system with hard links, atomic names and durable `fsync`. Folders are synced
//!   on Unix only.
//! * Job and sink names that differ only in case need a file system that tells case apart.
//! * A file that is gone from both places is told from an unmounted disk by the folder `_staging`: don't delete it.
//! * Files to read must not change; what is appended after a file was opened is not read. A change that keeps the
//!   length goes unnoticed.
//! * A plain file that was cut short looks like a whole one, and so does a gzip or zstd file that was cut between
//!   members or frames. A record has to fit in memory.
//! * Both need a tokio runtime; they use its threads for blocking work.

mod blocking;
mod error;
mod format;
mod sink;
mod source;

pub use cofferdam::OnMalformed;
pub use sink::{StagedFile, StagedFileSink, StagedTransaction};
pub use source::{FilePosition, FileReader, FileSource, Paths};
