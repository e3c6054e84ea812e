//! Finds what must not be in a history, in one pass over it.

use std::collections::{HashMap, HashSet};
use std::fmt;

use cofferdam::{
    AtomicUnit, Capabilities, CheckpointId, Epoch, Isolation, Resume, SubtaskIndex, TransactionId,
};

use crate::history::{Event, History};
use crate::observer::Row;
use crate::token::Token;

/// What readers are promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    /// What becomes visible at one instant.
    pub unit: AtomicUnit,
    /// Nothing is visible before it is decided.
    pub hidden: bool,
    /// Nothing is visible twice, and nothing that is visible goes away.
    pub once: bool,
}

impl Promise {
    /// What a sink of these capabilities promises.
    pub fn of(capabilities: &Capabilities) -> Self {
        Self {
            unit: capabilities.atomic_unit,
            hidden: capabilities.isolation != Isolation::Immediate,
            once: capabilities.resume == Resume::AnyProcess,
        }
    }
}

/// What is wrong with a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Visible, and no token at all: something else was written, or it was damaged.
    Corrupt,
    /// Visible, and never given to the transaction that is named as its writer.
    Phantom,
    /// Visible before its checkpoint was decided.
    Dirty,
    /// Visible, though its transaction was aborted.
    Resurrected,
    /// Visible twice at once.
    Duplicate,
    /// Part of an atomic unit is visible without the rest.
    Torn,
    /// In a lane, a record of a subtask stands before an earlier one of the same subtask.
    Reordered,
    /// Was visible, and is no longer.
    Vanished,
    /// Decided, and not visible after all has settled.
    Lost,
}

/// One thing that is wrong, with what it takes to see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anomaly {
    /// What is wrong.
    pub kind: Kind,
    /// How many rows or records are concerned.
    pub count: usize,
    /// The first of them, and why it is wrong.
    pub what: String,
    /// The events that show it, and no others.
    pub history: History,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            count,
            what,
            history,
        } = self;
        write!(f, "{kind:?} ({count}): {what}\n{history}")
    }
}

/// Everything that is wrong with a history: at most one anomaly of each kind, the first, with how many there are.
///
/// Takes time and space linear in the events and the rows that were read.
pub fn check(history: &History, promise: Promise) -> Vec<Anomaly> {
    let mut checker = Checker {
        promise,
        ..Checker::default()
    };
    for event in history.events() {
        checker.event(event);
    }
    let finding = |(kind, finding): (Kind, Finding)| Anomaly {
        kind,
        count: finding.count,
        what: finding.what,
        history: history.about(&finding.transactions, &finding.texts),
    };
    checker.found.into_iter().map(finding).collect()
}

impl Default for Promise {
    fn default() -> Self {
        Self::of(&Capabilities::TRANSACTIONAL)
    }
}

/// A unit goes by the name of its first possible member.
type Unit = TransactionId;

/// What is known of one transaction.
#[derive(Debug, Default)]
struct Transaction {
    /// The place of each record in the order of writes.
    records: HashMap<u64, usize>,
    decided: bool,
    aborted: bool,
}

#[derive(Debug)]
struct Finding {
    count: usize,
    what: String,
    transactions: Vec<TransactionId>,
    texts: Vec<String>,
}

#[derive(Debug, Default)]
struct Checker {
    promise: Promise,
    transactions: HashMap<TransactionId, Transaction>,
    units: HashMap<Unit, Vec<TransactionId>>,
    /// How much of a transaction the last read found in a lane.
    in_lane: HashMap<(String, TransactionId), usize>,
    /// What was visible in the last read.
    seen: HashSet<Token>,
    found: Vec<(Kind, Finding)>,
}

impl Checker {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Wrote { writer, records } => {
                let known = self.transaction(writer);
                for record in records {
                    let place = known.records.len();
                    known.records.entry(*record).or_insert(place);
                }
            }
            Event::Decided(ids) => {
                for id in ids {
                    self.transaction(id).decided = true;
                }
            }
            Event::DecidedAgainst(ids) => {
                for id in ids {
                    self.transaction(id).aborted = true;
                }
            }
            Event::Read(rows) => self.read(rows),
            Event::Quiet => self.quiet(),
            Event::Note(_) => {}
        }
    }

    fn transaction(&mut self, id: &TransactionId) -> &mut Transaction {
        if !self.transactions.contains_key(id) {
            let unit = self.unit(id);
            self.units.entry(unit).or_default().push(id.clone());
        }
        self.transactions.entry(id.clone()).or_default()
    }

    fn read(&mut self, rows: &[Row]) {
        let mut visible = HashSet::with_capacity(rows.len());
        let mut by_record: HashMap<u64, Token> = HashMap::with_capacity(rows.len());
        let mut last_in_lane = HashMap::new();
        for row in rows {
            let Ok(token) = row.text.parse::<Token>() else {
                self.find(Kind::Corrupt, format!("{:?}", row.text), &[], &[&row.text]);
                continue;
            };
            self.row(row, &token, &mut last_in_lane);
            if let Some(other) = by_record.insert(token.record, token.clone())
                && self.promise.once
            {
                let what = format!(
                    "record {} of {} and of {}",
                    token.record, other.writer, token.writer
                );
                self.find(
                    Kind::Duplicate,
                    what,
                    &[&other.writer, &token.writer],
                    &[&row.text],
                );
            }
            visible.insert(token);
        }
        self.units(&visible);
        self.lanes(rows);
        if self.promise.once {
            let gone: Vec<Token> = self.seen.difference(&visible).cloned().collect();
            for token in gone {
                let what = format!("record {} of {}", token.record, token.writer);
                self.find(Kind::Vanished, what, &[&token.writer], &[]);
            }
        }
        self.seen = visible;
    }

    /// What is wrong with one row by itself, or with its place.
    fn row<'a>(
        &mut self,
        row: &'a Row,
        token: &Token,
        last_in_lane: &mut HashMap<(&'a str, TransactionId), (TransactionId, usize)>,
    ) {
        let Token { record, writer } = token;
        let known = self.transactions.get(writer);
        let Some((known, place)) =
            known.and_then(|known| known.records.get(record).map(|place| (known, *place)))
        else {
            let what = format!("record {record} was never given to {writer}");
            return self.find(Kind::Phantom, what, &[writer], &[&row.text]);
        };
        let (decided, aborted) = (known.decided, known.aborted);
        if aborted && self.promise.hidden {
            let what = format!("record {record} of {writer}, which was aborted");
            self.find(Kind::Resurrected, what, &[writer], &[]);
        } else if !decided && self.promise.hidden {
            let what = format!("record {record} of {writer}, which is not decided");
            self.find(Kind::Dirty, what, &[writer], &[]);
        }
        let Some(lane) = &row.lane else { return };
        // All that one subtask of one sink writes, over all its checkpoints and epochs.
        let writes = TransactionId {
            epoch: Epoch(0),
            checkpoint: CheckpointId(0),
            ..writer.clone()
        };
        let before = last_in_lane.insert((lane, writes), (writer.clone(), place));
        let at = |id: &TransactionId, place| (id.checkpoint, id.epoch, place);
        if let Some((earlier, earlier_place)) = before
            && at(&earlier, earlier_place) > at(writer, place)
        {
            let what = format!("in {lane}, record {record} of {writer} stands behind a later one");
            self.find(Kind::Reordered, what, &[&earlier, writer], &[]);
        }
    }

    /// Units of which some is visible, and some is not.
    fn units(&mut self, visible: &HashSet<Token>) {
        if matches!(
            self.promise.unit,
            AtomicUnit::Record | AtomicUnit::Partition
        ) {
            return;
        }
        let mut shown: HashMap<&TransactionId, usize> = HashMap::new();
        for token in visible {
            *shown.entry(&token.writer).or_default() += 1;
        }
        let begun: HashSet<Unit> = shown.keys().map(|id| self.unit(id)).collect();
        let mut torn = Vec::new();
        // A unit of phantoms alone has no members.
        let members = begun.iter().filter_map(|unit| self.units.get(unit));
        for id in members.flatten() {
            let known = &self.transactions[id];
            let (of, shown) = (known.records.len(), shown.get(id).copied().unwrap_or(0));
            // What is aborted is wrong for another reason.
            if shown < of && !known.aborted {
                torn.push((id.clone(), shown, of));
            }
        }
        for (id, shown, of) in torn {
            let what =
                format!("{shown} of {of} records of {id} are visible, beside others of its unit");
            self.find(Kind::Torn, what, &[&id], &[]);
        }
    }

    /// Lanes in which a transaction grows: they are units of their own where partitions are. What a lane is to hold in the
    /// end is not known before; that all of it comes is for [`quiet`](Self::quiet) to say.
    fn lanes(&mut self, rows: &[Row]) {
        if self.promise.unit != AtomicUnit::Partition {
            return;
        }
        let mut shown: HashMap<(String, TransactionId), usize> = HashMap::new();
        for row in rows {
            if let (Some(lane), Ok(token)) = (&row.lane, row.text.parse::<Token>()) {
                *shown.entry((lane.clone(), token.writer)).or_default() += 1;
            }
        }
        let torn: Vec<_> = shown
            .iter()
            .filter_map(|(place, now)| Some((place, *self.in_lane.get(place)?, *now)))
            .filter(|(_, before, now)| now > before)
            .map(|((lane, id), before, now)| (lane.clone(), id.clone(), before, now))
            .collect();
        for (lane, id, before, now) in torn {
            let what = format!("in {lane}, {before} records of {id} were visible, and then {now}");
            self.find(Kind::Torn, what, &[&id], &[]);
        }
        self.in_lane = shown;
    }

    /// The unit with which a transaction becomes visible.
    fn unit(&self, id: &TransactionId) -> Unit {
        match self.promise.unit {
            AtomicUnit::Checkpoint => TransactionId {
                subtask: SubtaskIndex(0),
                ..id.clone()
            },
            _ => id.clone(),
        }
    }

    fn quiet(&mut self) {
        let lost = |(id, known): (&TransactionId, &Transaction)| {
            let missing = |record: &&u64| {
                !self.seen.contains(&Token {
                    record: **record,
                    writer: id.clone(),
                })
            };
            let missing = known.records.keys().filter(missing).count();
            (known.decided && !known.aborted && missing > 0).then(|| (id.clone(), missing))
        };
        let lost: Vec<_> = self.transactions.iter().filter_map(lost).collect();
        for (id, missing) in lost {
            let what = format!("{missing} records of {id}, which is decided");
            self.find(Kind::Lost, what, &[&id], &[]);
        }
    }

    fn find(&mut self, kind: Kind, what: String, ids: &[&TransactionId], texts: &[&str]) {
        if let Some((_, found)) = self.found.iter_mut().find(|(found, _)| *found == kind) {
            found.count += 1;
            return;
        }
        let finding = Finding {
            count: 1,
            what,
            transactions: ids.iter().map(|id| (*id).clone()).collect(),
            texts: texts.iter().map(|text| (*text).to_owned()).collect(),
        };
        self.found.push((kind, finding));
    }
}
