//! An open transaction and the handle that it becomes.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use cofferdam::{SinkError, TransactionId};
use serde::{Deserialize, Serialize};

use super::encoder::{EncodeError, Encoder};
use crate::blocking::blocking;
use crate::error::sink_error;
use crate::format::Format;

/// How much text gathers in memory before it is written.
const BUFFER: usize = 256 * 1024;

/// The handle of a prepared transaction: its file, and what the file holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedFile {
    /// The file's name, in the folder `_staging` before commit and in the output folder after.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// The records in it.
    pub records: u64,
    /// Its CRC-32 (ISO-HDLC, as in gzip).
    pub crc32: u32,
}

/// An open transaction: a file in the folder `_staging`.
///
/// Dropped, it leaves the file there, as a crash would; `abort_stale` of a newer epoch removes it.
pub struct StagedTransaction {
    pub(super) id: TransactionId,
    pub(super) name: String,
    pub(super) path: PathBuf,
    encoder: Encoder,
    records: u64,
    /// `None` once a write failed or was cut off: what the file holds is not known then.
    writer: Option<Writer>,
}

impl fmt::Debug for StagedTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagedTransaction")
            .field("name", &self.name)
            .field("records", &self.records)
            .finish_non_exhaustive()
    }
}

impl StagedTransaction {
    pub(super) fn new(
        id: TransactionId,
        name: String,
        path: PathBuf,
        file: File,
        format: Format,
    ) -> Self {
        let writer = Writer {
            file,
            path: path.clone(),
            bytes: 0,
            crc: crc32fast::Hasher::new(),
        };
        Self {
            id,
            name,
            path,
            encoder: Encoder::new(format),
            records: 0,
            writer: Some(writer),
        }
    }

    /// Adds records; full buffers go to the file.
    pub(super) async fn write<T: Serialize>(&mut self, records: Vec<T>) -> Result<(), SinkError> {
        let mut records = records.into_iter();
        loop {
            let full = self.encode(&mut records)?;
            if !full {
                return Ok(());
            }
            self.flush().await?;
        }
    }

    /// Encodes until the buffer is full, which it tells, or the records are at their end.
    fn encode<T: Serialize>(
        &mut self,
        records: &mut impl Iterator<Item = T>,
    ) -> Result<bool, SinkError> {
        if self.writer.is_none() {
            return Err(self.unknown());
        }
        for record in records {
            self.records += 1;
            if let Err(cause) = self.encoder.encode(&record) {
                self.writer = None;
                return Err(self.refuse(cause));
            }
            if self.encoder.buffered() >= BUFFER {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes out the buffer. If it is cut off, the writer is gone, and the transaction can only be aborted.
    async fn flush(&mut self) -> Result<(), SinkError> {
        let text = self.encoder.take().map_err(|cause| self.refuse(cause))?;
        let mut writer = self.writer.take().ok_or_else(|| self.unknown())?;
        let (writer, text) = blocking(move || {
            writer.write(&text)?;
            Ok::<_, SinkError>((writer, text))
        })
        .await?;
        self.encoder.reuse(text);
        self.writer = Some(writer);
        Ok(())
    }

    /// Writes out what is left and makes it durable. `None` if there are no records. Blocks.
    pub(super) fn finish(&mut self) -> Result<Option<StagedFile>, SinkError> {
        let mut writer = self.writer.take().ok_or_else(|| self.unknown())?;
        if self.records == 0 {
            return Ok(None);
        }
        let text = self.encoder.take().map_err(|cause| self.refuse(cause))?;
        writer.write(&text)?;
        writer
            .file
            .sync_all()
            .map_err(|cause| sink_error("sync", &self.path, cause))?;
        Ok(Some(StagedFile {
            name: self.name.clone(),
            bytes: writer.bytes,
            records: self.records,
            crc32: writer.crc.finalize(),
        }))
    }

    fn refuse(&self, cause: EncodeError) -> SinkError {
        let number = self.records;
        SinkError::rejected(format!(
            "record {number} of {} can't be written as text",
            self.id
        ))
        .hint("the format can't hold a value of this shape")
        .caused_by(cause)
    }

    fn unknown(&self) -> SinkError {
        SinkError::unknown(format!(
            "a write to {} failed or was cut off",
            self.path.display()
        ))
        .hint("abort the transaction and write the records again")
    }
}

struct Writer {
    file: File,
    path: PathBuf,
    bytes: u64,
    crc: crc32fast::Hasher,
}

impl Writer {
    fn write(&mut self, text: &[u8]) -> Result<(), SinkError> {
        self.crc.update(text);
        self.bytes += text.len() as u64;
        self.file
            .write_all(text)
            .map_err(|cause| sink_error("write", &self.path, cause))
    }
}
