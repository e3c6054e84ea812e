//! Where event time comes from.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::source::OnMalformed;
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
    ahead: Option<Duration>,
    on_malformed: OnMalformed,
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
            ahead: None,
            on_malformed: OnMalformed::Fail,
        }
    }

    /// How far behind the newest event time of its split a record may be without being out of bounds.
    #[must_use]
    pub fn out_of_order_by(mut self, bound: Duration) -> Self {
        self.bound = bound;
        self
    }

    /// How far ahead of the clock of this machine an event time may be; without a limit, if not set. Without it, a single
    /// record from the far future makes all that follow it in its split late.
    ///
    /// A record further ahead is malformed: it does not move the watermark, and [`on_malformed`](Self::on_malformed) says
    /// what becomes of it. After a crash, records that no checkpoint holds are judged again, by the clock of then.
    #[must_use]
    pub fn at_most_ahead(mut self, ahead: Duration) -> Self {
        self.ahead = Some(ahead);
        self
    }

    /// The treatment of records that are too far [ahead](Self::at_most_ahead); [`OnMalformed::Fail`] if not set. Skipped
    /// ones are counted as `skipped` of the source.
    #[must_use]
    pub fn on_malformed(mut self, on_malformed: OnMalformed) -> Self {
        self.on_malformed = on_malformed;
        self
    }
}

impl<F> fmt::Debug for EventTime<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventTime")
            .field("bound", &self.bound)
            .field("ahead", &self.ahead)
            .field("on_malformed", &self.on_malformed)
            .finish_non_exhaustive()
    }
}

/// The time of the clock of this machine; zero if it was never set.
#[expect(
    clippy::disallowed_methods,
    reason = "the user asks for a limit by wall time"
)]
fn since_1970() -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default()
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
    /// The latest event time that a record may have now.
    fn latest(&self) -> Timestamp {
        Timestamp::MAX
    }
    /// The treatment of records with a later one.
    fn on_malformed(&self) -> OnMalformed {
        OnMalformed::Fail
    }
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

    fn latest(&self) -> Timestamp {
        let Some(ahead) = self.ahead else {
            return Timestamp::MAX;
        };
        Timestamp::from_millis(millis(since_1970())).saturating_add(ahead)
    }

    fn on_malformed(&self) -> OnMalformed {
        self.on_malformed
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
