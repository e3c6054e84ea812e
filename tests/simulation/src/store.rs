//! The checkpoint store of a simulated process: the one in memory, behind calls that go wrong.

use cofferdam::{
    CheckpointId, CheckpointStore, Create, Epoch, ErrorKind, MemoryCheckpointStore, StoreError,
    TransactionId, async_trait,
};

use crate::call::Wrong;
use crate::flaw::Flaw;
use crate::observed::Subject;
use crate::process::Process;
use crate::rare::Rare;
use crate::schedule::Op;

/// A store whose calls go wrong.
#[derive(Debug, Clone)]
pub struct SimulatedStore {
    /// Where objects are.
    pub inner: MemoryCheckpointStore,
    /// Who calls.
    pub process: Process,
    /// What is built wrong.
    pub flaw: Option<Flaw>,
}

impl From<Wrong> for StoreError {
    fn from(Wrong(kind): Wrong) -> Self {
        Self {
            action: "reach",
            object: "the store".to_owned(),
            retriable: matches!(kind, ErrorKind::Transient | ErrorKind::Unknown),
            hint: None,
            cause: "planned".into(),
        }
    }
}

/// A record of the log, as far as the simulation looks at it.
#[derive(Debug, Clone)]
struct LogRecord {
    op: Op,
    epoch: Epoch,
    /// The newest settled checkpoint.
    settled: Option<CheckpointId>,
    /// The checkpoint that it decides, and what that names.
    decision: Option<(CheckpointId, Vec<TransactionId>)>,
}

impl LogRecord {
    /// Parses the form in which records are stored; `None` if it is another form.
    fn parse(record: &[u8]) -> Option<Self> {
        let header = record.iter().position(|byte| *byte == b'\n')?;
        let record: serde_json::Value = serde_json::from_slice(&record[header + 1..]).ok()?;
        let op = match record["kind"].as_str()? {
            "decision" => Op::CreateDecision,
            "settled" => Op::CreateSettled,
            _ => Op::CreateTakeover,
        };
        Some(Self {
            op,
            epoch: Epoch(record["epoch"].as_u64()?),
            settled: record["settled"].as_u64().map(CheckpointId),
            decision: record.get("manifest").and_then(decision),
        })
    }
}

fn decision(manifest: &serde_json::Value) -> Option<(CheckpointId, Vec<TransactionId>)> {
    let checkpoint = CheckpointId(manifest["checkpoint"].as_u64()?);
    let id = |transaction: &serde_json::Value| transaction["id"].as_str()?.parse().ok();
    let named = manifest["transactions"].as_array()?.iter().map(id);
    Some((checkpoint, named.collect::<Option<_>>()?))
}

impl SimulatedStore {
    /// Writes an object, and notes what it decides or settles.
    async fn write(
        &self,
        record: Option<LogRecord>,
        name: &str,
        bytes: Vec<u8>,
    ) -> Result<Create, StoreError> {
        let newest = self.newest().await?;
        let created = match (self.flaw, self.inner.create(name, bytes.clone()).await?) {
            (Some(Flaw::CreateOverwrites), Create::Exists) => {
                self.inner.delete(name).await?;
                self.inner.create(name, bytes).await?
            }
            (Some(Flaw::LostRaceIsWon), Create::Exists) => Create::Created,
            (_, created) => created,
        };
        let observed = self.process.observed();
        let left_behind = self.process.is_left_behind();
        let counts = created == Create::Created && newest.is_none_or(|newest| *newest < *name);
        let settled = record.as_ref().filter(|_| counts);
        if let Some((settled, epoch)) = settled.and_then(|it| Some((it.settled?, it.epoch))) {
            observed.with(|facts| facts.settle(settled, epoch));
        }
        let Some((checkpoint, named)) = record.and_then(|record| record.decision) else {
            return Ok(created);
        };
        match created {
            // A record counts only if none of a higher number was there when it was created.
            Create::Created if counts => {
                observed.with(|facts| {
                    if left_behind {
                        facts.reached.count(Rare::DecisionDuringTakeover);
                    }
                    facts.decide(checkpoint, named);
                });
            }
            Create::Created => observed.reached(Rare::WrittenIntoGap),
            Create::Exists if left_behind => observed.reached(Rare::ZombieRefused),
            Create::Exists => {}
        }
        Ok(created)
    }

    async fn newest(&self) -> Result<Option<String>, StoreError> {
        Ok(self.inner.list("log/").await?.pop())
    }
}

#[async_trait]
impl CheckpointStore for SimulatedStore {
    async fn create(&self, name: &str, bytes: Vec<u8>) -> Result<Create, StoreError> {
        let record = name
            .starts_with("log/")
            .then(|| LogRecord::parse(&bytes))
            .flatten();
        let op = record.as_ref().map_or(Op::CreateState, |record| record.op);
        let call = self
            .process
            .enter(op, Subject::Object(name.to_owned()))
            .await?;
        let (ours, name) = (self.clone(), name.to_owned());
        let late = call.is_late();
        let created = call.apply::<_, StoreError>(move || {
            let (ours, name, bytes) = (ours.clone(), name.clone(), bytes.clone());
            let record = record.clone();
            Box::pin(async move {
                let created = ours.write(record, &name, bytes).await?;
                if late && op == Op::CreateDecision {
                    ours.process.observed().reached(match created {
                        Create::Created => Rare::DecisionAppliedLater,
                        Create::Exists => Rare::DecisionTooLate,
                    });
                }
                Ok(created)
            })
        });
        let created = created.await;
        call.leave(created).await
    }

    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let call = self
            .process
            .enter(Op::Read, Subject::Object(name.to_owned()))
            .await?;
        let read = self.inner.read(name).await;
        let mut found = None;
        let length = read.map(|read| {
            found = read;
            found.as_ref().map(Vec::len)
        });
        call.leave(length).await.map(|_| found)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let call = self
            .process
            .enter(Op::List, Subject::Object(prefix.to_owned()))
            .await?;
        let mut names = self.inner.list(prefix).await?;
        if self.flaw == Some(Flaw::ListingIsStale) && call.all() % 2 == 0 {
            names.pop();
        }
        call.leave(Ok::<_, StoreError>(names.len())).await?;
        Ok(names)
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        let call = self
            .process
            .enter(Op::Delete, Subject::Object(name.to_owned()))
            .await?;
        let (inner, name) = (self.inner.clone(), name.to_owned());
        let deleted = call.apply::<_, StoreError>(move || {
            let (inner, name) = (inner.clone(), name.clone());
            Box::pin(async move { inner.delete(&name).await })
        });
        let deleted = deleted.await;
        call.leave(deleted).await
    }

    fn location(&self) -> String {
        self.inner.location()
    }
}
