//! The checkpoint store of a simulated process: the one in memory, behind calls that go wrong.

use cofferdam::{
    CheckpointId, CheckpointStore, Create, ErrorKind, MemoryCheckpointStore, StoreError,
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

/// What a log record decides, of the form in which it is stored; `None` if it is no decision.
fn decision(record: &[u8]) -> Option<(CheckpointId, Vec<TransactionId>)> {
    let header = record.iter().position(|byte| *byte == b'\n')?;
    let record: serde_json::Value = serde_json::from_slice(&record[header + 1..]).ok()?;
    let manifest = record.get("manifest")?;
    let checkpoint = CheckpointId(manifest["checkpoint"].as_u64()?);
    let id = |transaction: &serde_json::Value| transaction["id"].as_str()?.parse().ok();
    let named = manifest["transactions"].as_array()?.iter().map(id);
    Some((checkpoint, named.collect::<Option<_>>()?))
}

impl SimulatedStore {
    /// Writes an object, and notes what it decides.
    async fn write(&self, op: Op, name: &str, bytes: Vec<u8>) -> Result<Create, StoreError> {
        let decision = (op == Op::CreateDecision)
            .then(|| decision(&bytes))
            .flatten();
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
        let Some((checkpoint, named)) = decision else {
            return Ok(created);
        };
        match created {
            // A record counts only if none of a higher number was there when it was created.
            Create::Created if newest.is_none_or(|newest| *newest < *name) => {
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
        let op = match name.starts_with("log/") {
            true if decision(&bytes).is_some() => Op::CreateDecision,
            true => Op::CreateTakeover,
            false => Op::CreateState,
        };
        let call = self
            .process
            .enter(op, Subject::Object(name.to_owned()))
            .await?;
        let (ours, name) = (self.clone(), name.to_owned());
        let late = call.is_late();
        let created = call.apply::<_, StoreError>(move || {
            let (ours, name, bytes) = (ours.clone(), name.clone(), bytes.clone());
            Box::pin(async move {
                let created = ours.write(op, &name, bytes).await?;
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
