//! A batch while it is read.

use std::fmt;
use std::path::Path;

use cofferdam::{OnMalformed, SourceError};

/// Records in a batch.
const RECORDS: usize = 1024;
/// Bytes of text in a batch, so that a batch of long records stays small in memory.
const BYTES: u64 = 4 * 1024 * 1024;

/// A batch while it is read.
pub(super) struct Batch<T> {
    pub(super) records: Vec<T>,
    pub(super) skipped: u64,
    on_malformed: OnMalformed,
}

impl<T> Batch<T> {
    pub(super) fn new(on_malformed: OnMalformed) -> Self {
        Self {
            records: Vec::with_capacity(RECORDS),
            skipped: 0,
            on_malformed,
        }
    }

    /// Whether it is time to hand it over, after so many bytes of text.
    pub(super) fn is_full(&self, bytes: u64) -> bool {
        self.records.len() as u64 + self.skipped >= RECORDS as u64 || bytes >= BYTES
    }

    /// Whether nothing at all was read into it.
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.skipped == 0
    }

    /// Fails or counts, as the source was told.
    pub(super) fn malformed(
        &mut self,
        error: impl FnOnce() -> SourceError,
    ) -> Result<(), SourceError> {
        match self.on_malformed {
            OnMalformed::Fail => Err(error()),
            OnMalformed::Skip => {
                self.skipped += 1;
                Ok(())
            }
        }
    }
}

/// The error about text that can't be read as a record. `place` follows the line: a column, a field, nothing.
pub(super) fn malformed(
    path: &Path,
    line: u64,
    place: impl fmt::Display,
    reason: impl fmt::Display,
) -> SourceError {
    SourceError::rejected(format!(
        "can't read {}, line {line}{place}: {reason}",
        path.display()
    ))
    .hint("correct the file, to the same length if a checkpoint has a position in it; or leave such records out with `OnMalformed::Skip`")
}
