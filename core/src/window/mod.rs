//! Windows over event time.

mod aggregate;
mod description;
mod panes;
mod shape;
mod stage;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use aggregate::{Addend, Aggregate, AggregateError, count, fold, max, mean, min, sum};
pub use stage::WindowChain;

use crate::time::{Timestamp, millis};

/// The longest window and the longest lateness: together they stay within event time.
const LONGEST: Duration = Duration::from_millis(i64::MAX.unsigned_abs() / 4);

/// How event time is cut into windows. Windows are aligned to 1970-01-01T00:00:00Z; each includes its start and excludes
/// its end.
///
/// At the ends of event time: a window that would start at or before [`Timestamp::MIN`] is never open, so that records which
/// have no other are late; an end beyond [`Timestamp::MAX`] is shown as `MAX`.
///
/// A window gives its result once, final, when the watermark has passed its end by the allowed lateness: so a sink that
/// only appends never sees a result corrected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    size: Duration,
    slide: Duration,
}

impl Windows {
    /// Windows of one size, one after another.
    pub const fn tumbling(size: Duration) -> Self {
        Self { size, slide: size }
    }

    /// Windows of one size, a new one each `slide`: a record belongs to all that cover it.
    pub const fn sliding(size: Duration, slide: Duration) -> Self {
        Self { size, slide }
    }

    /// What is wrong with the lengths, if anything.
    pub(crate) fn problem(self, lateness: Duration) -> Option<&'static str> {
        let long = [self.size, self.slide, lateness].into_iter().max();
        let whole = |length: Duration| length.subsec_nanos().is_multiple_of(1_000_000);
        if !whole(self.size) || !whole(self.slide) {
            Some("windows are measured in whole milliseconds")
        } else if long > Some(LONGEST) {
            Some("a window and its lateness last 70 million years at most")
        } else if self.size.is_zero() || self.slide.is_zero() {
            Some("a window needs a length above zero")
        } else if self.slide > self.size {
            Some("windows that slide by more than their size would leave records out")
        } else {
            None
        }
    }

    pub(crate) fn size_millis(self) -> i64 {
        millis(self.size)
    }

    pub(crate) fn slide_millis(self) -> i64 {
        millis(self.slide)
    }
}

/// The result of one window for one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowResult<K, O> {
    /// The key.
    pub key: K,
    /// Start of the window, included.
    pub start: Timestamp,
    /// End of the window, excluded.
    pub end: Timestamp,
    /// What the aggregate gave.
    pub value: O,
}

/// A record that came after all its windows had closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateRecord<K, T> {
    /// The key.
    pub key: K,
    /// The record.
    pub value: T,
    /// Its event time.
    pub timestamp: Timestamp,
}
