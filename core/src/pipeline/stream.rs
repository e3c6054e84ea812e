//! The builder that users see.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::event_time::TimestampAssigner;
use super::heads::{ExchangeHead, KeyedHead, SourceHead, WholeFlow};
use super::late_sink::LateSink;
use super::operators::{Filter, FlatMap, Map};
use super::record::Keyed;
use super::route::{ByKey, Together};
use super::stage::{Chain, Discard, Operator, Start, Tail, Then};
use crate::checkpoint::CheckpointStore;
use crate::identity::{IdentityError, JobId, OperatorId, SinkId, SourceId};
use crate::runtime::{ErasedSink, ErasedSource, Flow, Head, Job, Plan, SinkTail};
use crate::sink::TwoPhaseCommitSinkFunction;
use crate::source::Source;
use crate::window::{Aggregate, LateRecord, WindowChain, Windows};

/// A pipeline under construction: from sources through operators to sinks.
///
/// ```
/// use std::time::Duration;
/// use cofferdam::memory::{MemorySink, MemorySource};
/// use cofferdam::{EventTime, MemoryCheckpointStore, Pipeline, Timestamp, Windows, sum};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // (minute, shop, amount)
/// let sales = MemorySource::new([vec![(0, "a", 5), (3, "b", 7), (4, "a", 1), (12, "b", 2)]]);
/// let totals = MemorySink::new();
///
/// let report = Pipeline::new("sales")
///     .source("sales", sales, EventTime::of(|sale: &(i64, &str, i64)| Timestamp::from_millis(sale.0 * 60_000)))
///     .filter(|sale| sale.2 > 1)
///     .key_by(|sale| sale.1.to_owned())
///     .window(Windows::tumbling(Duration::from_secs(600)))
///     .aggregate("ten-minutes", sum(|sale: &(i64, &str, i64)| sale.2))
///     .map(|result| (result.start.as_millis() / 60_000, result.key, result.value))
///     .sink("totals", totals.clone())
///     .job(MemoryCheckpointStore::new())
///     .run()
///     .await?;
///
/// let mut visible = totals.visible();
/// visible.sort();
/// assert_eq!(visible, [(0, "a".to_owned(), 5), (0, "b".to_owned(), 7), (10, "b".to_owned(), 2)]);
/// assert_eq!(report.progress.count("sales", "records"), 4);
/// # Ok(())
/// # }
/// ```
///
/// Names of sources, window operators and sinks are the keys under which positions, state and transactions stand in a
/// checkpoint: keep them when the pipeline changes. A source and a sink can't have the same name, as a job counts the
/// `records` of both by name.
pub struct Pipeline {
    job: String,
    sources: BTreeMap<SourceId, Arc<dyn ErasedSource>>,
    operators: Vec<OperatorId>,
    sinks: BTreeMap<SinkId, Arc<dyn ErasedSink>>,
    flows: Vec<Box<dyn Flow>>,
    /// What is wrong: said when the job is run, so that building needs no error handling at each step.
    problems: Vec<String>,
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline")
            .field("job", &self.job)
            .finish_non_exhaustive()
    }
}

impl Pipeline {
    /// An empty pipeline of a job. The job's name identifies it over all its runs.
    pub fn new(job: impl Into<String>) -> Self {
        Self {
            job: job.into(),
            sources: BTreeMap::new(),
            operators: Vec::new(),
            sinks: BTreeMap::new(),
            flows: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Reads a source. A pipeline may have several, each with its own way to a sink.
    pub fn source<S: Source, A: TimestampAssigner<S::Record>>(
        mut self,
        name: &str,
        source: S,
        event_time: A,
    ) -> Stream<SourceHead<S, A>, Start<S::Record>> {
        let source = Arc::new(source);
        let id = self.checked(SourceId::new(name), "source");
        let erased: Arc<dyn ErasedSource> = Arc::new(Arc::clone(&source));
        if self.sources.insert(id.clone(), erased).is_some() {
            self.problems
                .push(format!("there are two sources named {id}"));
        }
        Stream {
            pipeline: self,
            head: SourceHead {
                id,
                source,
                assigner: event_time,
            },
            chain: Start::new(),
            has_event_time: A::HAS_EVENT_TIME,
        }
    }

    /// Makes it a job that keeps its checkpoints in `store`.
    pub fn job(self, store: impl CheckpointStore) -> Job {
        let store: Arc<dyn CheckpointStore> = Arc::new(store);
        Job::new(self.plan(), store)
    }

    fn plan(mut self) -> Result<Plan, String> {
        let job = JobId::new(&*self.job).map_err(|error| error.to_string())?;
        if self.flows.is_empty() {
            self.problems.push("the pipeline has no sink".to_owned());
        }
        for sink in self.sinks.keys() {
            let same = |source: &SourceId| source.as_str() == sink.as_str();
            if self.sources.keys().any(same) {
                self.problems.push(format!(
                    "a source and a sink are both named {sink}, and their counts would be one: rename either"
                ));
            }
        }
        if !self.problems.is_empty() {
            return Err(self.problems.join("; "));
        }
        let Self {
            sources,
            operators,
            sinks,
            flows,
            ..
        } = self;
        Ok(Plan {
            job,
            sources,
            operators,
            sinks,
            flows,
        })
    }

    /// Notes a name that can't be used, and goes on with a stand-in: the job won't run.
    fn checked<N: TryFrom<String, Error = IdentityError>>(
        &mut self,
        name: Result<N, IdentityError>,
        stand_in: &'static str,
    ) -> N {
        name.unwrap_or_else(|error| {
            self.problems.push(error.to_string());
            N::try_from(stand_in.to_owned())
                .unwrap_or_else(|_| unreachable!("{stand_in} is a name"))
        })
    }

    fn add_sink<S: TwoPhaseCommitSinkFunction>(&mut self, name: &str, sink: S) -> SinkTail<S> {
        let sink = Arc::new(sink);
        let id = self.checked(SinkId::new(name), "sink");
        let capabilities = sink.capabilities();
        if capabilities.max_prepared == Some(0) {
            self.problems.push(format!(
                "sink {id} can hold no prepared transaction: at least one is needed"
            ));
        }
        if capabilities.ordered && capabilities.max_prepared != Some(1) {
            self.problems.push(format!(
                "sink {id} is ordered, so it holds one prepared transaction at most, and it declares max_prepared: {:?}: \
                 Capabilities::with_ordered declares both",
                capabilities.max_prepared
            ));
        }
        if self
            .sinks
            .insert(id.clone(), Arc::new(Arc::clone(&sink)))
            .is_some()
        {
            self.problems
                .push(format!("there are two sinks named {id}"));
        }
        SinkTail { id, sink }
    }
}

/// Records on their way from a source or a window.
pub struct Stream<H, C> {
    pipeline: Pipeline,
    head: H,
    chain: C,
    has_event_time: bool,
}

impl<H, C> fmt::Debug for Stream<H, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("pipeline", &self.pipeline)
            .finish_non_exhaustive()
    }
}

impl<H: Head<C::In>, C: Chain> Stream<H, C> {
    /// Makes one record out of each.
    pub fn map<U, F>(self, f: F) -> Stream<H, Then<C, Map<F>>>
    where
        U: Send + 'static,
        F: Fn(C::Out) -> U + Clone + Send + Sync + 'static,
    {
        self.then(Map(f))
    }

    /// Keeps the records that are wanted.
    pub fn filter<F>(self, wanted: F) -> Stream<H, Then<C, Filter<F>>>
    where
        F: Fn(&C::Out) -> bool + Clone + Send + Sync + 'static,
    {
        self.then(Filter(wanted))
    }

    /// Makes any number of records out of each.
    pub fn flat_map<I, F>(self, f: F) -> Stream<H, Then<C, FlatMap<F>>>
    where
        I: IntoIterator,
        I::Item: Send + 'static,
        F: Fn(C::Out) -> I + Clone + Send + Sync + 'static,
    {
        self.then(FlatMap(f))
    }

    fn then<O: Operator<C::Out>>(self, operator: O) -> Stream<H, Then<C, O>> {
        let Self {
            pipeline,
            head,
            chain,
            has_event_time,
        } = self;
        Stream {
            pipeline,
            head,
            chain: Then { chain, operator },
            has_event_time,
        }
    }

    /// Brings all records of a key together in one subtask.
    ///
    /// The key's `Hash` and `Eq` have to be the same in every run; so does what `key` gives for a record.
    pub fn key_by<K, F>(self, key: F) -> KeyedStream<KeyedHead<H, C, K, F>, K, C::Out>
    where
        K: Hash + Send + 'static,
        F: Fn(&C::Out) -> K + Send + Sync + 'static,
    {
        let Self {
            pipeline,
            head,
            chain,
            has_event_time,
        } = self;
        let head = ExchangeHead {
            before: head,
            chain,
            route: Arc::new(ByKey::new(key)),
        };
        KeyedStream {
            pipeline,
            head,
            has_event_time,
            records: PhantomData,
        }
    }

    /// Writes all records into a sink.
    pub fn sink<S: TwoPhaseCommitSinkFunction<Input = C::Out>>(
        mut self,
        name: &str,
        sink: S,
    ) -> Pipeline {
        let end = self.pipeline.add_sink(name, sink);
        self.end(end)
    }

    /// Writes all records into a sink, those of a key in one of its subtasks, for sinks whose writes meet earlier ones,
    /// such as updates of a row. The key is that of the sink's input, whatever the records were keyed by before.
    ///
    /// Records of a key that one subtask hands over keep their order: those of one split if no `key_by` comes between,
    /// and the results of a window for its key. The order among several splits or subtasks is left to chance, and
    /// may be another one when records are written again after a crash. Transactions of a subtask are committed in
    /// order; a sink that does not buffer until its pre-commit has to be [ordered](crate::Capabilities::ordered) as well.
    ///
    /// The key's `Hash`, and what `key` gives for a record, have to be the same in every run. With one subtask, `key` is
    /// never called.
    ///
    /// ```
    /// use cofferdam::memory::{MemorySink, MemorySource};
    /// use cofferdam::{MemoryCheckpointStore, NoEventTime, Pipeline};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // (account, amount)
    /// let bookings = MemorySource::new([vec![("a", 5), ("b", 7), ("a", -1)]]);
    /// let rows = MemorySink::new();
    /// Pipeline::new("bookings")
    ///     .source("bookings", bookings, NoEventTime)
    ///     .map(|(account, amount)| (account.to_uppercase(), amount))
    ///     .sink_by("rows", rows.clone(), |row| row.0.clone())
    ///     .job(MemoryCheckpointStore::new())
    ///     .parallelism(2)
    ///     .run()
    ///     .await?;
    /// let visible = rows.visible();
    /// let of_a: Vec<i64> = visible.iter().filter(|row| row.0 == "A").map(|row| row.1).collect();
    /// assert_eq!(of_a, [5, -1]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn sink_by<S, K, F>(mut self, name: &str, sink: S, key: F) -> Pipeline
    where
        S: TwoPhaseCommitSinkFunction<Input = C::Out>,
        K: Hash + 'static,
        F: Fn(&C::Out) -> K + Send + Sync + 'static,
    {
        let end = self.pipeline.add_sink(name, sink);
        let stream = Stream {
            pipeline: self.pipeline,
            head: ExchangeHead {
                before: self.head,
                chain: self.chain,
                route: Arc::new(Together::new(key)),
            },
            chain: Start::new(),
            has_event_time: self.has_event_time,
        };
        stream.end(end)
    }

    /// Lets all records vanish: to measure or to test what comes before.
    pub fn discard(self) -> Pipeline {
        self.end(Discard)
    }

    fn end<E: Tail<C::Out>>(self, end: E) -> Pipeline {
        let Self {
            mut pipeline,
            head,
            chain,
            ..
        } = self;
        pipeline
            .flows
            .push(Box::new(WholeFlow { head, chain, end }));
        pipeline
    }
}

/// Records divided by key.
pub struct KeyedStream<H, K, T> {
    pipeline: Pipeline,
    head: H,
    records: PhantomData<fn() -> (K, T)>,
    has_event_time: bool,
}

impl<H, K, T> fmt::Debug for KeyedStream<H, K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedStream")
            .field("pipeline", &self.pipeline)
            .finish_non_exhaustive()
    }
}

impl<H, K, T> KeyedStream<H, K, T> {
    /// Cuts event time into windows.
    pub fn window(self, windows: Windows) -> WindowedStream<H, K, T, Discard> {
        WindowedStream {
            keyed: self,
            windows,
            lateness: Duration::ZERO,
            late: Discard,
        }
    }
}

/// Records divided by key and window, ready to be aggregated.
pub struct WindowedStream<H, K, T, L> {
    keyed: KeyedStream<H, K, T>,
    windows: Windows,
    lateness: Duration,
    late: L,
}

impl<H, K, T, L> fmt::Debug for WindowedStream<H, K, T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WindowedStream")
            .field("windows", &self.windows)
            .finish_non_exhaustive()
    }
}

impl<H, K, T> WindowedStream<H, K, T, Discard> {
    /// Writes records that come after all their windows have closed into a sink of their own. Without this they are only
    /// counted, as `late`.
    pub fn late_records<S, F>(
        mut self,
        name: &str,
        map: F,
        sink: S,
    ) -> WindowedStream<H, K, T, LateSink<S, F>>
    where
        S: TwoPhaseCommitSinkFunction,
        F: Fn(LateRecord<K, T>) -> S::Input + Clone + Send + Sync + 'static,
    {
        let sink = self.keyed.pipeline.add_sink(name, sink);
        let Self {
            keyed,
            windows,
            lateness,
            ..
        } = self;
        WindowedStream {
            keyed,
            windows,
            lateness,
            late: LateSink { map, sink },
        }
    }
}

impl<H, K, T, L> WindowedStream<H, K, T, L>
where
    H: Head<Keyed<K, T>>,
    K: Eq + Hash + Clone + Serialize + DeserializeOwned + Send + 'static,
    T: Send + 'static,
    L: Tail<Keyed<K, T>>,
{
    /// How long after its end, in event time, a window still takes records in; its result waits for as long.
    #[must_use]
    pub fn allowed_lateness(mut self, lateness: Duration) -> Self {
        self.lateness = lateness;
        self
    }

    /// Computes a result for each window and key. State is kept under `name`, with a description of windows, aggregate and
    /// types; an operator with another description can't restore it.
    pub fn aggregate<A: Aggregate<T>>(
        self,
        name: &str,
        aggregate: A,
    ) -> Stream<H, WindowChain<K, T, A, L>> {
        let Self {
            keyed,
            windows,
            lateness,
            late,
        } = self;
        let KeyedStream {
            mut pipeline,
            head,
            has_event_time,
            ..
        } = keyed;
        let operator = pipeline.checked(OperatorId::new(name), "operator");
        if let Some(problem) = windows.problem(lateness) {
            pipeline.problems.push(format!("{operator}: {problem}"));
        }
        if !has_event_time {
            pipeline
                .problems
                .push(format!("{operator}: windows need a source with event time"));
        }
        if pipeline.operators.contains(&operator) {
            pipeline
                .problems
                .push(format!("there are two operators named {operator}"));
        }
        pipeline.operators.push(operator.clone());
        let records = PhantomData;
        let chain = WindowChain {
            operator,
            windows,
            lateness,
            aggregate,
            late,
            records,
        };
        Stream {
            pipeline,
            head,
            chain,
            has_event_time,
        }
    }
}
