//! One partition while it is read.

use std::time::{Duration, Instant};

use cofferdam::{SourceBatch, SourceEvent, SplitId};

use super::position::{KafkaPosition, Partition};

/// One partition while it is read.
#[derive(Debug)]
pub(super) struct Split {
    pub(super) id: SplitId,
    pub(super) partition: Partition,
    pub(super) next: KafkaPosition,
    /// The offset that was told last.
    told: i64,
    /// Since when there has been nothing to read, as far as is known.
    quiet_since: Option<Instant>,
    is_idle: bool,
    pub(super) is_finished: bool,
}

impl Split {
    pub(super) fn new(partition: Partition, position: KafkaPosition) -> Self {
        Self {
            id: partition.split(),
            partition,
            told: position.offset,
            next: position,
            quiet_since: None,
            is_idle: false,
            is_finished: false,
        }
    }

    /// A record was read.
    pub(super) fn passed(&mut self, offset: i64) {
        self.next.offset = offset + 1;
        self.quiet_since = None;
    }

    /// The end was seen at this offset: all before it is read, also what is no record.
    pub(super) fn ended_at(&mut self, offset: i64) {
        self.next.offset = self.next.offset.max(offset);
        self.quiet_since.get_or_insert_with(Instant::now);
    }

    /// Nothing is read from the stop on, wherever the next record lies.
    pub(super) fn stops(&mut self) {
        if let Some(stop) = self.next.stop {
            self.next.offset = stop;
        }
    }

    /// Tells where it begins, so that the next checkpoint knows, whether records come or not.
    pub(super) fn start<R>(&self) -> SourceEvent<R, KafkaPosition> {
        self.event(Vec::new(), 0)
    }

    /// A batch of these records, if there is anything to tell.
    pub(super) fn batch<R>(
        &mut self,
        records: Vec<R>,
        skipped: u64,
    ) -> Option<SourceEvent<R, KafkaPosition>> {
        if self.told == self.next.offset {
            return None;
        }
        self.told = self.next.offset;
        // Any batch ends that, also one without records: where nothing came, it is told again.
        self.is_idle = false;
        Some(self.event(records, skipped))
    }

    fn event<R>(&self, records: Vec<R>, skipped: u64) -> SourceEvent<R, KafkaPosition> {
        SourceEvent::Batch(SourceBatch {
            split: self.id.clone(),
            records,
            position: self.next.clone(),
            skipped,
        })
    }

    /// Whether it is to be told as idle now.
    pub(super) fn goes_idle(&mut self, after: Duration) -> bool {
        let goes = !self.is_idle
            && !self.is_finished
            && self
                .quiet_since
                .is_some_and(|since| since.elapsed() >= after);
        self.is_idle |= goes;
        goes
    }
}
