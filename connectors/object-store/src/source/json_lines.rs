//! JSON Lines: one value a line.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use cofferdam::SourceError;
use serde::de::DeserializeOwned;

use super::batch::{Batch, malformed};
use super::input::{BUFFER, Input, check_length, read_error};
use super::position::FilePosition;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// A JSON Lines file while it is read.
pub(super) struct JsonLinesFile {
    path: PathBuf,
    reader: BufReader<Input>,
    line: Vec<u8>,
    position: FilePosition,
}

impl JsonLinesFile {
    pub(super) fn open(
        path: &Path,
        from: Option<&FilePosition>,
        stop: &AtomicBool,
    ) -> Result<Self, SourceError> {
        let mut input = Input::open(path)?;
        check_length(path, input.length(), from)?;
        let start = FilePosition {
            offset: 0,
            line: 1,
            length: input.length(),
        };
        let position = from.copied().unwrap_or(start);
        input.skip(position.offset, stop)?;
        Ok(Self {
            path: path.to_owned(),
            reader: BufReader::with_capacity(BUFFER, input),
            line: Vec::new(),
            position,
        })
    }

    pub(super) fn position(&self) -> FilePosition {
        self.position
    }

    /// Reads until the batch is full or the file at its end.
    pub(super) fn fill<T: DeserializeOwned>(
        &mut self,
        batch: &mut Batch<T>,
    ) -> Result<(), SourceError> {
        let start = self.position.offset;
        while !batch.is_full(self.position.offset - start) {
            self.line.clear();
            let read = self
                .reader
                .read_until(b'\n', &mut self.line)
                .map_err(|error| read_error(&self.path, error))?;
            if read == 0 {
                break;
            }
            let number = self.position.line;
            let text = self.text();
            if !text.is_empty() {
                match serde_json::from_slice(text) {
                    Ok(record) => batch.records.push(record),
                    Err(error) => {
                        batch.malformed(|| refuse(&self.path, number, &error))?;
                    }
                }
            }
            self.position.offset += read as u64;
            self.position.line += u64::from(self.line.ends_with(b"\n"));
        }
        Ok(())
    }

    /// The line without the white space around it.
    fn text(&self) -> &[u8] {
        let line = match self.position.offset {
            0 => self
                .line
                .strip_prefix(BYTE_ORDER_MARK)
                .unwrap_or(&self.line),
            _ => &self.line,
        };
        line.trim_ascii_end()
    }
}

fn refuse(path: &Path, line: u64, error: &serde_json::Error) -> SourceError {
    let reason = error.to_string();
    // It saw one line alone, and calls it line 1.
    let reason = reason.split(" at line ").next().unwrap_or_default();
    malformed(
        path,
        line,
        format_args!(", column {}", error.column()),
        reason,
    )
}
