//! Reads files one after another, a batch ahead.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cofferdam::{
    OnMalformed, SourceBatch, SourceError, SourceEvent, SourceReader, SplitId, async_trait,
};
use serde::de::DeserializeOwned;
use tokio::task::{JoinHandle, spawn_blocking};

use super::batch::Batch;
use super::csv::CsvFile;
use super::json_lines::JsonLinesFile;
use super::position::FilePosition;
use crate::format::Format;

type Event<T> = SourceEvent<T, FilePosition>;

/// Reads the files of one subtask, one after another. While the pipeline works on a batch, the next is read.
pub struct FileReader<T> {
    state: State<T>,
    /// Tells the work that runs ahead that nobody waits for it.
    stop: Arc<AtomicBool>,
}

enum State<T> {
    Reading(JoinHandle<Step<T>>),
    Ended,
    Failed,
}

struct Step<T> {
    work: Work<T>,
    event: Result<Event<T>, SourceError>,
}

impl<T> fmt::Debug for FileReader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileReader").finish_non_exhaustive()
    }
}

impl<T: DeserializeOwned + Send + 'static> FileReader<T> {
    pub(super) fn new(
        splits: Vec<(SplitId, Option<FilePosition>)>,
        format: Format,
        on_malformed: OnMalformed,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let work = Work {
            waiting: splits.into(),
            current: None,
            format,
            on_malformed,
            stop: Arc::clone(&stop),
            records: PhantomData,
        };
        Self {
            state: work.start(),
            stop,
        }
    }
}

#[async_trait]
impl<T: DeserializeOwned + Send + 'static> SourceReader for FileReader<T> {
    type Record = T;
    type Position = FilePosition;

    async fn next(&mut self) -> Result<Event<T>, SourceError> {
        // The only await: if it is dropped, the step stays in its handle for the next call.
        let step = match &mut self.state {
            State::Reading(step) => step.await,
            State::Ended => return Ok(SourceEvent::End),
            State::Failed => {
                return Err(SourceError::transient("the reader failed before")
                    .hint("open another one at the last position"));
            }
        };
        self.state = State::Failed;
        let Step { work, event } = step.map_err(|cut_off| {
            SourceError::transient("reading was cut off before it answered")
                .hint("the async runtime is shutting down, or deserializing a record panicked")
                .caused_by(cut_off)
        })?;
        let event = event?;
        self.state = match event {
            SourceEvent::End => State::Ended,
            _ => work.start(),
        };
        Ok(event)
    }
}

impl<T> Drop for FileReader<T> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// What is left to read.
struct Work<T> {
    waiting: VecDeque<(SplitId, Option<FilePosition>)>,
    current: Option<(SplitId, RecordFile)>,
    format: Format,
    on_malformed: OnMalformed,
    stop: Arc<AtomicBool>,
    records: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + Send + 'static> Work<T> {
    fn start(mut self) -> State<T> {
        State::Reading(spawn_blocking(move || Step {
            event: self.step(),
            work: self,
        }))
    }

    fn step(&mut self) -> Result<Event<T>, SourceError> {
        let (split, mut file) = match self.current.take() {
            Some(current) => current,
            None => match self.waiting.pop_front() {
                Some((split, from)) => {
                    let file = self.open(&split, from.as_ref())?;
                    (split, file)
                }
                None => return Ok(SourceEvent::End),
            },
        };
        let mut batch = Batch::new(self.on_malformed);
        file.fill(&mut batch)?;
        if batch.is_empty() {
            return Ok(SourceEvent::Finished(split));
        }
        let event = SourceEvent::Batch(SourceBatch {
            split: split.clone(),
            records: batch.records,
            position: file.position(),
            skipped: batch.skipped,
        });
        self.current = Some((split, file));
        Ok(event)
    }

    fn open(
        &self,
        split: &SplitId,
        from: Option<&FilePosition>,
    ) -> Result<RecordFile, SourceError> {
        let path = Path::new(split.as_str());
        Ok(match self.format {
            Format::Csv => RecordFile::Csv(Box::new(CsvFile::open(path, from, &self.stop)?)),
            Format::JsonLines => {
                RecordFile::JsonLines(Box::new(JsonLinesFile::open(path, from, &self.stop)?))
            }
        })
    }
}

/// A file of records while it is read.
enum RecordFile {
    Csv(Box<CsvFile>),
    JsonLines(Box<JsonLinesFile>),
}

impl RecordFile {
    fn fill<T: DeserializeOwned>(&mut self, batch: &mut Batch<T>) -> Result<(), SourceError> {
        match self {
            Self::Csv(file) => file.fill(batch),
            Self::JsonLines(file) => file.fill(batch),
        }
    }

    fn position(&self) -> FilePosition {
        match self {
            Self::Csv(file) => file.position(),
            Self::JsonLines(file) => file.position(),
        }
    }
}
