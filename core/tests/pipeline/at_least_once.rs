//! A plain writer: records may be doubled after a crash, none is lost.

use std::sync::{Arc, Mutex};

use cofferdam::memory::MemorySource;
use cofferdam::{
    AtLeastOnce, Capabilities, Job, JobEnd, MemoryCheckpointStore, NoEventTime, Pipeline,
    RecordWriter, RestartStrategy, SinkError, TwoPhaseCommitSinkFunction, async_trait,
};

use crate::plan::{Mode, Op, Plan, When};
use crate::world::{ms, run, sorted};
use crate::wrappers::{Faulty, FaultySource, FaultyStore, Observed};

/// A file that is written through a buffer, which dies with its process.
#[derive(Debug, Clone, Default)]
struct Buffered {
    durable: Arc<Mutex<Vec<u32>>>,
    buffer: Arc<Mutex<Vec<u32>>>,
}

#[async_trait]
impl RecordWriter for Buffered {
    type Input = u32;

    async fn write(&self, records: Vec<u32>) -> Result<(), SinkError> {
        self.buffer.lock().unwrap().extend(records);
        Ok(())
    }

    async fn flush(&self) -> Result<(), SinkError> {
        let mut buffer = self.buffer.lock().unwrap();
        self.durable.lock().unwrap().append(&mut buffer);
        Ok(())
    }
}

fn job(writer: &Buffered, store: &MemoryCheckpointStore, plan: &Plan) -> Job {
    let splits = (0..4).map(|split| (split * 1000..split * 1000 + 300).collect());
    let source = FaultySource {
        inner: MemorySource::new(splits),
        plan: plan.clone(),
        pause: ms(2),
    };
    let sink = Faulty {
        inner: AtLeastOnce::new(writer.clone()),
        plan: plan.clone(),
        observed: Observed::default(),
        max_prepared: None,
        ordered: false,
        expiry: None,
        alone: true,
    };
    let store = FaultyStore {
        inner: Arc::new(store.clone()),
        plan: plan.clone(),
        observed: Observed::default(),
    };
    Pipeline::new("plain")
        .source("numbers", source, NoEventTime)
        .sink("lines", sink)
        .job(store)
        .parallelism(2)
        .checkpoint_interval(ms(3))
        .restart(RestartStrategy::Never)
}

#[tokio::test(start_paused = true)]
async fn a_crash_doubles_records_and_loses_none() {
    let expected: Vec<u32> = (0..4)
        .flat_map(|split| split * 1000..split * 1000 + 300)
        .collect();
    let mut doubled = 0;
    for op in [Op::Write, Op::PreCommit, Op::CreateDecision, Op::Next] {
        for mode in [Mode::CRASHES, Mode::ERRORS, Mode::PANICS].as_flattened() {
            for n in 1..=8 {
                let (writer, store) = (Buffered::default(), MemoryCheckpointStore::new());
                let plan = Plan::at(op, n, *mode);
                run(job(&writer, &store, &plan), &plan).await;
                let survivor = Buffered {
                    durable: Arc::clone(&writer.durable),
                    buffer: Arc::default(),
                };
                let plan = Plan::none();
                let outcome = run(job(&survivor, &store, &plan), &plan).await;
                assert!(outcome.end().is_some(), "{outcome:?}");
                let mut written = sorted(survivor.durable.lock().unwrap().clone());
                let all = written.len();
                written.dedup();
                assert_eq!(written, expected, "{op:?} {mode:?} {n}");
                doubled += all - written.len();
            }
        }
    }
    assert!(doubled > 0, "at least once is not exactly once");
}

#[tokio::test(start_paused = true)]
async fn without_a_crash_each_record_is_written_once() {
    let (writer, store) = (Buffered::default(), MemoryCheckpointStore::new());
    let outcome = run(job(&writer, &store, &Plan::none()), &Plan::none()).await;
    assert_eq!(outcome.end(), Some(JobEnd::Completed));
    assert_eq!(writer.durable.lock().unwrap().len(), 1200);
}

#[tokio::test(start_paused = true)]
async fn a_flush_that_fails_fails_the_checkpoint() {
    let (writer, store) = (Buffered::default(), MemoryCheckpointStore::new());
    let failing = Mode::Error(cofferdam::ErrorKind::Transient, When::Before);
    let plan = Plan::at(Op::PreCommit, 1, failing);
    let job = job(&writer, &store, &plan);
    let handle = job.handle();
    let error = run(job, &plan).await.error();
    assert!(error.is_restartable(), "{error}");
    assert_eq!(handle.progress().checkpoint, None);
}

#[test]
fn it_declares_what_it_does_not_give() {
    let sink = AtLeastOnce::new(Buffered::default());
    assert_eq!(sink.capabilities(), Capabilities::AT_LEAST_ONCE);
}
