//! Where a file goes on.

use serde::{Deserialize, Serialize};

/// Where to go on in a file: after the last record that was returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePosition {
    /// Bytes of uncompressed text before it.
    pub offset: u64,
    /// The number of the line it is in, from 1.
    pub line: u64,
    /// How long the file was on disk when it was first opened. A file of another length is another file.
    pub length: u64,
}
