//! The formats of text files.

/// How records are written as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Comma-separated values under a header line.
    Csv,
    /// One JSON value a line.
    JsonLines,
}

impl Format {
    /// The extension of file names.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::JsonLines => "jsonl",
        }
    }

    /// The format behind an extension.
    pub(crate) fn of_extension(extension: &str) -> Option<Self> {
        [Self::Csv, Self::JsonLines]
            .into_iter()
            .find(|format| format.extension() == extension)
    }
}
