//! A few short lives of a sink, by which a broken one can be told from a sound one. The checks of the suite are another
//! matter: they know nothing of the reference system.

mod errors;
mod lives;

use std::collections::BTreeSet;

use cofferdam::{
    CheckpointId, Epoch, Fence, JobId, SinkError, SinkId, SubtaskIndex, TransactionId,
    TwoPhaseCommitSinkFunction,
};

use crate::factory::Factory;
use crate::observer::Observer;
use crate::reference::{OpenTransaction, ReferencePlace, ReferenceRecord};

type Sink<F> = <F as Factory>::Sink;
type Handle<F> = <Sink<F> as TwoPhaseCommitSinkFunction>::Prepared;

/// Factories of the reference sink, sound or broken.
pub(super) trait Probed:
    Factory<
        Place = ReferencePlace,
        Sink: TwoPhaseCommitSinkFunction<Input = ReferenceRecord, Transaction = OpenTransaction>,
    >
{
}

impl<F> Probed for F where
    F: Factory<
            Place = ReferencePlace,
            Sink: TwoPhaseCommitSinkFunction<
                Input = ReferenceRecord,
                Transaction = OpenTransaction,
            >,
        >
{
}

/// What a probe finds wrong.
type Finding = Result<(), String>;

fn wrong<T>(what: impl Into<String>) -> Result<T, String> {
    Err(what.into())
}

fn claim(holds: bool, what: &str) -> Finding {
    if holds { Ok(()) } else { wrong(what) }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The names of the probes that the sink fails, with what is wrong.
pub(super) async fn failed<F: Probed>() -> Vec<String> {
    let mut failed = Vec::new();
    macro_rules! run {
        ($($probe:path),+ $(,)?) => {$(
            let probe = tokio::spawn($probe(Site::<F>::new().await));
            let finding = probe.await.unwrap_or_else(|panic| Err(panic.to_string()));
            failed.extend(finding.err().map(|finding| {
                format!("{}: {finding}", stringify!($probe))
            }));
        )+};
    }
    run![
        lives::is_visible_when_it_should_be,
        lives::is_whole_and_in_order,
        lives::is_committed_once,
        lives::is_aborted,
        lives::is_resumed,
        lives::outlives_the_system,
        lives::is_lost,
        lives::leaves_nothing,
        lives::sweeps_what_is_old_and_only_that,
        lives::writes_again_after_a_crash,
        lives::has_two_subtasks,
        lives::holds_up_to_a_limit,
        errors::have_kinds,
        errors::refuse_odd_records,
        errors::show_no_secret,
        errors::may_be_answers_that_are_lost,
        errors::may_be_calls_that_are_dropped,
        errors::refuse_handles_of_others,
    ];
    failed
}

/// A place, and how to come to sinks there.
pub(super) struct Site<F> {
    factory: F,
    place: ReferencePlace,
}

impl<F: Probed> Site<F> {
    async fn new() -> Self {
        let factory = F::default();
        let place = factory.place().await.unwrap();
        Self { factory, place }
    }

    async fn open(&self) -> Result<Sink<F>, String> {
        self.factory.open(&self.place).await.map_err(text)
    }

    async fn visible(&self) -> Vec<String> {
        let rows = self.place.visible().await.unwrap();
        rows.into_iter().map(|row| row.text).collect()
    }

    /// That these transactions are visible, each once, and nothing else.
    async fn shows(&self, ids: &[&TransactionId]) -> Finding {
        let visible = self.visible().await;
        let unique: BTreeSet<_> = visible.iter().cloned().collect();
        let expected: BTreeSet<_> = ids.iter().flat_map(|id| texts(id)).collect();
        claim(unique.len() == visible.len(), "rows are doubled")?;
        claim(unique == expected, "other rows are visible than should be")
    }

    /// A new run sweeps.
    async fn sweep(&self, sink: &Sink<F>, epoch: u64) -> Result<Vec<TransactionId>, SinkError> {
        sink.abort_stale(&fence::<F>(epoch)).await
    }
}

fn id(epoch: u64, subtask: u32, checkpoint: u64) -> TransactionId {
    TransactionId {
        job: JobId::new("job").unwrap(),
        sink: SinkId::new("sink").unwrap(),
        epoch: Epoch(epoch),
        subtask: SubtaskIndex(subtask),
        checkpoint: CheckpointId(checkpoint),
    }
}

fn fence<F: Probed>(epoch: u64) -> Fence<Handle<F>> {
    Fence {
        job: JobId::new("job").unwrap(),
        sink: SinkId::new("sink").unwrap(),
        epoch: Epoch(epoch),
        newest: Some(CheckpointId(1000)),
        decided: Vec::new(),
    }
}

/// Rows for several flushes, and a rest.
fn texts(id: &TransactionId) -> Vec<String> {
    (0..50).map(|number| format!("{id}/{number:02}")).collect()
}

fn records(id: &TransactionId) -> Vec<ReferenceRecord> {
    texts(id).into_iter().map(ReferenceRecord::Text).collect()
}

async fn begin<S>(sink: &S, id: &TransactionId) -> Result<OpenTransaction, SinkError>
where
    S: TwoPhaseCommitSinkFunction<Input = ReferenceRecord, Transaction = OpenTransaction>,
{
    let mut transaction = sink.begin(id).await?;
    sink.write(&mut transaction, records(id)).await?;
    Ok(transaction)
}

async fn prepare<S>(sink: &S, id: &TransactionId) -> Result<S::Prepared, String>
where
    S: TwoPhaseCommitSinkFunction<Input = ReferenceRecord, Transaction = OpenTransaction>,
{
    let transaction = begin(sink, id).await.map_err(text)?;
    let handle = sink.pre_commit(transaction).await.map_err(text)?;
    handle.ok_or_else(|| "there is no handle".to_owned())
}
