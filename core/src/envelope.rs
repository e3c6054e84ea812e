//! The envelope around everything that is stored: handles, log records, state parts.
//!
//! One line of text, then the content as it is:
//!
//! ```text
//! COFFERDAM <kind> <version> <length of content in bytes> <CRC-32 of content, 8 hex digits>\n
//! <content>
//! ```
//!
//! Text, so that an operator can read a handle or a manifest with the tools at hand. Stored bytes are hostile until
//! this module has let them pass: nothing is allocated, and nothing decoded, before length and checksum hold.

use std::fmt;

const MAGIC: &str = "COFFERDAM";
/// Longest header that can be valid; bounds the search for its end in hostile bytes.
const MAX_HEADER: usize = 80;

/// What an envelope holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The handle of a prepared transaction.
    Handle,
    /// A record of the checkpoint log.
    Log,
    /// Operator state of one subtask.
    State,
}

impl Kind {
    /// The format version that is written, and the only one that is read. It rises when a program of the version before
    /// could not read what is written now.
    const fn version(self) -> u32 {
        match self {
            Self::Handle => 1,
            Self::Log | Self::State => 2,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Handle => "handle",
            Self::Log => "log",
            Self::State => "state",
        })
    }
}

/// Why stored bytes are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// The bytes do not begin with a header of ours.
    #[error("it does not begin with a Cofferdam header")]
    NotOurs,
    /// It holds something else than what was asked for.
    #[error("it holds a {found:?} where a {expected:?} belongs")]
    OtherKind {
        /// What was asked for.
        expected: String,
        /// What the header says.
        found: String,
    },
    /// A newer program wrote it.
    #[error(
        "it has format version {found}, and this program reads version {read}: run a newer program"
    )]
    NewerVersion {
        /// The version in the header.
        found: u32,
        /// The version that this program reads.
        read: u32,
    },
    /// An older program wrote it.
    #[error(
        "it has format version {found}, and this program reads version {read}: let the program that wrote it finish the \
         job, or start again with an empty checkpoint store and empty outputs"
    )]
    OlderVersion {
        /// The version in the header.
        found: u32,
        /// The version that this program reads.
        read: u32,
    },
    /// It is shorter or longer than its header says.
    #[error("its header says {expected} bytes, but {found} bytes follow: it was cut or added to")]
    Length {
        /// Length in the header, in bytes.
        expected: u64,
        /// Length found, in bytes.
        found: u64,
    },
    /// Its bytes are not those that were written.
    #[error("its checksum is {found:08x}, but {expected:08x} was written: it is corrupt")]
    Checksum {
        /// Checksum in the header.
        expected: u32,
        /// Checksum of what was found.
        found: u32,
    },
}

/// Puts content into an envelope.
pub(crate) fn seal(kind: Kind, content: &[u8]) -> Vec<u8> {
    let checksum = crc32fast::hash(content);
    let mut bytes = format!(
        "{MAGIC} {kind} {} {} {checksum:08x}\n",
        kind.version(),
        content.len()
    )
    .into_bytes();
    bytes.extend_from_slice(content);
    bytes
}

/// Checks an envelope and returns its content.
pub(crate) fn open(expected: Kind, bytes: &[u8]) -> Result<&[u8], EnvelopeError> {
    let end = bytes
        .iter()
        .take(MAX_HEADER)
        .position(|&byte| byte == b'\n');
    let (header, content) = bytes.split_at_checked(end.unwrap_or(0)).unwrap_or_default();
    let header = std::str::from_utf8(header).map_err(|_| EnvelopeError::NotOurs)?;
    let fields: Vec<&str> = header.split(' ').collect();
    let &[MAGIC, kind, version, length, checksum] = fields.as_slice() else {
        return Err(EnvelopeError::NotOurs);
    };
    let (found, read): (u32, u32) = (
        version.parse().map_err(|_| EnvelopeError::NotOurs)?,
        expected.version(),
    );
    if found > read {
        return Err(EnvelopeError::NewerVersion { found, read });
    }
    if kind != expected.to_string() {
        return Err(EnvelopeError::OtherKind {
            expected: expected.to_string(),
            found: kind.to_owned(),
        });
    }
    if found < read {
        return Err(EnvelopeError::OlderVersion { found, read });
    }
    let content = content.get(1..).ok_or(EnvelopeError::NotOurs)?;
    let (length, found): (u64, u64) = (
        length.parse().map_err(|_| EnvelopeError::NotOurs)?,
        content.len() as u64,
    );
    if length != found {
        return Err(EnvelopeError::Length {
            expected: length,
            found,
        });
    }
    let expected = u32::from_str_radix(checksum, 16).map_err(|_| EnvelopeError::NotOurs)?;
    let found = crc32fast::hash(content);
    if expected != found {
        return Err(EnvelopeError::Checksum { expected, found });
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_written_form_never_changes() {
        // Golden bytes: stored checkpoints must stay readable.
        assert_eq!(
            seal(Kind::Handle, b"{\"a\":1}"),
            b"COFFERDAM handle 1 7 561bacaf\n{\"a\":1}"
        );
    }

    #[test]
    fn a_newer_version_is_named_before_anything_else() {
        let newer = b"COFFERDAM log 3 99 zz\nwhatever";
        assert_eq!(
            open(Kind::Log, newer),
            Err(EnvelopeError::NewerVersion { found: 3, read: 2 })
        );
    }

    #[test]
    fn an_older_version_is_refused() {
        let older = b"COFFERDAM log 1 2 zz\n{}";
        assert_eq!(
            open(Kind::Log, older),
            Err(EnvelopeError::OlderVersion { found: 1, read: 2 })
        );
    }

    proptest! {
        #[test]
        fn content_survives(content: Vec<u8>) {
            let sealed = seal(Kind::State, &content);
            prop_assert_eq!(open(Kind::State, &sealed), Ok(&content[..]));
        }

        #[test]
        fn hostile_bytes_are_refused_without_panic(bytes: Vec<u8>) {
            prop_assert!(open(Kind::Log, &bytes).is_err());
        }

        #[test]
        fn every_cut_and_every_flipped_bit_is_noticed(content: Vec<u8>, at: prop::sample::Index, bit in 0..8u8) {
            let sealed = seal(Kind::Log, &content);
            let at = at.index(sealed.len());
            prop_assert!(open(Kind::Log, &sealed[..at]).is_err());
            let mut flipped = sealed.clone();
            flipped[at] ^= 1 << bit;
            // A flip of the case bit of a checksum digit changes no meaning; nothing else may pass.
            if let Ok(content_read) = open(Kind::Log, &flipped) {
                prop_assert_eq!(content_read, &content[..]);
            }
        }
    }
}
