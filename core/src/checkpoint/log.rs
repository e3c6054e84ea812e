//! The log of decisions: numbered records, written with create-if-absent only.
//!
//! The rule that everything rests on: **a record counts only if no record of a higher number existed when it was
//! created.** A process that takes over appends a record of the next epoch; whoever held the job before meets that
//! record at its own next number, and stops. But old records are deleted, so a process that slept for long may find its
//! next number free again. Two things make that harmless: after each create the log is listed, and a record that is not
//! the newest does not count for its writer; and each record names the decision before it, so that a reader follows
//! that chain from the newest record and never meets one that was written into a gap.
//!
//! Each record also carries the newest *settled* checkpoint: everything that it and older checkpoints name is committed,
//! or its loss accepted. A later start asks no outside system about a settled checkpoint. While checkpoints keep coming,
//! their decisions carry this for free; a record of its own is written at the end of a run and after recovery.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tracing::warn;

use super::manifest::{Manifest, StatePart};
use super::store::{CheckpointStore, Create};
use super::{CheckpointError, state};
use crate::envelope::{self, Kind};
use crate::error::chain;
use crate::identity::{CheckpointId, Epoch, JobId, TransactionId};

const LOG: &str = "log/";

/// Tells one's own records from those of others, when the answer to a create was lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Nonce(String);

impl Nonce {
    /// A nonce that no other run of any process has. `RandomState` is seeded by the operating system.
    pub(crate) fn random() -> Self {
        let random = || RandomState::new().hash_one(std::process::id());
        Self(format!("{:016x}{:016x}", random(), random()))
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct LogRecord {
    job: JobId,
    epoch: Epoch,
    nonce: Nonce,
    /// The number of the newest decision below this record.
    previous_decision: Option<u64>,
    /// The newest checkpoint that is known to be settled.
    settled: Option<CheckpointId>,
    #[serde(flatten)]
    event: LogEvent,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum LogEvent {
    Takeover,
    Decision {
        manifest: Manifest,
    },
    /// The newest decision is settled, as the record's `settled` says.
    Settled {
        /// Transactions whose loss an operator accepted.
        accepted: Vec<TransactionId>,
    },
}

impl LogEvent {
    /// Returns whether both may be of one and the same request to write a record.
    fn is_same_request(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Takeover, Self::Takeover) | (Self::Settled { .. }, Self::Settled { .. }) => true,
            (Self::Decision { manifest: one }, Self::Decision { manifest: other }) => {
                one.checkpoint == other.checkpoint
            }
            _ => false,
        }
    }
}

/// Outcome of writing a record under an epoch that was taken before.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// The record counts: the checkpoint is decided, or settled.
    Done,
    /// A newer epoch runs.
    Fenced {
        by: Epoch,
        /// True if the record is known never to be written: the record of another run was there before it. Otherwise the
        /// newer epoch finds out whether it counts.
        unwritten: bool,
    },
}

/// The newest decision in the log, and all checkpoints that are kept.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    pub(crate) newest: Option<Manifest>,
    /// True if everything that the newest decision names is recorded as settled.
    pub(crate) settled: bool,
    pub(crate) kept: Vec<CheckpointId>,
}

/// The log of one job, held under one epoch.
#[derive(Debug)]
pub(crate) struct CheckpointLog {
    store: Arc<dyn CheckpointStore>,
    job: JobId,
    epoch: Epoch,
    nonce: Nonce,
    /// The number of the newest record, which is this epoch's.
    newest: u64,
    /// The number of the newest decision.
    newest_decision: Option<u64>,
    /// The newest settled checkpoint.
    settled: Option<CheckpointId>,
    /// The numbers of settled records of this epoch: each is deleted once a newer record carries what it says.
    settled_records: Vec<u64>,
    /// True if the last try to write a record had no answer, so that the record may have been there for a time.
    unanswered: bool,
    /// Record numbers and state parts of the decided checkpoints that are kept.
    kept: BTreeMap<CheckpointId, (u64, Vec<StatePart>)>,
}

impl CheckpointLog {
    /// Takes the next epoch. After an error, call again with the same nonce: if the record was written after all, it is
    /// recognised.
    pub(crate) async fn take_over(
        store: Arc<dyn CheckpointStore>,
        job: JobId,
        nonce: Nonce,
    ) -> Result<Self, CheckpointError> {
        let mut log = Self::not_held(store, job, nonce);
        loop {
            if let Some((number, record)) = log.newest_record().await? {
                log.newest = number;
                log.epoch = record.epoch;
                log.settled = record.settled;
                log.newest_decision = match record.event {
                    LogEvent::Decision { .. } => Some(number),
                    LogEvent::Takeover | LogEvent::Settled { .. } => record.previous_decision,
                };
                if record.nonce == log.nonce {
                    return Ok(log);
                }
            }
            log.epoch = log.epoch.next();
            let name = log_name(log.next_number()?);
            let record = seal(&log.record(LogEvent::Takeover))?;
            // Whatever is answered here, the next round reads what is true.
            let _created: Create = log.store.create(&name, record).await?;
        }
    }

    /// The epoch that holds the job now; `None` if none ever did.
    pub(crate) async fn holder(
        store: Arc<dyn CheckpointStore>,
        job: JobId,
    ) -> Result<Option<Epoch>, CheckpointError> {
        let log = Self::not_held(store, job, Nonce::random());
        let newest = log.newest_record().await?;
        Ok(newest.map(|(_, record)| record.epoch))
    }

    /// The number of the newest record; `None` if there is none.
    pub(crate) async fn newest_number(
        store: Arc<dyn CheckpointStore>,
        job: JobId,
    ) -> Result<Option<u64>, CheckpointError> {
        let log = Self::not_held(store, job, Nonce::random());
        Ok(log.numbers().await?.last().copied())
    }

    fn not_held(store: Arc<dyn CheckpointStore>, job: JobId, nonce: Nonce) -> Self {
        Self {
            store,
            job,
            epoch: Epoch(0),
            nonce,
            newest: 0,
            newest_decision: None,
            settled: None,
            settled_records: Vec::new(),
            unanswered: false,
            kept: BTreeMap::new(),
        }
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Reads the newest decided checkpoint and the ids of all that are kept; deletes what no kept checkpoint needs.
    ///
    /// A damaged decision before the newest ends the list, with a warning. The checkpoints before it may be whole, and
    /// their state can't be told from what nothing names: so nothing is deleted until the damaged decision is out of reach.
    pub(crate) async fn recover(&mut self) -> Result<Decisions, CheckpointError> {
        let mut newest = None;
        let mut next = self.newest_decision;
        while let Some(number) = next {
            let record = match self.read(number).await {
                // It can't be restored, and what it names is unknown. The newest decision needs none before it.
                Err(error) if error.is_damage() && newest.is_some() => {
                    warn!(job = %self.job, error = chain(&error), "older checkpoints are left out");
                    return Ok(self.decisions(newest));
                }
                record => record?,
            };
            next = match record {
                Some(LogRecord {
                    previous_decision,
                    event: LogEvent::Decision { manifest },
                    ..
                }) => {
                    self.kept
                        .insert(manifest.checkpoint, (number, manifest.state.clone()));
                    newest.get_or_insert(manifest);
                    previous_decision
                }
                // Only the newest decision is never deleted. Where an older one was, a takeover may have been written
                // since, by a process that had listed the log before: it is in a gap, and does not count.
                None
                | Some(LogRecord {
                    event: LogEvent::Takeover | LogEvent::Settled { .. },
                    ..
                }) if newest.is_some() => None,
                _ => {
                    let object = object(&*self.store, &log_name(number));
                    return Err(CheckpointError::MissingDecision { object });
                }
            };
        }
        self.delete_unnamed().await?;
        Ok(self.decisions(newest))
    }

    fn decisions(&self, newest: Option<Manifest>) -> Decisions {
        let checkpoint = newest.as_ref().map(|newest| newest.checkpoint);
        Decisions {
            settled: checkpoint.is_some() && checkpoint <= self.settled,
            newest,
            kept: self.kept.keys().copied().collect(),
        }
    }

    /// Deletes older records that are not kept, and state parts of older epochs that no kept decision names.
    async fn delete_unnamed(&self) -> Result<(), CheckpointError> {
        let kept: Vec<u64> = self.kept.values().map(|(number, _)| *number).collect();
        for number in self.numbers().await? {
            if number < self.newest && !kept.contains(&number) {
                self.store.delete(&log_name(number)).await?;
            }
        }
        let named: Vec<&str> = (self.kept.values())
            .flat_map(|(_, parts)| parts.iter().map(|part| part.object.as_str()))
            .collect();
        for object in self.store.list(state::FOLDER).await? {
            let stale = state::epoch_of(&object).is_some_and(|epoch| epoch < self.epoch);
            if stale && !named.contains(&object.as_str()) {
                self.store.delete(&object).await?;
            }
        }
        Ok(())
    }

    /// Writes the decision for a checkpoint. After an error nothing is known: call again with the same manifest, until
    /// it answers.
    pub(crate) async fn decide(&mut self, manifest: &Manifest) -> Result<Written, CheckpointError> {
        let event = LogEvent::Decision {
            manifest: manifest.clone(),
        };
        let written = self.write(event).await?;
        if written == Written::Done {
            self.newest_decision = Some(self.newest);
            let entry = (self.newest, manifest.state.clone());
            self.kept.insert(manifest.checkpoint, entry);
        }
        Ok(written)
    }

    /// Notes that a decided checkpoint, and all before it, is settled. The next record carries it to the store.
    pub(crate) fn note_settled(&mut self, checkpoint: CheckpointId) {
        self.settled = self.settled.max(Some(checkpoint));
    }

    /// Records that the newest decided checkpoint is settled. After an error nothing is known: call again, until it
    /// answers.
    pub(crate) async fn settle(
        &mut self,
        checkpoint: CheckpointId,
        accepted: &[TransactionId],
    ) -> Result<Written, CheckpointError> {
        self.note_settled(checkpoint);
        let accepted = accepted.to_vec();
        let written = self.write(LogEvent::Settled { accepted }).await?;
        if written == Written::Done {
            self.settled_records.push(self.newest);
        }
        Ok(written)
    }

    /// Writes the next record.
    async fn write(&mut self, event: LogEvent) -> Result<Written, CheckpointError> {
        let record = self.record(event);
        let content = seal(&record)?;
        loop {
            let number = self.next_number()?;
            let unanswered = std::mem::replace(&mut self.unanswered, true);
            if self
                .store
                .create(&log_name(number), content.clone())
                .await?
                == Create::Exists
            {
                self.unanswered = unanswered;
                match self.read(number).await? {
                    // This request, of which the answer was lost.
                    Some(found)
                        if found.nonce == self.nonce
                            && found.event.is_same_request(&record.event) => {}
                    // An earlier request of this epoch, of which the answer was lost: the number is taken.
                    Some(found)
                        if found.nonce == self.nonce
                            && matches!(found.event, LogEvent::Settled { .. }) =>
                    {
                        self.newest = number;
                        continue;
                    }
                    Some(found) => {
                        return Ok(Written::Fenced {
                            by: found.epoch,
                            // After a try without answer, its record may have been read, deleted and replaced.
                            unwritten: !unanswered,
                        });
                    }
                    // It was there a moment ago, and is deleted: the log has moved far beyond it.
                    None => return self.fenced().await,
                }
            }
            if self.numbers().await?.last() != Some(&number) {
                return self.fenced().await;
            }
            self.newest = number;
            self.unanswered = false;
            return Ok(Written::Done);
        }
    }

    async fn fenced(&self) -> Result<Written, CheckpointError> {
        let newest = self.newest_record().await?;
        let by = newest.map_or(self.epoch.next(), |(_, record)| record.epoch);
        Ok(Written::Fenced {
            by,
            unwritten: false,
        })
    }

    /// Deletes a decided checkpoint: its record first, so that a crash leaves no record that names missing parts.
    pub(crate) async fn retire(&mut self, checkpoint: CheckpointId) -> Result<(), CheckpointError> {
        if let Some((number, parts)) = self.kept.get(&checkpoint) {
            self.store.delete(&log_name(*number)).await?;
            for part in parts {
                self.store.delete(&part.object).await?;
            }
            self.kept.remove(&checkpoint);
        }
        while let Some(number) = self.settled_records.first().copied() {
            if number == self.newest {
                break;
            }
            self.store.delete(&log_name(number)).await?;
            self.settled_records.remove(0);
        }
        Ok(())
    }

    /// Deletes state parts that this epoch wrote, but for those that a kept checkpoint names.
    pub(crate) async fn discard(&self, objects: &[String]) -> Result<(), CheckpointError> {
        for object in objects {
            let mut kept = self.kept.values().flat_map(|(_, parts)| parts);
            if !kept.any(|part| part.object == *object) {
                self.store.delete(object).await?;
            }
        }
        Ok(())
    }

    async fn newest_record(&self) -> Result<Option<(u64, LogRecord)>, CheckpointError> {
        while let Some(number) = self.numbers().await?.last().copied() {
            // Else it is gone since it was listed: the log has moved on.
            if let Some(record) = self.read(number).await? {
                return Ok(Some((number, record)));
            }
        }
        Ok(None)
    }

    fn next_number(&self) -> Result<u64, CheckpointError> {
        self.newest
            .checked_add(1)
            .ok_or_else(|| CheckpointError::Malformed {
                object: object(&*self.store, &log_name(self.newest)),
                cause: "no log gets so long".to_owned(),
            })
    }

    async fn numbers(&self) -> Result<Vec<u64>, CheckpointError> {
        let names = self.store.list(LOG).await?;
        // Foreign names are not ours to judge; ours have exactly one spelling, so that order of names is order of numbers.
        let number = |name: &String| {
            let number = name
                .strip_prefix(LOG)?
                .strip_suffix(".json")?
                .parse()
                .ok()?;
            (log_name(number) == *name).then_some(number)
        };
        let mut numbers: Vec<u64> = names.iter().filter_map(number).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    async fn read(&self, number: u64) -> Result<Option<LogRecord>, CheckpointError> {
        let name = log_name(number);
        let Some(bytes) = self.store.read(&name).await? else {
            return Ok(None);
        };
        let object = || object(&*self.store, &name);
        let content =
            envelope::open(Kind::Log, &bytes).map_err(|cause| CheckpointError::Envelope {
                object: object(),
                cause,
            })?;
        let record: LogRecord =
            serde_json::from_slice(content).map_err(|error| CheckpointError::Malformed {
                object: object(),
                cause: error.to_string(),
            })?;
        if record
            .previous_decision
            .is_some_and(|before| before >= number)
        {
            return Err(CheckpointError::Malformed {
                object: object(),
                cause: "it names a later record as the decision before it".to_owned(),
            });
        }
        if record.job != self.job {
            return Err(CheckpointError::OtherJob {
                location: self.store.location(),
                found: record.job,
                expected: self.job.clone(),
            });
        }
        Ok(Some(record))
    }

    fn record(&self, event: LogEvent) -> LogRecord {
        LogRecord {
            job: self.job.clone(),
            epoch: self.epoch,
            nonce: self.nonce.clone(),
            previous_decision: self.newest_decision,
            settled: self.settled,
            event,
        }
    }
}

fn seal(record: &LogRecord) -> Result<Vec<u8>, CheckpointError> {
    let content =
        serde_json::to_vec_pretty(record).map_err(|error| CheckpointError::Malformed {
            object: "a new record".to_owned(),
            cause: error.to_string(),
        })?;
    Ok(envelope::seal(Kind::Log, &content))
}

fn log_name(number: u64) -> String {
    format!("{LOG}{number:020}.json")
}

pub(super) fn object(store: &dyn CheckpointStore, name: &str) -> String {
    format!("{}/{name}", store.location())
}
