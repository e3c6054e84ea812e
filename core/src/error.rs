//! What can go wrong in a connector, by what is to be done about it.

use std::error::Error as StdError;
use std::fmt;

/// The cause behind an error.
pub(crate) type Cause = Box<dyn StdError + Send + Sync + 'static>;

/// What the caller has to do about an error. A new kind needs a new action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// It did not happen, and may succeed later: try again, with backoff.
    Transient,
    /// No answer came: it may or may not have happened. Look at the evidence, then try again.
    Unknown,
    /// A newer epoch of the job runs: touch nothing. The runtime holds this against the checkpoint log: a job that was taken
    /// over ends, one that still holds its epoch rolls back.
    Fenced,
    /// This record or transaction can never succeed; the same input fails again.
    Rejected,
    /// A human has to change something outside: a setting, a right, a quota, a path, a table that is gone, a damaged file.
    Configuration,
}

impl ErrorKind {
    /// Whether the same call may succeed if it is simply made again.
    pub fn is_retriable(self) -> bool {
        matches!(self, Self::Transient | Self::Unknown)
    }
}

macro_rules! connector_error {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $type {
            kind: ErrorKind,
            message: String,
            hint: Option<String>,
            cause: Option<Cause>,
        }

        impl $type {
            /// An error of a kind; `message` says what was tried, on what, and what came of it.
            pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
                Self { kind, message: message.into(), hint: None, cause: None }
            }

            /// [`ErrorKind::Transient`]: it did not happen, and may succeed later.
            pub fn transient(message: impl Into<String>) -> Self {
                Self::new(ErrorKind::Transient, message)
            }

            /// [`ErrorKind::Unknown`]: no answer came.
            pub fn unknown(message: impl Into<String>) -> Self {
                Self::new(ErrorKind::Unknown, message)
            }

            /// [`ErrorKind::Fenced`]: a newer epoch runs.
            pub fn fenced(message: impl Into<String>) -> Self {
                Self::new(ErrorKind::Fenced, message)
            }

            /// [`ErrorKind::Rejected`]: the same input fails again.
            pub fn rejected(message: impl Into<String>) -> Self {
                Self::new(ErrorKind::Rejected, message)
            }

            /// [`ErrorKind::Configuration`]: a human has to change something.
            pub fn configuration(message: impl Into<String>) -> Self {
                Self::new(ErrorKind::Configuration, message)
            }

            /// Adds what the reader of the error can do.
            #[must_use]
            pub fn hint(mut self, hint: impl Into<String>) -> Self {
                self.hint = Some(hint.into());
                self
            }

            /// Adds the error behind this one. It must not hold secrets: it is shown.
            #[must_use]
            pub fn caused_by(mut self, cause: impl Into<Box<dyn StdError + Send + Sync + 'static>>) -> Self {
                self.cause = Some(cause.into());
                self
            }

            /// What is to be done about it.
            pub fn kind(&self) -> ErrorKind {
                self.kind
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.message)?;
                match &self.hint {
                    Some(hint) => write!(f, " ({hint})"),
                    None => Ok(()),
                }
            }
        }

        impl StdError for $type {
            fn source(&self) -> Option<&(dyn StdError + 'static)> {
                self.cause.as_ref().map(|cause| &**cause as &(dyn StdError + 'static))
            }
        }
    };
}

connector_error!(
    /// An error of a sink. One line of text, with a hint and the cause behind it.
    ///
    /// ```
    /// use cofferdam::{ErrorKind, SinkError};
    ///
    /// let error = SinkError::configuration("can't create /data/out").hint("give this user the right to write there");
    /// assert_eq!(error.kind(), ErrorKind::Configuration);
    /// assert_eq!(error.to_string(), "can't create /data/out (give this user the right to write there)");
    /// ```
    SinkError
);
connector_error!(
    /// An error of a source. One line of text, with a hint and the cause behind it.
    SourceError
);

/// An error with all its causes on one line, for logs and messages.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        // Many errors print their cause themselves; say it once.
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}
