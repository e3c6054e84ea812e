//! Warnings about records that are left out more often than not.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use super::plan::Plan;

/// Least number of records that are looked at together.
const ENOUGH: u64 = 100;
/// The time between two warnings.
const PAUSE: Duration = Duration::from_secs(60);

/// Compares the counts of decided checkpoints.
pub(super) struct LeftOut {
    before: BTreeMap<String, u64>,
    warned: Option<Instant>,
}

impl LeftOut {
    pub(super) fn since(counts: BTreeMap<String, u64>) -> Self {
        Self {
            before: counts,
            warned: None,
        }
    }

    /// Warns if, since the counts before, a source has skipped more records than it has read, or a window operator has found
    /// more than half of the records of all sources late.
    pub(super) fn warn(&mut self, plan: &Plan, counts: &BTreeMap<String, u64>) {
        let new = |name: &dyn std::fmt::Display, what: &str| {
            let name = format!("{name}.{what}");
            let of = |counts: &BTreeMap<String, u64>| counts.get(&name).copied().unwrap_or(0);
            of(counts).saturating_sub(of(&self.before))
        };
        let job = &plan.job;
        let (mut read, mut all, mut warned) = (0, 0, false);
        let silent = self.warned.is_some_and(|at| at.elapsed() < PAUSE);
        for source in plan.sources.keys() {
            let (records, skipped) = (new(source, "records"), new(source, "skipped"));
            read += records;
            all += records + skipped;
            if !silent && skipped > records && skipped >= ENOUGH {
                warned = true;
                warn!(%job, %source, skipped, records, "most records are malformed and are skipped");
            }
        }
        if all < ENOUGH {
            return;
        }
        for operator in &plan.operators {
            let late = new(operator, "late");
            if !silent && late > read / 2 && late >= ENOUGH {
                warned = true;
                warn!(
                    %job, %operator, late, records = read,
                    "most records are late: a record with an event time far ahead moves the watermark past all others \
                     (see EventTime::at_most_ahead), or EventTime::out_of_order_by is too short"
                );
            }
        }
        if warned {
            self.warned = Some(Instant::now());
        }
        self.before.clone_from(counts);
    }
}
