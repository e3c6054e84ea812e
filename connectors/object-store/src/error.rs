//! What the file system's errors ask of the caller: one table for source and sink.

use std::io;
use std::path::Path;

use cofferdam::{ErrorKind, SinkError, SourceError};

/// The kind of an I/O error, and what the reader of it can do.
fn classify(error: &io::Error) -> (ErrorKind, Option<&'static str>) {
    use io::ErrorKind as Io;
    let hint = match error.kind() {
        Io::NotFound => "check the path, and that its disk is mounted",
        Io::PermissionDenied => "give the user of this process the right to it",
        Io::ReadOnlyFilesystem => "the file system is mounted read-only: choose another folder",
        Io::NotADirectory => "a file stands where a folder should be: check the path",
        Io::IsADirectory | Io::AlreadyExists => "something else has this name: check the path",
        Io::StorageFull | Io::QuotaExceeded | Io::FileTooLarge => {
            "free space on the disk, or raise the quota or the limit on file sizes"
        }
        Io::CrossesDevices => {
            "the folder `_staging` must be on the same file system as the folder around it"
        }
        Io::Unsupported => "choose a file system with hard links",
        Io::InvalidFilename | Io::InvalidInput => "the path can't be a path here: choose another",
        _ => return (ErrorKind::Transient, None),
    };
    (ErrorKind::Configuration, Some(hint))
}

/// A sink's I/O error: `attempt` and `path` complete "can't …".
pub(crate) fn sink_error(attempt: &str, path: &Path, cause: io::Error) -> SinkError {
    let (kind, hint) = classify(&cause);
    let error = SinkError::new(kind, message(attempt, path)).caused_by(cause);
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

/// A source's I/O error: `attempt` and `path` complete "can't …".
pub(crate) fn source_error(attempt: &str, path: &Path, cause: io::Error) -> SourceError {
    let (kind, hint) = classify(&cause);
    let error = SourceError::new(kind, message(attempt, path)).caused_by(cause);
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

fn message(attempt: &str, path: &Path) -> String {
    format!("can't {attempt} {}", path.display())
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn an_error_names_the_path_and_keeps_its_cause() {
        let error = sink_error(
            "write",
            Path::new("/out/x"),
            io::ErrorKind::StorageFull.into(),
        );
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(
            error
                .to_string()
                .starts_with("can't write /out/x (free space")
        );
        assert!(error.source().is_some());
    }

    #[test]
    fn what_nobody_has_to_change_is_tried_again() {
        for kind in [
            io::ErrorKind::TimedOut,
            io::ErrorKind::Other,
            io::ErrorKind::ResourceBusy,
        ] {
            let error = source_error("read", Path::new("x"), kind.into());
            assert_eq!(error.kind(), ErrorKind::Transient, "{kind:?}");
        }
    }
}
