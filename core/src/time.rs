//! Event time and watermarks.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A point in event time: milliseconds since 1970-01-01T00:00:00Z, negative before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Before everything. As a watermark: nothing is known to be complete.
    pub const MIN: Self = Self(i64::MIN);
    /// After everything. As a watermark: everything is complete.
    pub const MAX: Self = Self(i64::MAX);

    /// From milliseconds since 1970-01-01T00:00:00Z.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Later by a duration; stops at [`MAX`](Self::MAX).
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(millis(duration)))
    }

    /// Earlier by a duration; stops at [`MIN`](Self::MIN). `MAX` stays `MAX`: complete is complete.
    #[must_use]
    pub fn saturating_sub(self, duration: Duration) -> Self {
        if self == Self::MAX {
            self
        } else {
            Self(self.0.saturating_sub(millis(duration)))
        }
    }
}

/// Whole milliseconds of a duration, at most `i64::MAX`.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
