//! The job that a schedule describes, in one process.

use std::sync::Arc;
use std::time::Duration;

use cofferdam::{
    EventTime, Job, NoEventTime, Pipeline, RestartStrategy, Timestamp, WindowResult, Windows, fold,
};

use crate::input::{LARGE, Record};
use crate::process::Process;
use crate::random::mixed;
use crate::schedule::Shape;
use crate::sink::{SimulatedSink, SinkSettings};
use crate::source::SimulatedSource;
use crate::store::SimulatedStore;
use crate::world::World;

/// The name of the job.
pub const JOB: &str = "simulated";

/// The contents of a window: how many records, and a sum over their ids that tells one set from another.
pub type Contents = (u64, u64);

/// Takes a record into a window.
pub fn take(contents: &mut Contents, id: u32) {
    contents.0 += 1;
    contents.1 = contents.1.wrapping_add(mixed(&[u64::from(id)]));
}

/// The result of a window as one number: when, which key, how many records, and which.
#[must_use]
pub fn number(start: i64, slide: i64, key: u8, (count, sum): Contents) -> u64 {
    let index = u64::try_from(start / slide + 256).unwrap_or(0);
    index << 48 | u64::from(key) << 40 | (count & 0xFF) << 32 | (sum & 0xFFFF_FFFF)
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn millis(millis: i64) -> Duration {
    ms(millis.unsigned_abs())
}

impl World {
    fn source(&self, process: &Process, source: usize) -> SimulatedSource {
        SimulatedSource {
            rows: Arc::clone(&self.inputs[source]),
            batch: self.schedule.workload.batch,
            pause: self.schedule.workload.pause,
            process: process.clone(),
            flaw: self.schedule.flaw,
        }
    }

    fn sink(&self, process: &Process, sink: usize) -> SimulatedSink {
        let (id, outside) = &self.sinks[sink];
        SimulatedSink {
            outside: outside.clone(),
            process: process.clone(),
            settings: Arc::new(SinkSettings {
                id: id.clone(),
                max_prepared: self.schedule.workload.max_prepared,
                ordered: self.schedule.workload.ordered,
                look_every: self.schedule.workload.look_every,
                alone: self.schedule.is_alone(),
            }),
        }
    }

    /// The names of the sinks of a shape.
    #[must_use]
    pub fn sink_names(shape: Shape) -> &'static [&'static str] {
        match shape {
            Shape::Plain => &["a"],
            Shape::Twice => &["a", "b"],
            Shape::Windows { .. } => &["windows"],
            Shape::Late { .. } | Shape::Chained => &["windows", "late"],
        }
    }

    /// The job, in a process.
    pub fn job(&self, process: &Process) -> Job {
        let workload = &self.schedule.workload;
        let store = SimulatedStore {
            inner: self.store.clone(),
            process: process.clone(),
            flaw: self.schedule.flaw,
        };
        let restart = match workload.restarts {
            0 => RestartStrategy::Never,
            restarts => RestartStrategy::FixedDelay {
                restarts,
                delay: ms(7),
            },
        };
        self.pipeline(process)
            .job(store)
            .parallelism(self.schedule.parallelism(process.number()))
            .checkpoint_interval(ms(workload.checkpoint_interval.max(1)))
            .checkpoint_timeout(ms(workload.checkpoint_timeout.max(1)))
            .retained_checkpoints(workload.retained)
            .restart(restart)
    }

    fn pipeline(&self, process: &Process) -> Pipeline {
        let cut = self.schedule.cut();
        let source = self.source(process, 0);
        let sink = |at| self.sink(process, at);
        let event_time = EventTime::of(|record: &Record| Timestamp::from_millis(record.at));
        let event_time = event_time.out_of_order_by(millis(cut.bound));
        let windows = Windows::sliding(millis(cut.size), millis(cut.slide));
        let contents = fold((0, 0), |contents: &mut Contents, record: &Record| {
            take(contents, record.id);
        });
        let result = move |result: WindowResult<u8, Contents>| {
            number(
                result.start.as_millis(),
                cut.slide,
                result.key,
                result.value,
            )
        };
        let pipeline = Pipeline::new(JOB);
        match self.schedule.workload.shape {
            Shape::Plain => pipeline
                .source("first", source, NoEventTime)
                .map(|record| u64::from(record.id))
                .sink("a", sink(0)),
            Shape::Twice => pipeline
                .source("first", source, NoEventTime)
                .map(|record| u64::from(record.id))
                .sink("a", sink(0))
                .source("second", self.source(process, 1), NoEventTime)
                .map(|record| u64::from(record.id))
                .sink("b", sink(1)),
            Shape::Windows { .. } => pipeline
                .source("first", source, event_time)
                .key_by(|record| record.key)
                .window(windows)
                .allowed_lateness(millis(cut.lateness))
                .aggregate("contents", contents)
                .map(result)
                .sink("windows", sink(0)),
            Shape::Late { .. } => pipeline
                .source("first", source, event_time)
                .key_by(|record| record.key)
                .window(windows)
                .allowed_lateness(millis(cut.lateness))
                .late_records("late", |late| u64::from(late.value.id), sink(1))
                .aggregate("contents", contents)
                .map(result)
                .sink("windows", sink(0)),
            Shape::Chained => pipeline
                .source("first", source, event_time)
                .key_by(|record| (record.key, record.id % 3))
                .window(windows)
                .allowed_lateness(millis(cut.lateness))
                .late_records("late", |late| u64::from(late.value.id), sink(1))
                .aggregate("small", contents)
                .key_by(|small| small.key.0)
                .window(Windows::tumbling(millis(LARGE)))
                .aggregate(
                    "large",
                    fold(
                        (0, 0),
                        |all: &mut Contents, small: &WindowResult<(u8, u32), Contents>| {
                            all.0 += small.value.0;
                            all.1 = all.1.wrapping_add(small.value.1);
                        },
                    ),
                )
                .map(|large| number(large.start.as_millis(), LARGE, large.key, large.value))
                .sink("windows", sink(0)),
        }
    }
}
