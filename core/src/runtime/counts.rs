//! Counts: exact at each checkpoint, and live for whoever watches.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::pipeline::Cut;

/// Totals of a job by name, such as `flights.records`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counters {
    totals: Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>,
}

impl Counters {
    /// Starts anew from the totals of a checkpoint: what came after it is counted again.
    pub(crate) fn reset(&self, totals: &BTreeMap<String, u64>) {
        let mut current = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh =
            |(name, total): (&String, &u64)| (name.clone(), Arc::new(AtomicU64::new(*total)));
        *current = totals.iter().map(fresh).collect();
    }

    /// A count of one subtask, which adds to the total of this name.
    pub(crate) fn count(&self, name: String) -> Count {
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        let total = Arc::clone(totals.entry(name.clone()).or_default());
        Count {
            name,
            here: 0,
            published: 0,
            total,
        }
    }

    pub(crate) fn totals(&self) -> BTreeMap<String, u64> {
        let totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals
            .iter()
            .map(|(name, total)| (name.clone(), total.load(Ordering::Relaxed)))
            .collect()
    }
}

/// A count of one subtask since the start of the run.
#[derive(Debug)]
pub struct Count {
    name: String,
    here: u64,
    published: u64,
    total: Arc<AtomicU64>,
}

impl Count {
    #[inline]
    pub(crate) fn add(&mut self, count: u64) {
        self.here += count;
    }

    /// Shows what was counted to whoever watches: once per batch, not per record.
    pub(crate) fn publish(&mut self) {
        if self.here > self.published {
            self.total
                .fetch_add(self.here - self.published, Ordering::Relaxed);
            self.published = self.here;
        }
    }

    /// Adds this count to a checkpoint.
    pub(crate) fn cut(&mut self, cut: &mut Cut) {
        self.publish();
        *cut.counts.entry(self.name.clone()).or_default() += self.here;
    }
}
