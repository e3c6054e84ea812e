//! Comma-separated values under a header line.

use std::fmt;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use cofferdam::SourceError;
use csv::{ByteRecord, DeserializeErrorKind, ErrorKind, Reader, ReaderBuilder};
use serde::de::DeserializeOwned;

use super::batch::{Batch, malformed};
use super::input::{BUFFER, Input, check_length, read_error};
use super::position::FilePosition;

/// What the parser reads: the header, then the file from the position on. To it, that is a file without the records
/// between, so it goes on exactly as it would have.
type Feed = io::Chain<Cursor<Vec<u8>>, Input>;

/// A CSV file while it is read.
pub(super) struct CsvFile {
    path: PathBuf,
    length: u64,
    reader: Reader<Feed>,
    header: ByteRecord,
    record: ByteRecord,
    /// How far the file is ahead of what the parser has seen.
    ahead: Ahead,
}

#[derive(Default)]
struct Ahead {
    bytes: u64,
    lines: u64,
}

impl CsvFile {
    pub(super) fn open(
        path: &Path,
        from: Option<&FilePosition>,
        stop: &AtomicBool,
    ) -> Result<Self, SourceError> {
        let mut input = Input::open(path)?;
        let length = input.length();
        check_length(path, length, from)?;
        let mut head = Vec::new();
        if let Some(from) = from {
            let end = header_end(path)?;
            let skipped = from.offset.checked_sub(end).ok_or_else(|| {
                SourceError::configuration(format!(
                    "the position in the checkpoint lies within the header of {}",
                    path.display()
                ))
                .hint("bring back the file as it was; it can't be resumed from another")
            })?;
            let read = input.by_ref().take(end).read_to_end(&mut head);
            read.map_err(|error| read_error(path, error))?;
            input.skip(skipped, stop)?;
        }
        let mut reader = parser(head, input);
        let header = header(path, &mut reader)?;
        let ahead = match from {
            None => Ahead::default(),
            Some(from) => Ahead {
                bytes: from.offset.saturating_sub(reader.position().byte()),
                lines: from.line.saturating_sub(reader.position().line()),
            },
        };
        let record = ByteRecord::new();
        Ok(Self {
            path: path.to_owned(),
            length,
            reader,
            header,
            record,
            ahead,
        })
    }

    pub(super) fn position(&self) -> FilePosition {
        let position = self.reader.position();
        FilePosition {
            offset: position.byte() + self.ahead.bytes,
            line: position.line() + self.ahead.lines,
            length: self.length,
        }
    }

    /// Reads until the batch is full or the file at its end.
    pub(super) fn fill<T: DeserializeOwned>(
        &mut self,
        batch: &mut Batch<T>,
    ) -> Result<(), SourceError> {
        let start = self.reader.position().byte();
        while !batch.is_full(self.reader.position().byte() - start) {
            let record = match self.reader.read_byte_record(&mut self.record) {
                Ok(false) => break,
                Ok(true) => self.record.deserialize(Some(&self.header)),
                Err(error) => Err(error),
            };
            match record {
                Ok(record) => batch.records.push(record),
                Err(error) => {
                    let error = error.into_kind();
                    if let Some(column) = self.missing_column(&error) {
                        return Err(self.refuse_header(column));
                    }
                    match error {
                        ErrorKind::Io(error) => return Err(read_error(&self.path, error)),
                        error => batch.malformed(|| self.refuse(&error))?,
                    }
                }
            }
        }
        Ok(())
    }

    /// The column that the header lacks, if that is the error: then no record of the file can be read.
    fn missing_column<'a>(&self, error: &'a ErrorKind) -> Option<&'a str> {
        let ErrorKind::Deserialize { err, .. } = error else {
            return None;
        };
        let DeserializeErrorKind::Message(message) = err.kind() else {
            return None;
        };
        // The wording is serde's, for a field that is neither there nor optional.
        let column = message.strip_prefix("missing field `")?.strip_suffix('`')?;
        self.header
            .iter()
            .all(|name| name != column.as_bytes())
            .then_some(column)
    }

    fn refuse_header(&self, column: &str) -> SourceError {
        SourceError::rejected(format!(
            "can't read {}, line {}: the header has no column {column:?}",
            self.path.display(),
            self.line_of_record()
        ))
        .hint(format!("its columns are: {}", names(&self.header)))
    }

    fn refuse(&self, error: &ErrorKind) -> SourceError {
        let line = self.line_of_record();
        let refuse =
            |place: &str, reason: &dyn fmt::Display| malformed(&self.path, line, place, reason);
        match error {
            ErrorKind::UnequalLengths {
                expected_len, len, ..
            } => refuse(
                "",
                &format_args!("the record has {len} fields, the header {expected_len}"),
            ),
            ErrorKind::Deserialize { err, .. } => {
                let field = err.field().and_then(|field| usize::try_from(field).ok());
                match field.and_then(|field| self.header.get(field)) {
                    Some(name) => {
                        let place = format!(", field {:?}", String::from_utf8_lossy(name));
                        refuse(&place, err.kind())
                    }
                    None => refuse("", err.kind()),
                }
            }
            other => refuse("", &format_args!("{other:?}")),
        }
    }

    /// The line on which the record begins that was read last.
    ///
    /// The parser knows where it stood before the record; line ends may lie between. So it is looked up in the file:
    /// an error can take its time.
    fn line_of_record(&self) -> u64 {
        let (byte, line) = self.record.position().map_or((0, 1), |position| {
            (
                position.byte() + self.ahead.bytes,
                position.line() + self.ahead.lines,
            )
        });
        let between = Input::open(&self.path).and_then(|mut input| {
            input.skip(byte, &AtomicBool::new(false))?;
            let breaks = io::BufReader::new(input)
                .bytes()
                .map_while(Result::ok)
                .take_while(|byte| matches!(byte, b'\r' | b'\n'))
                .filter(|byte| *byte == b'\n');
            Ok(breaks.count() as u64)
        });
        line + between.unwrap_or(0)
    }
}

fn parser(head: Vec<u8>, input: Input) -> Reader<Feed> {
    ReaderBuilder::new()
        .buffer_capacity(BUFFER)
        .from_reader(Cursor::new(head).chain(input))
}

/// How many bytes the header takes.
fn header_end(path: &Path) -> Result<u64, SourceError> {
    let mut reader = parser(Vec::new(), Input::open(path)?);
    header(path, &mut reader)?;
    Ok(reader.position().byte())
}

fn header(path: &Path, reader: &mut Reader<Feed>) -> Result<ByteRecord, SourceError> {
    let header = match reader.byte_headers() {
        Ok(header) => header.clone(),
        Err(error) => {
            return Err(match error.into_kind() {
                ErrorKind::Io(error) => read_error(path, error),
                other => malformed(path, 1, "", format_args!("{other:?}")),
            });
        }
    };
    match header.iter().find_map(|name| str::from_utf8(name).err()) {
        Some(error) => Err(malformed(path, 1, " (the header)", error)),
        None => Ok(header),
    }
}

fn names(header: &ByteRecord) -> String {
    let names: Vec<_> = header.iter().map(String::from_utf8_lossy).collect();
    names.join(", ")
}
