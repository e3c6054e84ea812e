//! The file source.

mod batch;
mod csv;
mod input;
mod json_lines;
mod paths;
mod position;
mod reader;

use std::fmt;
use std::marker::PhantomData;
use std::path::Path;

use cofferdam::{CheckpointId, OnMalformed, Source, SourceError, SplitId, async_trait};
use serde::de::DeserializeOwned;
use tokio::task::spawn_blocking;

pub use self::paths::Paths;
pub use self::position::FilePosition;
pub use self::reader::FileReader;
use crate::format::Format;

/// Reads files of records, each of which becomes a `T`.
///
/// One file is one split, named by its path as given. Files may be compressed with gzip or zstd; their first bytes
/// tell, not their names. They must not change while a job reads them: what is appended after a file was opened is not
/// read, and a file whose length differs from that in the checkpoint is refused.
///
/// # Cost of going on
/// A plain file seeks to its position. A compressed one is decompressed from its start up to there, without parsing.
#[derive(Clone)]
pub struct FileSource<T> {
    paths: Paths,
    format: Format,
    on_malformed: OnMalformed,
    records: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + Send + 'static> FileSource<T> {
    /// Reads CSV files, each with a header line whose names are the fields of `T`.
    ///
    /// `paths` is one path or several; each a file, or a folder whose files are meant. Of a folder all regular files
    /// are read, in the order of their names, but for those beginning with `.` or `_`.
    pub fn csv(paths: impl Into<Paths>) -> Self {
        Self::new(paths.into(), Format::Csv)
    }

    /// Reads JSON Lines files: one value a line; blank lines are passed over.
    ///
    /// `paths` are as for [`csv`](Self::csv).
    pub fn json_lines(paths: impl Into<Paths>) -> Self {
        Self::new(paths.into(), Format::JsonLines)
    }

    /// What to do about text that can't be read as a record. By default the job stops and names the place.
    ///
    /// A column that the header lacks, and a compressed file that is damaged or cut short, are errors in either case.
    #[must_use]
    pub fn on_malformed(mut self, on_malformed: OnMalformed) -> Self {
        self.on_malformed = on_malformed;
        self
    }

    fn new(paths: Paths, format: Format) -> Self {
        Self {
            paths,
            format,
            on_malformed: OnMalformed::default(),
            records: PhantomData,
        }
    }
}

impl<T> fmt::Debug for FileSource<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSource")
            .field("paths", &self.paths)
            .field("format", &self.format)
            .field("on_malformed", &self.on_malformed)
            .finish()
    }
}

#[async_trait]
impl<T: DeserializeOwned + Send + 'static> Source for FileSource<T> {
    type Record = T;
    type Position = FilePosition;
    type Reader = FileReader<T>;

    async fn splits(&self, _: &[SplitId]) -> Result<Vec<SplitId>, SourceError> {
        let paths = self.paths.clone();
        blocking(move || paths.splits()).await
    }

    async fn open(
        &self,
        splits: Vec<(SplitId, Option<FilePosition>)>,
    ) -> Result<FileReader<T>, SourceError> {
        // What can't be read is better known now than when its turn comes, hours later.
        let splits = blocking(move || {
            for (split, position) in &splits {
                let path = Path::new(split.as_str());
                input::check_length(path, input::length_of(path)?, position.as_ref())?;
            }
            Ok(splits)
        })
        .await?;
        Ok(FileReader::new(splits, self.format, self.on_malformed))
    }

    async fn notify(
        &self,
        _checkpoint: CheckpointId,
        _positions: &[(SplitId, FilePosition)],
    ) -> Result<(), SourceError> {
        Ok(())
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SourceError> + Send + 'static,
) -> Result<T, SourceError> {
    match spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(cut_off) => Err(
            SourceError::transient("file work was cut off before it answered")
                .hint("the async runtime is shutting down")
                .caused_by(cut_off),
        ),
    }
}
