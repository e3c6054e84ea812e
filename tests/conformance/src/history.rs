//! What happened, as seen from outside a sink.

use std::fmt;

use cofferdam::TransactionId;

use crate::observer::Row;
use crate::token::Token;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Records were handed to a transaction, in this order; whether or not the call came back.
    Wrote {
        /// The transaction.
        writer: TransactionId,
        /// The numbers of the records.
        records: Vec<u64>,
    },
    /// The decision about these transactions is durable: they must become visible.
    Decided(Vec<TransactionId>),
    /// These transactions are aborted, and must never be visible.
    DecidedAgainst(Vec<TransactionId>),
    /// A reader looked, and saw these rows.
    Read(Vec<Row>),
    /// All is settled and quiet: what is decided must be visible in the last read.
    Quiet,
    /// A remark, for whoever reads the history.
    Note(String),
}

/// What happened, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    events: Vec<Event>,
}

impl History {
    /// Adds what happened next.
    pub fn push(&mut self, event: Event) {
        self.events.push(event);
    }

    /// All that happened.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The events that have to do with some of these transactions or texts, rows of others left out.
    #[must_use]
    pub fn about(&self, transactions: &[TransactionId], texts: &[String]) -> Self {
        let of = |ids: &[TransactionId]| -> Vec<TransactionId> {
            let ours = ids.iter().filter(|id| transactions.contains(id));
            ours.cloned().collect()
        };
        let concerns = |row: &Row| {
            let writer = row.text.parse().ok().map(|token: Token| token.writer);
            texts.contains(&row.text) || writer.is_some_and(|writer| transactions.contains(&writer))
        };
        let shorten = |event: &Event| match event {
            Event::Wrote { writer, .. } => transactions.contains(writer).then(|| event.clone()),
            Event::Decided(ids) => Some(of(ids))
                .filter(|ids| !ids.is_empty())
                .map(Event::Decided),
            Event::DecidedAgainst(ids) => {
                (Some(of(ids)).filter(|ids| !ids.is_empty())).map(Event::DecidedAgainst)
            }
            Event::Read(rows) => Some(Event::Read(
                rows.iter().filter(|row| concerns(row)).cloned().collect(),
            )),
            Event::Quiet | Event::Note(_) => Some(event.clone()),
        };
        let mut events: Vec<Event> = self.events.iter().filter_map(shorten).collect();
        // A reader that looks again and again tells nothing new.
        events.dedup();
        Self { events }
    }
}

/// How many items of a list are printed.
const SHOWN: usize = 12;

/// A list, cut to a length that can be read.
fn list<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    let mut shown: Vec<String> = items.iter().take(SHOWN).map(text).collect();
    if items.len() > SHOWN {
        shown.push(format!("… {} in all", items.len()));
    }
    format!("[{}]", shown.join(", "))
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = None;
        for event in &self.events {
            // A reader that sees the same again tells nothing new.
            if last.replace(event) == Some(event) {
                continue;
            }
            match event {
                Event::Wrote { writer, records } => {
                    writeln!(f, "  {writer} writes {}", list(records, u64::to_string))?;
                }
                Event::Decided(ids) => {
                    writeln!(f, "  decided: {}", list(ids, ToString::to_string))?;
                }
                Event::DecidedAgainst(ids) => {
                    writeln!(f, "  aborted: {}", list(ids, ToString::to_string))?;
                }
                Event::Read(rows) => {
                    writeln!(f, "  a reader sees {}", list(rows, |row| row.text.clone()))?;
                }
                Event::Quiet => writeln!(f, "  all is quiet")?,
                Event::Note(note) => writeln!(f, "  {note}")?,
            }
        }
        Ok(())
    }
}
