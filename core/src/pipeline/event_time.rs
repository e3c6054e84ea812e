//! Where event time comes from.

use std::fmt;
use std::time::Duration;

use crate::time::{Timestamp, millis};

/// Reads the event time of records, and says how far they may be out of order.
///
/// The watermark of a split is the newest event time seen in it, less the bound, less one millisecond: no record up to
/// that time is expected any more. A record below the watermark of its own split is out of bounds; whether it is *late*
/// is for each window to say. The watermark of a subtask is the least of its splits' that are neither idle nor finished;
/// a split of which nothing was read yet holds it back.
///
/// ```
/// use std::time::Duration;
/// use cofferdam::{EventTime, Timestamp};
///
/// struct Flight { scheduled: i64 }
///
/// let event_time = EventTime::of(|flight: &Flight| Timestamp::from_millis(flight.scheduled))
///     .out_of_order_by(Duration::from_secs(60));
/// ```
#[derive(Clone)]
pub struct EventTime<F> {
    timestamp: F,
    bound: Duration,
}

impl<F> EventTime<F> {
    /// Event time read from each record; in order, until [`out_of_order_by`](Self::out_of_order_by) says otherwise.
    pub fn of<R>(timestamp: F) -> Self
    where
        F: Fn(&R) -> Timestamp + Clone + Send + Sync + 'static,
    {
        Self {
            timestamp,
            bound: Duration::ZERO,
        }
    }

    /// How far behind the newest event time of its split a record may be without being out of bounds.
    #[must_use]
    pub fn out_of_order_by(mut self, bound: Duration) -> Self {
        self.bound = bound;
        self
    }
}

impl<F> fmt::Debug for EventTime<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventTime")
            .field("bound", &self.bound)
            .finish_non_exhaustive()
    }
}

/// No event time: for pipelines without windows.
#[derive(Debug, Clone, Copy)]
pub struct NoEventTime;

/// [`EventTime`] or [`NoEventTime`].
pub trait TimestampAssigner<R>: Clone + Send + Sync + 'static {
    /// Whether records have event time at all.
    const HAS_EVENT_TIME: bool;
    /// The event time of a record.
    fn timestamp(&self, record: &R) -> Timestamp;
    /// The watermark after records up to this event time.
    fn watermark(&self, newest: Timestamp) -> Timestamp;
}

impl<R, F: Fn(&R) -> Timestamp + Clone + Send + Sync + 'static> TimestampAssigner<R>
    for EventTime<F>
{
    const HAS_EVENT_TIME: bool = true;

    #[inline]
    fn timestamp(&self, record: &R) -> Timestamp {
        (self.timestamp)(record)
    }

    #[inline]
    fn watermark(&self, newest: Timestamp) -> Timestamp {
        let bound = millis(self.bound).saturating_add(1);
        Timestamp::from_millis(newest.as_millis().saturating_sub(bound))
    }
}

impl<R> TimestampAssigner<R> for NoEventTime {
    const HAS_EVENT_TIME: bool = false;

    fn timestamp(&self, _: &R) -> Timestamp {
        Timestamp::MIN
    }

    fn watermark(&self, _: Timestamp) -> Timestamp {
        Timestamp::MIN
    }
}
