//! A small outside system that speaks over TCP, and the sink for it that does everything right.
//!
//! The [system](ReferencePlace) keeps rows in transactions that are open, prepared or committed, in lanes that
//! readers follow in order; it has logins, fences, limits and a ledger, can be killed, filled up and silenced. It is
//! there so that the suite can show what it finds: [`ReferenceSink`] passes every check, and each of the broken sinks
//! made from it fails one.
//!
//! Whoever writes a sink for a system on the network may take [`ReferenceSink`] for an example.

mod client;
mod connection;
mod factory;
mod place;
mod pool;
mod server;
mod sink;
mod state;
mod steps;
mod wire;

#[cfg(test)]
mod tests;

pub use factory::ReferenceFactory;
pub use place::ReferencePlace;
pub use sink::{Encode, OpenTransaction, ReferenceHandle, ReferenceRecord, ReferenceSink};
