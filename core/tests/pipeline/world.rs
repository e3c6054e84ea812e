//! What outlives a crash, and what must come out in the end: computed by a plain loop.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cofferdam::memory::{MemorySink, MemorySource};
use cofferdam::{
    CheckpointStore, EventTime, Job, JobEnd, JobError, JobReport, MemoryCheckpointStore, Pipeline,
    RestartStrategy, Source, Timestamp, Windows, fold,
};

use crate::plan::{HOUR, Plan};
use crate::wrappers::{Faulty, FaultySource, FaultyStore, Observed};

/// A record. Its id occurs once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub id: u32,
    pub key: u8,
    pub at: i64,
}

/// A window's result: start, key, and the ids of all records in it.
pub type Out = (i64, u8, Vec<u32>);
/// A late record: key and id.
pub type Late = (u8, u32);

/// How windows are cut, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub size: i64,
    pub slide: i64,
    pub lateness: i64,
    pub bound: i64,
}

pub const TUMBLING: Shape = Shape {
    size: 500,
    slide: 500,
    lateness: 100,
    bound: 50,
};

pub fn ms(millis: i64) -> Duration {
    Duration::from_millis(millis.unsigned_abs())
}

/// What must come out: each split by itself, record by record.
pub fn expected(splits: &[Vec<Event>], shape: Shape) -> (Vec<Out>, Vec<Late>) {
    let mut windows: BTreeMap<(i64, u8), Vec<u32>> = BTreeMap::new();
    let mut late = Vec::new();
    // Wider than event time, so that nothing here is cut off at its ends.
    let Shape {
        size,
        slide,
        lateness,
        bound,
    } = shape;
    let [size, slide, lateness, bound] = [size, slide, lateness, bound].map(i128::from);
    for split in splits {
        let mut newest = None;
        for event in split {
            let at = i128::from(event.at);
            let watermark = newest.map(|newest: i128| newest - bound - 1);
            let open = |start: &i128| {
                // A window has to start within event time, behind its very first millisecond.
                *start > i128::from(i64::MIN)
                    && watermark.is_none_or(|time| start + size - 1 + lateness > time)
            };
            let last = at.div_euclid(slide) * slide;
            let covering = (0..).map(|back| last - back * slide);
            let covering: Vec<i128> = covering.take_while(|start| start + size > at).collect();
            if !open(&covering[0]) {
                late.push((event.key, event.id));
            }
            for start in covering.into_iter().filter(open) {
                let start = i64::try_from(start).unwrap();
                let ids = windows.entry((start, event.key)).or_default();
                ids.push(event.id);
            }
            newest = newest.max(Some(at));
        }
    }
    let windows = windows.into_iter().map(|((start, key), mut ids)| {
        ids.sort_unstable();
        (start, key, ids)
    });
    late.sort_unstable();
    (windows.collect(), late)
}

/// Records out of order, some of them late.
pub fn events(splits: usize, each: usize) -> Vec<Vec<Event>> {
    let mut state = 0x5EED_u64;
    let mut random = move |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        i64::try_from((state >> 33) % below).unwrap()
    };
    let mut id = 0;
    let mut split = |_| {
        let mut now = random(300);
        let event = |_| {
            now += random(20);
            let behind = if random(25) == 0 { 900 } else { random(60) };
            id += 1;
            let key = u8::try_from(random(6)).unwrap();
            Event {
                id,
                key,
                at: now - behind,
            }
        };
        (0..each).map(event).collect()
    };
    (0..splits).map(&mut split).collect()
}

/// How a run ended.
#[derive(Debug)]
pub enum Outcome {
    Ended(Result<JobReport, JobError>),
    Crashed,
}

impl Outcome {
    pub fn end(&self) -> Option<JobEnd> {
        match self {
            Self::Ended(Ok(report)) => Some(report.end),
            _ => None,
        }
    }

    pub fn error(self) -> JobError {
        match self {
            Self::Ended(Err(error)) => error,
            other => panic!("no error: {other:?}"),
        }
    }
}

/// The outside systems of one job.
#[derive(Debug, Clone)]
pub struct World<S> {
    pub source: S,
    pub events: Arc<Vec<Vec<Event>>>,
    pub shape: Shape,
    pub results: MemorySink<Out>,
    pub late: MemorySink<Late>,
    pub store: Arc<dyn CheckpointStore>,
    pub observed: Observed,
    pub interval: Duration,
    pub pause: Duration,
    pub max_prepared: Option<usize>,
    pub ordered: bool,
    pub expiry: Option<Duration>,
    pub alone: bool,
}

impl World<MemorySource<Event>> {
    /// Four splits that make about ten checkpoints.
    pub fn new() -> Self {
        let events = events(4, 192);
        Self::over(MemorySource::new(events.clone()), events, TUMBLING)
    }
}

impl<S: Source<Record = Event> + Clone> World<S> {
    pub fn over(source: S, events: Vec<Vec<Event>>, shape: Shape) -> Self {
        Self {
            source,
            events: Arc::new(events),
            shape,
            results: MemorySink::new(),
            late: MemorySink::new(),
            store: Arc::new(MemoryCheckpointStore::new()),
            observed: Observed::default(),
            interval: ms(3),
            pause: ms(2),
            max_prepared: None,
            ordered: false,
            expiry: None,
            alone: true,
        }
    }

    pub fn faulty<T>(&self, sink: &MemorySink<T>, plan: &Plan) -> Faulty<MemorySink<T>> {
        Faulty {
            inner: sink.clone(),
            plan: plan.clone(),
            observed: self.observed.clone(),
            max_prepared: self.max_prepared,
            ordered: self.ordered,
            expiry: self.expiry,
            alone: self.alone,
        }
    }

    pub fn store(&self, plan: &Plan) -> FaultyStore {
        FaultyStore {
            inner: Arc::clone(&self.store),
            plan: plan.clone(),
            observed: self.observed.clone(),
        }
    }

    /// The job, with what goes wrong. It never starts again by itself, until the caller says so.
    pub fn job(&self, plan: &Plan) -> Job {
        let source = FaultySource {
            inner: self.source.clone(),
            plan: plan.clone(),
            pause: self.pause,
        };
        let Shape {
            size,
            slide,
            lateness,
            bound,
        } = self.shape;
        let event_time = EventTime::of(|event: &Event| Timestamp::from_millis(event.at));
        Pipeline::new("faults")
            .source("events", source, event_time.out_of_order_by(ms(bound)))
            .key_by(|event| event.key)
            .window(Windows::sliding(ms(size), ms(slide)))
            .late_records(
                "late",
                |late| (late.key, late.value.id),
                self.faulty(&self.late, plan),
            )
            .allowed_lateness(ms(lateness))
            .aggregate(
                "windows",
                fold(Vec::new(), |ids: &mut Vec<u32>, event: &Event| {
                    ids.push(event.id);
                }),
            )
            .map(|window| {
                let mut ids = window.value;
                ids.sort_unstable();
                (window.start.as_millis(), window.key, ids)
            })
            .sink("results", self.faulty(&self.results, plan))
            .job(self.store(plan))
            .checkpoint_interval(self.interval)
            .restart(RestartStrategy::Never)
    }

    /// What must hold once the job is completed.
    pub async fn check(&self) {
        self.check_visible();
        let in_doubt = self.job(&Plan::none()).in_doubt().await.unwrap();
        assert!(in_doubt.is_empty(), "left in doubt: {in_doubt:?}");
    }

    /// As [`check`](Self::check), but for what is in doubt.
    pub fn check_visible(&self) {
        let violations = self.observed.violations();
        assert!(violations.is_empty(), "{violations:#?}");
        let (results, late) = expected(&self.events, self.shape);
        assert_eq!(sorted(self.results.visible()), results);
        assert_eq!(sorted(self.late.visible()), late);
    }

    /// The state parts in the store that no record of the log names.
    pub async fn unnamed_state(&self) -> Vec<String> {
        let mut log = String::new();
        for record in self.store.list("log/").await.unwrap() {
            let bytes = self.store.read(&record).await.unwrap().unwrap();
            log.push_str(&String::from_utf8_lossy(&bytes));
        }
        let mut parts = self.store.list("state/").await.unwrap();
        parts.retain(|part| !log.contains(part.as_str()));
        parts
    }

    /// Runs the job again, without faults, until it is completed.
    pub async fn finish(&self, parallelism: u32) {
        let job = self.job(&Plan::none()).parallelism(parallelism);
        let outcome = run(job, &Plan::none()).await;
        let completed = [Some(JobEnd::Completed), Some(JobEnd::AlreadyComplete)];
        assert!(completed.contains(&outcome.end()), "{outcome:?}");
    }
}

pub fn sorted<T: Ord>(mut all: Vec<T>) -> Vec<T> {
    all.sort_unstable();
    all
}

/// Runs a job until it ends or its process dies.
pub async fn run(job: Job, plan: &Plan) -> Outcome {
    let outcome = async {
        tokio::select! {
            biased;
            () = plan.crashed() => Outcome::Crashed,
            ended = job.run() => Outcome::Ended(ended),
        }
    };
    let outcome = tokio::time::timeout(HOUR, outcome).await;
    outcome.expect("the job hangs")
}
