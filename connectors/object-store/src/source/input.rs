//! The bytes of one file, uncompressed.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use cofferdam::SourceError;
use flate2::bufread::MultiGzDecoder;

use super::position::FilePosition;
use crate::error::source_error;

/// How much is read from a file at once.
pub(super) const BUFFER: usize = 256 * 1024;

/// An error that the disk gave, to tell it from one that the decompressor found.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct DiskError(#[source] io::Error);

/// The file has become shorter than it was when it was opened.
#[derive(Debug, thiserror::Error)]
#[error("the file became shorter while it was read")]
struct Shrunk;

/// A file, exactly as long as it was when it was opened: what is appended later is not read, and less is an error.
/// So a position never depends on when the file was read.
struct Whole {
    file: File,
    left: u64,
}

impl Read for Whole {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer
            .len()
            .min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if wanted == 0 {
            return Ok(0);
        }
        loop {
            match self.file.read(&mut buffer[..wanted]) {
                Ok(0) => return Err(io::Error::other(Shrunk)),
                Ok(read) => {
                    self.left -= read as u64;
                    return Ok(read);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(io::Error::other(DiskError(error))),
            }
        }
    }
}

enum Stream {
    Plain(Whole),
    Gzip(Box<MultiGzDecoder<BufReader<Whole>>>),
    Zstd(Box<zstd::Decoder<'static, BufReader<Whole>>>),
}

/// The bytes of one file, uncompressed if it is compressed.
pub(super) struct Input {
    path: PathBuf,
    length: u64,
    stream: Stream,
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.stream {
            Stream::Plain(file) => file.read(buffer),
            Stream::Gzip(decoder) => decoder.read(buffer),
            Stream::Zstd(decoder) => decoder.read(buffer),
        }
    }
}

impl Input {
    /// Opens a file at its start. Its first bytes, not its name, tell how it is compressed.
    pub(super) fn open(path: &Path) -> Result<Self, SourceError> {
        let length = length_of(path)?;
        let refused = |cause| source_error("read", path, cause);
        let mut file = File::open(path).map_err(refused)?;
        let mut magic = Vec::with_capacity(4);
        file.by_ref()
            .take(4)
            .read_to_end(&mut magic)
            .map_err(refused)?;
        file.rewind().map_err(refused)?;
        let whole = Whole { file, left: length };
        let stream = match Compression::of(&magic) {
            None => Stream::Plain(whole),
            Some(Compression::Gzip) => Stream::Gzip(Box::new(MultiGzDecoder::new(
                BufReader::with_capacity(BUFFER, whole),
            ))),
            Some(Compression::Zstd) => Stream::Zstd(Box::new(
                zstd::Decoder::with_buffer(BufReader::with_capacity(BUFFER, whole))
                    .map_err(refused)?,
            )),
        };
        Ok(Self {
            path: path.to_owned(),
            length,
            stream,
        })
    }

    /// How long the file is on disk.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Passes over bytes: a plain file seeks, a compressed one is decompressed up to there. `stop` ends it early.
    pub(super) fn skip(&mut self, bytes: u64, stop: &AtomicBool) -> Result<(), SourceError> {
        let missing = match &mut self.stream {
            Stream::Plain(file) if bytes <= file.left => {
                let start = SeekFrom::Start(self.length - file.left + bytes);
                file.file
                    .seek(start)
                    .map_err(|cause| source_error("seek in", &self.path, cause))?;
                file.left -= bytes;
                0
            }
            Stream::Plain(file) => bytes - file.left,
            Stream::Gzip(_) | Stream::Zstd(_) => self.discard(bytes, stop)?,
        };
        if missing == 0 {
            return Ok(());
        }
        Err(SourceError::configuration(format!(
            "the file {} ends {missing} bytes before the position in the checkpoint",
            self.path.display()
        ))
        .hint("bring back the file as it was; it can't be resumed from another"))
    }

    /// Reads over bytes and returns how many were not there.
    fn discard(&mut self, bytes: u64, stop: &AtomicBool) -> Result<u64, SourceError> {
        let mut buffer = vec![0; BUFFER];
        let mut left = bytes;
        while left > 0 {
            if stop.load(Ordering::Relaxed) {
                return Err(SourceError::transient("the reader was dropped"));
            }
            let wanted = buffer
                .len()
                .min(usize::try_from(left).unwrap_or(usize::MAX));
            match self.read(&mut buffer[..wanted]) {
                Ok(0) => break,
                Ok(read) => left -= read as u64,
                Err(error) => return Err(read_error(&self.path, error)),
            }
        }
        Ok(left)
    }
}

/// How long a file is. Anything but a regular file is refused: only such can be read again.
pub(super) fn length_of(path: &Path) -> Result<u64, SourceError> {
    let found = fs::metadata(path).map_err(|cause| source_error("read", path, cause))?;
    if found.is_file() {
        return Ok(found.len());
    }
    Err(
        SourceError::configuration(format!("{} is not a regular file", path.display()))
            .hint("only files on disk can be read again after a crash"),
    )
}

/// Refuses a file that is not as long as it was when the position was taken.
pub(super) fn check_length(
    path: &Path,
    length: u64,
    position: Option<&FilePosition>,
) -> Result<(), SourceError> {
    match position {
        Some(position) if position.length != length => Err(SourceError::configuration(format!(
            "the file changed since the checkpoint: {} had {} bytes, and has {length} now",
            path.display(),
            position.length
        ))
        .hint("bring back the file as it was; it can't be resumed from another")),
        _ => Ok(()),
    }
}

/// An error out of [`Input`]'s stream: the disk's, a changed file, or damaged compression.
pub(super) fn read_error(path: &Path, error: io::Error) -> SourceError {
    let cause = error.get_ref();
    if cause.is_some_and(|cause| cause.is::<Shrunk>()) {
        return SourceError::configuration(format!(
            "{} became shorter while it was read",
            path.display()
        ))
        .hint("files must not change while a job reads them")
        .caused_by(error);
    }
    if cause.is_some_and(|cause| cause.is::<DiskError>()) {
        return match error.downcast::<DiskError>() {
            Ok(DiskError(cause)) => source_error("read", path, cause),
            Err(error) => source_error("read", path, error),
        };
    }
    SourceError::rejected(format!(
        "the compressed file {} is damaged or cut short",
        path.display()
    ))
    .hint("bring a whole copy of the file; if a checkpoint has a position in it, start anew with empty folders for checkpoints and output")
    .caused_by(error)
}

#[derive(Debug, PartialEq, Eq)]
enum Compression {
    Gzip,
    Zstd,
}

impl Compression {
    /// What the first bytes of a file tell. The stump of a magic number counts: such a file was cut short.
    fn of(magic: &[u8]) -> Option<Self> {
        match magic {
            [0x1f] | [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0x28] | [0x28, 0xb5] | [0x28, 0xb5, 0x2f] | [0x28, 0xb5, 0x2f, 0xfd] => {
                Some(Self::Zstd)
            }
            // A skippable frame, with which parallel compressors begin.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Some(Self::Zstd),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_not_taken_for_compressed() {
        for text in ["", "((", "P*M", "a,b\n", "{\"a\":1}"] {
            let magic = &text.as_bytes()[..text.len().min(4)];
            assert_eq!(Compression::of(magic), None, "{text:?}");
        }
    }

    #[test]
    fn a_stump_of_magic_is_compressed() {
        assert_eq!(Compression::of(&[0x1f]), Some(Compression::Gzip));
        assert_eq!(Compression::of(b"("), Some(Compression::Zstd));
        assert_eq!(Compression::of(&[0x28, 0xb5]), Some(Compression::Zstd));
    }
}
