//! The sink of a simulated process: the outside system, behind calls that go wrong.

use std::collections::BTreeMap;
use std::sync::Arc;

use cofferdam::memory::MemoryHandle;
use cofferdam::{
    Capabilities, CommitError, Committed, Evidence, Fence, InDoubt, JobId, SinkError, SinkId,
    TransactionId, TwoPhaseCommitSinkFunction, Unfinished, async_trait,
};
use cofferdam_conformance::{Event, Row, Token};

use crate::call::Wrong;
use crate::observed::{Observed, Subject};
use crate::outside::{OpenTransaction, Outside};
use crate::process::Process;
use crate::rare::Rare;
use crate::schedule::Op;

/// What stays the same over all processes.
#[derive(Debug, Clone)]
pub struct SinkSettings {
    /// Its name in the job.
    pub id: SinkId,
    /// How many prepared transactions a subtask may hold.
    pub max_prepared: Option<usize>,
    /// True if a transaction of a subtask begins only after the one before it is committed.
    pub ordered: bool,
    /// A reader looks at each change of this number.
    pub look_every: u64,
    /// No two processes are ever alive at once, and no effect comes late: then recovery leaves nothing in doubt.
    pub alone: bool,
}

/// A sink whose calls go wrong.
#[derive(Debug, Clone)]
pub struct SimulatedSink {
    /// Where records go.
    pub outside: Outside,
    /// Who calls.
    pub process: Process,
    /// The settings.
    pub settings: Arc<SinkSettings>,
}

impl From<Wrong> for SinkError {
    fn from(Wrong(kind): Wrong) -> Self {
        Self::new(kind, "planned")
    }
}

fn not_yet(wrong: Wrong) -> CommitError {
    CommitError::NotYet(wrong.into())
}

/// A [`CommitError`] that can be made of what goes wrong.
#[derive(Debug)]
struct NotCommitted(CommitError);

impl From<Wrong> for NotCommitted {
    fn from(wrong: Wrong) -> Self {
        Self(not_yet(wrong))
    }
}

fn subject(id: &TransactionId) -> Subject {
    Subject::Transaction(id.clone())
}

/// Lets a reader look.
pub fn look(observed: &Observed, outside: &Outside, id: &SinkId) {
    let row = |(writer, record)| Row {
        text: Token { record, writer }.to_string(),
        lane: Some(id.to_string()),
    };
    observed.event(
        id,
        Event::Read(outside.visible().into_iter().map(row).collect()),
    );
}

impl SimulatedSink {
    fn observed(&self) -> &Observed {
        self.process.observed()
    }

    /// Something visible may have changed.
    fn changed(&self) {
        let changes = self.observed().with(|facts| {
            facts.changes += 1;
            facts.changes
        });
        if changes.is_multiple_of(self.settings.look_every.max(1)) {
            look(self.observed(), &self.outside, &self.settings.id);
        }
    }

    /// What must hold before a transaction begins.
    async fn demand_nothing_in_doubt(&self, id: &TransactionId) -> Result<(), SinkError> {
        for found in self.outside.in_doubt(&id.job).await? {
            let older = found.epoch < id.epoch;
            self.observed()
                .demand(!older, || format!("{id} begins while {found} is in doubt"));
        }
        Ok(())
    }

    /// What must hold before a transaction of an ordered sink begins.
    async fn demand_order(&self, id: &TransactionId) -> Result<(), SinkError> {
        for found in self.outside.in_doubt(&id.job).await? {
            let same = (found.epoch, found.subtask) == (id.epoch, id.subtask);
            self.observed()
                .demand(!same, || format!("{id} begins before {found} is committed"));
        }
        Ok(())
    }

    /// What must hold after a transaction is prepared.
    async fn demand_limit(&self, job: &JobId) -> Result<(), SinkError> {
        let Some(limit) = self.settings.max_prepared else {
            return Ok(());
        };
        let mut held = BTreeMap::new();
        for found in self.outside.in_doubt(job).await? {
            *held.entry((found.epoch, found.subtask)).or_insert(0) += 1;
        }
        for (holder, count) in held {
            self.observed().demand(count <= limit, || {
                format!("{holder:?} holds {count} prepared")
            });
        }
        Ok(())
    }

    fn committed(&self, id: &TransactionId, committed: Committed) {
        let left_behind = self.process.is_left_behind();
        let fresh = self.observed().with(|facts| {
            match committed {
                Committed::Now if left_behind => facts.reached.count(Rare::ZombieCommits),
                Committed::Now => {}
                Committed::Before => facts.reached.count(Rare::CommittedBefore),
            }
            facts.committed.insert(id.clone())
        });
        if fresh && !self.process.works() {
            self.observed().reached(Rare::SettledByRecovery);
        }
        self.changed();
    }
}

#[async_trait]
impl TwoPhaseCommitSinkFunction for SimulatedSink {
    type Input = u64;
    type Transaction = OpenTransaction;
    type Prepared = MemoryHandle;

    fn capabilities(&self) -> Capabilities {
        Capabilities::TRANSACTIONAL
            .with_evidence(Evidence::Ledger)
            .with_max_prepared(self.settings.max_prepared)
            .with_ordered(self.settings.ordered)
    }

    async fn begin(&self, id: &TransactionId) -> Result<OpenTransaction, SinkError> {
        let call = self.process.enter(Op::Begin, subject(id)).await?;
        if self.settings.alone {
            self.demand_nothing_in_doubt(id).await?;
        }
        if self.settings.ordered {
            self.demand_order(id).await?;
        }
        let begun = self.outside.begin(id).await;
        call.leave(begun).await
    }

    async fn write(
        &self,
        transaction: &mut OpenTransaction,
        records: Vec<u64>,
    ) -> Result<(), SinkError> {
        let id = transaction.id().clone();
        let call = self.process.enter(Op::Write, subject(&id)).await?;
        let written = self.outside.write(transaction, &records).await;
        let sink = id.sink.clone();
        self.observed().event(
            &sink,
            Event::Wrote {
                writer: id,
                records,
            },
        );
        call.leave(written).await
    }

    async fn pre_commit(
        &self,
        transaction: OpenTransaction,
    ) -> Result<Option<MemoryHandle>, SinkError> {
        let id = transaction.id().clone();
        let call = self.process.enter(Op::PreCommit, subject(&id)).await?;
        let ours = self.clone();
        let prepared = call.apply_once::<_, SinkError>(move || {
            Box::pin(async move {
                let prepared = ours.outside.pre_commit(transaction).await?;
                if ours.process.is_left_behind() {
                    ours.observed().reached(Rare::ZombiePrepares);
                }
                ours.demand_limit(&id.job).await?;
                ours.changed();
                Ok(prepared)
            })
        });
        let prepared = prepared.await;
        call.leave(prepared).await
    }

    async fn commit(
        &self,
        id: &TransactionId,
        prepared: &MemoryHandle,
    ) -> Result<Committed, CommitError> {
        let call = self.process.enter(Op::Commit, subject(id)).await;
        let call = call.map_err(not_yet)?;
        let decided = self.observed().with(|facts| facts.decided.contains(id));
        self.observed()
            .demand(decided, || format!("{id} is committed without a decision"));
        let (ours, id, prepared) = (self.clone(), id.clone(), prepared.clone());
        let committed = call.apply::<_, NotCommitted>(move || {
            let (ours, id, prepared) = (ours.clone(), id.clone(), prepared.clone());
            Box::pin(async move {
                let committed = ours.outside.commit(&id, &prepared).await;
                let committed = committed.map_err(NotCommitted)?;
                ours.committed(&id, committed);
                Ok(committed)
            })
        });
        let committed = committed.await;
        call.leave(committed).await.map_err(|error| error.0)
    }

    async fn abort(
        &self,
        unfinished: Unfinished<OpenTransaction, MemoryHandle>,
    ) -> Result<(), SinkError> {
        let (id, prepared) = match &unfinished {
            Unfinished::Open(id, _) => (id.clone(), false),
            Unfinished::Prepared(id, _) => (id.clone(), true),
        };
        let call = self.process.enter(Op::Abort, subject(&id)).await?;
        let aborted = self.outside.abort(unfinished).await;
        if prepared && aborted.is_ok() {
            self.observed().with(|facts| facts.abort(&id, "decision"));
            self.changed();
        }
        call.leave(aborted).await
    }

    async fn abort_stale(&self, fence: &Fence<MemoryHandle>) -> Result<Vec<InDoubt>, SinkError> {
        let call = self.process.enter(Op::AbortStale, Subject::Other).await?;
        for (id, _) in &fence.decided {
            let committed = self.observed().with(|facts| facts.committed.contains(id));
            self.observed().demand(committed, || {
                format!("{id} is decided, and not committed before what is stale is aborted")
            });
        }
        self.observed().with(|facts| {
            if facts.is_settled(fence.newest, fence.epoch) {
                facts.reached.count(Rare::FoundSettled);
                if !fence.decided.is_empty() {
                    let asked = format!(
                        "{:?} is recorded as settled, and settled again",
                        fence.newest
                    );
                    facts.violations.push(asked);
                }
            }
        });
        let (ours, fence) = (self.clone(), fence.clone());
        let aborted = call.apply::<_, SinkError>(move || {
            let (ours, fence) = (ours.clone(), fence.clone());
            Box::pin(async move {
                let aborted = ours.outside.abort_stale(&fence).await?;
                ours.observed().with(|facts| {
                    for id in aborted.iter().filter_map(InDoubt::id) {
                        facts.abort(&id, "a later epoch");
                        facts.reached.count(Rare::StaleAborted);
                    }
                });
                Ok(aborted)
            })
        });
        let aborted = aborted.await;
        call.leave(aborted).await
    }

    async fn in_doubt(&self, job: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        self.outside.in_doubt(job).await
    }
}
