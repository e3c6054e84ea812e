//! Records as text. Another format is another variant.

use std::cell::Cell;
use std::io;

use serde::Serialize;

use crate::format::Format;

/// Why a record has no text.
#[derive(Debug, thiserror::Error)]
pub(super) enum EncodeError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Csv(#[from] csv::Error),
}

/// Turns records into text, which gathers in a buffer.
pub(super) enum Encoder {
    JsonLines(Vec<u8>),
    Csv(Box<csv::Writer<Buffer>>),
}

impl Encoder {
    pub(super) fn new(format: Format) -> Self {
        match format {
            Format::JsonLines => Self::JsonLines(Vec::new()),
            Format::Csv => Self::Csv(Box::new(csv::Writer::from_writer(Buffer::default()))),
        }
    }

    /// Adds a record. After an error the text so far is of no use.
    pub(super) fn encode<T: Serialize>(&mut self, record: &T) -> Result<(), EncodeError> {
        match self {
            Self::JsonLines(buffer) => {
                serde_json::to_writer(&mut *buffer, record)?;
                buffer.push(b'\n');
            }
            Self::Csv(writer) => writer.serialize(record)?,
        }
        Ok(())
    }

    /// About how much text there is; the writer of CSV holds back a few kilobytes more.
    pub(super) fn buffered(&self) -> usize {
        match self {
            Self::JsonLines(buffer) => buffer.len(),
            Self::Csv(writer) => writer.get_ref().len(),
        }
    }

    /// Takes the text out.
    pub(super) fn take(&mut self) -> Result<Vec<u8>, EncodeError> {
        match self {
            Self::JsonLines(buffer) => Ok(std::mem::take(buffer)),
            Self::Csv(writer) => {
                writer.flush().map_err(csv::Error::from)?;
                Ok(writer.get_ref().0.take())
            }
        }
    }

    /// Gives back the memory of text that is written.
    pub(super) fn reuse(&mut self, mut written: Vec<u8>) {
        written.clear();
        match self {
            Self::JsonLines(buffer) => *buffer = written,
            Self::Csv(writer) => writer.get_ref().0.set(written),
        }
    }
}

/// Memory to write to, that can be taken out of the writer around it.
#[derive(Default)]
pub(super) struct Buffer(Cell<Vec<u8>>);

impl Buffer {
    fn len(&self) -> usize {
        let bytes = self.0.take();
        let len = bytes.len();
        self.0.set(bytes);
        len
    }
}

impl io::Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.get_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Order {
        id: u32,
        note: &'static str,
    }

    #[test]
    fn the_header_is_written_once() {
        let mut encoder = Encoder::new(Format::Csv);
        encoder.encode(&Order { id: 1, note: "a,b" }).unwrap();
        assert_eq!(encoder.take().unwrap(), b"id,note\n1,\"a,b\"\n");
        encoder
            .encode(&Order {
                id: 2,
                note: "c\nd",
            })
            .unwrap();
        assert_eq!(encoder.take().unwrap(), b"2,\"c\nd\"\n");
    }

    #[test]
    fn a_value_is_one_line() {
        let mut encoder = Encoder::new(Format::JsonLines);
        encoder
            .encode(&Order {
                id: 1,
                note: "c\nd",
            })
            .unwrap();
        assert_eq!(encoder.buffered(), 23);
        assert_eq!(encoder.take().unwrap(), b"{\"id\":1,\"note\":\"c\\nd\"}\n");
    }
}
