//! Records by key into sinks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cofferdam::memory::{MemoryHandle, MemorySink, MemorySource, MemoryTransaction};
use cofferdam::{
    Capabilities, CommitError, Committed, EventTime, Fence, InDoubt, JobEnd, JobId,
    MemoryCheckpointStore, NoEventTime, Pipeline, RestartStrategy, SinkError, Timestamp,
    TransactionId, TwoPhaseCommitSinkFunction, Unfinished, Windows, async_trait, count,
};

use crate::plan::{Mode, Op, Plan};
use crate::world::{World, ms, run};
use crate::wrappers::FaultySource;

/// A record of an account, the split and the place in it where it comes from.
type Row = (u32, usize, usize);

/// Puts to each record the subtask that wrote it.
#[derive(Debug)]
struct Marked<S>(S);

#[async_trait]
impl<S, T> TwoPhaseCommitSinkFunction for Marked<S>
where
    S: TwoPhaseCommitSinkFunction<
            Input = (u32, T),
            Transaction = MemoryTransaction<(u32, T)>,
            Prepared = MemoryHandle,
        >,
    T: Send + Sync + 'static,
{
    type Input = T;
    type Transaction = (TransactionId, MemoryTransaction<(u32, T)>);
    type Prepared = MemoryHandle;

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    async fn begin(&self, id: &TransactionId) -> Result<Self::Transaction, SinkError> {
        Ok((id.clone(), self.0.begin(id).await?))
    }

    async fn write(
        &self,
        (id, transaction): &mut Self::Transaction,
        records: Vec<T>,
    ) -> Result<(), SinkError> {
        let marked = records.into_iter().map(|record| (id.subtask.0, record));
        self.0.write(transaction, marked.collect()).await
    }

    async fn pre_commit(
        &self,
        (_, transaction): Self::Transaction,
    ) -> Result<Option<MemoryHandle>, SinkError> {
        self.0.pre_commit(transaction).await
    }

    async fn commit(
        &self,
        id: &TransactionId,
        prepared: &MemoryHandle,
    ) -> Result<Committed, CommitError> {
        self.0.commit(id, prepared).await
    }

    async fn abort(
        &self,
        unfinished: Unfinished<Self::Transaction, MemoryHandle>,
    ) -> Result<(), SinkError> {
        let unfinished = match unfinished {
            Unfinished::Open(id, (_, transaction)) => Unfinished::Open(id, transaction),
            Unfinished::Prepared(id, prepared) => Unfinished::Prepared(id, prepared),
        };
        self.0.abort(unfinished).await
    }

    async fn abort_stale(&self, fence: &Fence<MemoryHandle>) -> Result<Vec<InDoubt>, SinkError> {
        self.0.abort_stale(fence).await
    }

    async fn in_doubt(&self, job: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        self.0.in_doubt(job).await
    }
}

/// Four splits, in which the records of each account are spread.
fn splits() -> Vec<Vec<Row>> {
    let split = |split| {
        let row = |place: usize| (u32::try_from(place * 7 % 23).unwrap(), split, place);
        (0..500).map(row).collect()
    };
    (0..4).map(split).collect()
}

fn source(plan: &Plan) -> FaultySource<MemorySource<Row>> {
    FaultySource {
        inner: MemorySource::new(splits()),
        plan: plan.clone(),
        pause: ms(2),
    }
}

/// The accounts of which records came through several subtasks.
fn scattered<T>(visible: &[(u32, T)], account: impl Fn(&T) -> u32) -> Vec<u32> {
    let mut subtasks = BTreeMap::new();
    let mut scattered = Vec::new();
    for (subtask, record) in visible {
        let account = account(record);
        if subtasks
            .insert(account, *subtask)
            .is_some_and(|before| before != *subtask)
        {
            scattered.push(account);
        }
    }
    scattered
}

/// All records of an account and a split are there, in the order of the split.
fn check_order(visible: &[(u32, Row)]) {
    let mut places: BTreeMap<(u32, usize), Vec<usize>> = BTreeMap::new();
    for (_, (account, split, place)) in visible {
        places.entry((*account, *split)).or_default().push(*place);
    }
    let mut expected: BTreeMap<(u32, usize), Vec<usize>> = BTreeMap::new();
    for (account, split, place) in splits().into_iter().flatten() {
        expected
            .entry((account % 11, split))
            .or_default()
            .push(place);
    }
    assert_eq!(places, expected);
}

/// The records of a new account meet, whatever they were keyed by before.
fn job(
    world: &World<MemorySource<crate::world::Event>>,
    plan: &Plan,
    sink: &MemorySink<(u32, Row)>,
) -> cofferdam::Job {
    Pipeline::new("faults")
        .source("rows", source(plan), NoEventTime)
        .map(|(account, split, place)| (account % 11, split, place))
        .sink_by("sink", Marked(world.faulty(sink, plan)), |row| row.0)
        .job(world.store(plan))
        .checkpoint_interval(ms(3))
        .restart(RestartStrategy::Never)
}

#[tokio::test(start_paused = true)]
async fn records_of_a_key_meet_after_a_map_that_changes_it() {
    for parallelism in 1..=4 {
        for ordered in [false, true] {
            let world = World {
                ordered,
                ..World::new()
            };
            let (plan, sink) = (Plan::none(), MemorySink::new());
            let job = job(&world, &plan, &sink).parallelism(parallelism);
            assert_eq!(run(job, &plan).await.end(), Some(JobEnd::Completed));
            let visible = sink.visible();
            assert_eq!(scattered(&visible, |row| row.0), [0; 0]);
            check_order(&visible);
            let subtasks = visible.iter().map(|(subtask, _)| subtask).max();
            assert_eq!(subtasks, Some(&(parallelism - 1)), "all of them work");
            assert_eq!(world.observed.violations(), [""; 0]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn their_order_outlives_crashes_and_other_parallelism() {
    for (n, (before, after)) in (1..).zip([(2, 3), (3, 1), (4, 2), (1, 4), (3, 3)]) {
        for (op, mode) in [
            (Op::Commit, Mode::CRASHES[0]),
            (Op::Commit, Mode::CRASHES[1]),
            (Op::PreCommit, Mode::CRASHES[1]),
            (Op::CreateDecision, Mode::CRASHES[1]),
        ] {
            let (world, sink) = (World::new(), MemorySink::new());
            let plan = Plan::at(op, n, mode);
            run(job(&world, &plan, &sink).parallelism(before), &plan).await;
            assert_eq!(plan.fired(), 1);
            let plan = Plan::none();
            let outcome = run(job(&world, &plan, &sink).parallelism(after), &plan).await;
            assert_eq!(outcome.end(), Some(JobEnd::Completed), "{outcome:?}");
            check_order(&sink.visible());
            assert_eq!(world.observed.violations(), [""; 0]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn results_of_windows_meet_by_another_key() {
    for parallelism in 1..=4 {
        let (plan, sink) = (Plan::none(), MemorySink::new());
        let place = |row: &Row| Timestamp::from_millis(i64::try_from(row.2).unwrap());
        let job = Pipeline::new("faults")
            .source("rows", source(&plan), EventTime::of(place))
            .key_by(|row| row.0)
            .window(Windows::tumbling(ms(50)))
            .aggregate("counts", count())
            .map(|window| (window.key % 5, window.key, window.start, window.value))
            .sink_by("sink", Marked(sink.clone()), |row| row.0)
            .job(MemoryCheckpointStore::new())
            .checkpoint_interval(ms(3))
            .parallelism(parallelism);
        assert_eq!(run(job, &plan).await.end(), Some(JobEnd::Completed));
        let visible = sink.visible();
        assert_eq!(scattered(&visible, |row| row.0), [0; 0]);
        let total: u64 = visible.iter().map(|(_, row)| row.3).sum();
        assert_eq!(total, 2000);
        // The windows of a key come from one subtask, in the order of their time.
        let mut newest = BTreeMap::new();
        for (_, (_, key, start, _)) in &visible {
            let before = newest.insert(*key, *start);
            assert!(
                before.is_none_or(|before| before < *start),
                "{key} {start:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn with_one_subtask_it_costs_nothing() {
    let calls = Arc::new(AtomicUsize::new(0));
    for (parallelism, expected) in [(1, 0), (2, 2000)] {
        let (plan, counted) = (Plan::none(), Arc::clone(&calls));
        let job = Pipeline::new("faults")
            .source("rows", source(&plan), NoEventTime)
            .sink_by("sink", MemorySink::new(), move |row| {
                counted.fetch_add(1, Ordering::Relaxed);
                row.0
            })
            .job(MemoryCheckpointStore::new())
            .parallelism(parallelism);
        assert_eq!(run(job, &plan).await.end(), Some(JobEnd::Completed));
        assert_eq!(calls.load(Ordering::Relaxed), expected);
    }
}
