//! What keeps the suite from looking or acting.

use std::error::Error;

/// Why a factory or an observer did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The part is optional, and this sink has none. The check that needs it is skipped, with this reason.
    #[error("unsupported: {0}")]
    Unsupported(String),
    /// It was tried, and failed. The check fails.
    #[error("{action} failed: {cause}")]
    Failed {
        /// What was tried.
        action: String,
        /// What came of it.
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
}

impl Trouble {
    /// An optional part that is not there; `reason` stands in the report.
    pub fn unsupported(reason: impl Into<String>) -> Self {
        Self::Unsupported(reason.into())
    }

    /// Something that was tried and failed.
    pub fn failed(
        action: impl Into<String>,
        cause: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self::Failed {
            action: action.into(),
            cause: cause.into(),
        }
    }
}
