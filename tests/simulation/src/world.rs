//! What outlives every process: the checkpoint store, the outside systems, and what is known of them.

use std::sync::Arc;

use cofferdam::{JobId, MemoryCheckpointStore, SinkId};
use cofferdam_conformance::{Event, Promise, check};

use crate::expected;
use crate::input::Rows;
use crate::observed::Observed;
use crate::outside::Outside;
use crate::pipeline::JOB;
use crate::rare::Rare;
use crate::schedule::{Effect, Schedule, Shape};
use crate::sink::look;

/// The world around the processes of one job.
#[derive(Debug)]
pub struct World {
    /// What happens in it.
    pub schedule: Schedule,
    /// What the sources hold.
    pub inputs: Vec<Arc<Rows>>,
    /// The checkpoint store.
    pub store: MemoryCheckpointStore,
    /// The outside systems, by the names of their sinks.
    pub sinks: Vec<(SinkId, Outside)>,
    /// What is known.
    pub observed: Observed,
}

impl World {
    /// The world of a schedule, before anything happens.
    #[must_use]
    pub fn new(schedule: &Schedule) -> Self {
        let sink = |name: &&str| {
            let id = SinkId::new(*name).expect("a name of this crate");
            (id, Outside::new(schedule.flaw))
        };
        let rows = |source| Arc::new(schedule.rows(source));
        Self {
            inputs: (0..schedule.sources()).map(rows).collect(),
            store: MemoryCheckpointStore::new(),
            sinks: Self::sink_names(schedule.workload.shape)
                .iter()
                .map(sink)
                .collect(),
            observed: Observed::new(),
            schedule: schedule.clone(),
        }
    }

    /// Lets a reader look at everything.
    pub fn look(&self) {
        for (id, outside) in &self.sinks {
            look(&self.observed, outside, id);
        }
    }

    /// All is settled: what is decided must be visible, and nothing in doubt.
    pub async fn quiet(&self) {
        let job = JobId::new(JOB).expect("a name of this crate");
        for (id, outside) in &self.sinks {
            self.observed.event(id, Event::Quiet);
            let in_doubt = outside.in_doubt(&job).await.unwrap_or_default();
            self.observed.demand(in_doubt.is_empty(), || {
                let names = in_doubt.iter().map(ToString::to_string);
                format!(
                    "in doubt at the end: {}",
                    names.collect::<Vec<_>>().join(", ")
                )
            });
        }
    }

    /// The one place where it is judged whether all was well.
    pub fn judge(&self, done: bool) -> Vec<String> {
        let mut wrong = self
            .observed
            .with(|facts| std::mem::take(&mut facts.violations));
        let histories = self
            .observed
            .with(|facts| std::mem::take(&mut facts.histories));
        for (sink, history) in &histories {
            let found = check(history, Promise::default());
            wrong.extend(
                found
                    .iter()
                    .map(|anomaly| format!("sink {sink}: {anomaly}")),
            );
        }
        wrong.extend(self.compare(done));
        wrong
    }

    /// Compares what is visible with what a plain loop makes of the input.
    fn compare(&self, done: bool) -> Vec<String> {
        let visible = |sink: usize| -> Vec<u64> {
            self.sinks[sink]
                .1
                .visible()
                .into_iter()
                .map(|(_, record)| record)
                .collect()
        };
        let shape = self.schedule.workload.shape;
        match shape {
            Shape::Plain | Shape::Twice => {
                let inputs = self.inputs.iter().enumerate();
                inputs
                    .flat_map(|(sink, rows)| expected::plain(rows, &visible(sink), done))
                    .collect()
            }
            // Which results are there before the end depends on what was read.
            _ if !done => Vec::new(),
            Shape::Windows { .. } | Shape::Late { .. } | Shape::Chained => {
                let late = (self.sinks.len() > 1).then(|| visible(1));
                let cut = self.schedule.cut();
                let (wrong, by_idleness) =
                    expected::windowed(&self.inputs[0], shape, cut, &visible(0), late.as_deref());
                if by_idleness > 0 {
                    self.observed.reached(Rare::LateByIdleness);
                }
                wrong
            }
        }
    }
}

impl Schedule {
    /// Whether no two processes are ever alive at once, and no effect comes after its process has died.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        let never = |effect| {
            !matches!(
                effect,
                Effect::Freeze(_) | Effect::StartTwice | Effect::Later(_) | Effect::CrashLater(_)
            )
        };
        self.faults.iter().all(|fault| never(fault.effect))
    }
}
