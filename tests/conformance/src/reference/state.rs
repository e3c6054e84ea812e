//! What the system keeps, and what it answers: a pure state machine, without network, threads or a clock of its own.

mod read;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::wire::{Answer, BackDoor, Refusal, Request, Undecided};

/// How long the system keeps what is open or prepared.
pub(crate) const EXPIRY: Duration = Duration::from_secs(3600);
/// How many prepared transactions each writer may have.
pub(crate) const MAX_PREPARED: usize = 8;
/// How large a row may be, in bytes.
pub(crate) const MAX_ROW: usize = 1024;

/// What the system answers when it does not do what it is asked.
type Refused = (Refusal, String);

/// What is wrong with the system, short of being down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    NoRights,
    Full,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// In memory only.
    Open,
    Prepared,
    Committed {
        durable: bool,
    },
}

#[derive(Debug)]
struct Transaction {
    name: String,
    owner: String,
    writer: String,
    epoch: u64,
    rows: Vec<String>,
    phase: Phase,
    /// When it was begun or prepared.
    since: Instant,
}

impl Transaction {
    fn is_committed(&self) -> bool {
        matches!(self.phase, Phase::Committed { .. })
    }
}

/// The whole system.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// In the order in which they were begun, which is the order of the lanes. The committed ones are the ledger.
    transactions: Vec<Transaction>,
    /// The newest epoch of each owner.
    fences: BTreeMap<String, u64>,
    fault: Option<Fault>,
    /// How far the system's clock is ahead of the one that it is told.
    ahead: Duration,
    /// How many rows came without a transaction.
    inserts: u64,
}

impl State {
    /// Does what a client asks, which has logged in.
    pub(crate) fn answer(&mut self, request: Request, now: Instant) -> Answer {
        let now = now + self.ahead;
        self.forget_expired(now);
        (self.perform(request, now))
            .unwrap_or_else(|(refusal, message)| Answer::Refused { refusal, message })
    }

    fn perform(&mut self, request: Request, now: Instant) -> Result<Answer, Refused> {
        self.check_fault(&request)?;
        match request {
            Request::Login { .. } => {}
            Request::Fence { owner, epoch } => {
                self.check_fence(&owner, epoch)?;
                self.fences.insert(owner, epoch);
            }
            Request::Begin {
                transaction,
                owner,
                writer,
                epoch,
            } => {
                self.check_fence(&owner, epoch)?;
                if self.transactions.iter().any(|one| one.name == transaction) {
                    return Err((Refusal::Exists, format!("{transaction} exists")));
                }
                self.transactions.push(Transaction {
                    name: transaction,
                    owner,
                    writer,
                    epoch,
                    rows: Vec::new(),
                    phase: Phase::Open,
                    since: now,
                });
            }
            Request::Append { transaction, rows } => {
                let transaction = self.open(&transaction)?;
                rows.iter().try_for_each(|row| check_row(row))?;
                transaction.rows.extend(rows);
            }
            Request::Prepare { transaction } => return self.prepare(&transaction, now),
            Request::Commit { transaction } => self.commit(&transaction, true)?,
            Request::Abort { transaction } => self.abort(&transaction)?,
            Request::Ledger { transaction } => {
                let entry = self.find(&transaction).ok();
                let entry = entry.filter(|entry| entry.is_committed());
                return Ok(Answer::Ledger {
                    rows: entry.map(|entry| entry.rows.len() as u64),
                });
            }
            Request::Committed { owner } => {
                let entries = self.transactions.iter().filter(|one| one.is_committed());
                let entries = entries.filter(|one| one.owner == owner);
                return Ok(Answer::Committed {
                    transactions: entries.map(|one| one.name.clone()).collect(),
                });
            }
            Request::Undecided => {
                return Ok(Answer::Undecided {
                    transactions: self.undecided(now),
                });
            }
            Request::Insert { rows } => {
                rows.iter().try_for_each(|row| check_row(row))?;
                self.insert(rows, now);
            }
            Request::Read { committed_only } => {
                return Ok(Answer::Rows {
                    rows: self.read(committed_only),
                });
            }
            Request::BackDoor(BackDoor::CommitRows { transaction, rows }) => {
                self.commit_rows(&transaction, rows)?;
            }
            Request::BackDoor(BackDoor::CommitInMemory { transaction }) => {
                self.commit(&transaction, false)?;
            }
        }
        Ok(Answer::Done)
    }

    fn prepare(&mut self, name: &str, now: Instant) -> Result<Answer, Refused> {
        let writer = self.open(name)?.writer.clone();
        let prepared = |one: &&Transaction| one.writer == writer && one.phase == Phase::Prepared;
        if self.transactions.iter().filter(prepared).count() >= MAX_PREPARED {
            let message = format!("{writer} has {MAX_PREPARED} prepared transactions");
            return Err((Refusal::TooManyPrepared, message));
        }
        let transaction = self.open(name)?;
        transaction.phase = Phase::Prepared;
        transaction.since = now;
        Ok(Answer::Prepared {
            rows: transaction.rows.len() as u64,
        })
    }

    fn commit(&mut self, name: &str, durable: bool) -> Result<(), Refused> {
        self.prepared(name)?.phase = Phase::Committed { durable };
        Ok(())
    }

    fn commit_rows(&mut self, name: &str, count: usize) -> Result<(), Refused> {
        let transaction = self.prepared(name)?;
        let count = count.min(transaction.rows.len());
        let part = Transaction {
            name: format!("{name} up to {}", transaction.rows.len()),
            owner: "part".to_owned(),
            writer: transaction.writer.clone(),
            epoch: transaction.epoch,
            rows: transaction.rows.drain(..count).collect(),
            phase: Phase::Committed { durable: true },
            since: transaction.since,
        };
        let place = self.transactions.iter().position(|one| one.name == name);
        self.transactions.insert(place.unwrap_or_default(), part);
        Ok(())
    }

    fn abort(&mut self, name: &str) -> Result<(), Refused> {
        if self.find(name)?.is_committed() {
            return Err((Refusal::IsCommitted, format!("{name} is committed")));
        }
        self.transactions.retain(|one| one.name != name);
        Ok(())
    }

    fn insert(&mut self, rows: Vec<String>, now: Instant) {
        self.inserts += 1;
        self.transactions.push(Transaction {
            name: format!("insert {}", self.inserts),
            owner: "nobody".to_owned(),
            writer: "nobody".to_owned(),
            epoch: 0,
            rows,
            phase: Phase::Committed { durable: true },
            since: now,
        });
    }

    fn undecided(&self, now: Instant) -> Vec<Undecided> {
        let undecided = self.transactions.iter().filter(|one| !one.is_committed());
        let listed = |one: &Transaction| {
            let left = EXPIRY.saturating_sub(now.saturating_duration_since(one.since));
            Undecided {
                transaction: one.name.clone(),
                prepared: one.phase == Phase::Prepared,
                expires_in_millis: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
            }
        };
        undecided.map(listed).collect()
    }

    fn find(&mut self, name: &str) -> Result<&mut Transaction, Refused> {
        (self.transactions.iter_mut())
            .find(|one| one.name == name)
            .ok_or_else(|| {
                let message = format!("{name} is neither open nor prepared");
                (Refusal::NoSuchTransaction, message)
            })
    }

    /// An open transaction, to write to. The owner's newest epoch may do that, and no older one.
    fn open(&mut self, name: &str) -> Result<&mut Transaction, Refused> {
        let transaction = self.find(name)?;
        let (owner, epoch) = (transaction.owner.clone(), transaction.epoch);
        self.check_fence(&owner, epoch)?;
        let transaction = self.find(name)?;
        if transaction.phase != Phase::Open {
            return Err((Refusal::NotOpen, format!("{name} is not open")));
        }
        Ok(transaction)
    }

    /// A prepared transaction, to be decided. Anybody may do that, who knows the decision: so no epoch is asked for.
    fn prepared(&mut self, name: &str) -> Result<&mut Transaction, Refused> {
        let transaction = self.find(name)?;
        match transaction.phase {
            Phase::Prepared => Ok(transaction),
            Phase::Open => Err((Refusal::NotPrepared, format!("{name} is not prepared"))),
            // As many systems do: what is done is forgotten, and the ledger has to be asked for it.
            Phase::Committed { .. } => Err((
                Refusal::NoSuchTransaction,
                format!("{name} is neither open nor prepared"),
            )),
        }
    }

    fn check_fence(&self, owner: &str, epoch: u64) -> Result<(), Refused> {
        match self.fences.get(owner) {
            Some(newest) if *newest > epoch => Err((
                Refusal::Fenced,
                format!("{owner} is at epoch {newest}, not {epoch}"),
            )),
            _ => Ok(()),
        }
    }

    fn check_fault(&self, request: &Request) -> Result<(), Refused> {
        let reads = matches!(
            request,
            Request::Login { .. }
                | Request::Ledger { .. }
                | Request::Committed { .. }
                | Request::Undecided
                | Request::Read { .. }
        );
        let adds = matches!(request, Request::Append { .. } | Request::Insert { .. });
        match self.fault {
            Some(Fault::NoRights) if !reads => {
                Err((Refusal::NoRights, "this login may not write".to_owned()))
            }
            Some(Fault::Full) if adds => Err((Refusal::Full, "the disk is full".to_owned())),
            _ => Ok(()),
        }
    }

    fn forget_expired(&mut self, now: Instant) {
        let expired = |one: &Transaction| {
            !one.is_committed() && now.saturating_duration_since(one.since) >= EXPIRY
        };
        self.transactions.retain(|one| !expired(one));
    }
}

/// What is seen and done from outside.
impl State {
    pub(crate) fn names_of_undecided(&self) -> Vec<String> {
        let undecided = self.transactions.iter().filter(|one| !one.is_committed());
        undecided.map(|one| one.name.clone()).collect()
    }

    /// Loses what is not durable.
    pub(crate) fn crash(&mut self) {
        self.transactions.retain(|one| one.phase != Phase::Open);
        for transaction in &mut self.transactions {
            if transaction.phase == (Phase::Committed { durable: false }) {
                transaction.phase = Phase::Prepared;
            }
        }
    }

    pub(crate) fn set_fault(&mut self, fault: Option<Fault>) {
        self.fault = fault;
    }

    /// Lets time pass on the system's clock.
    pub(crate) fn pass(&mut self, time: Duration, now: Instant) {
        self.ahead += time;
        self.forget_expired(now + self.ahead);
    }

    /// Takes a prepared transaction away without a trace. Says whether it was there.
    pub(crate) fn lose(&mut self, name: &str) -> bool {
        let before = self.transactions.len();
        let lost = |one: &Transaction| one.name == name && one.phase == Phase::Prepared;
        self.transactions.retain(|one| !lost(one));
        self.transactions.len() < before
    }
}

/// A row is one word of printable characters.
fn check_row(row: &str) -> Result<(), Refused> {
    if row.len() > MAX_ROW {
        let message = format!("a row of {} bytes is above {MAX_ROW}", row.len());
        return Err((Refusal::Oversize, message));
    }
    if row.is_empty() || !row.chars().all(|char| char.is_ascii_graphic()) {
        return Err((Refusal::Constraint, format!("row {row:?} is not one word")));
    }
    Ok(())
}
