//! Checks the protocol's state machines in every order of events.
//!
//! The machines are those of core ([`cofferdam::protocol`]), not a copy. Around them this crate builds a small world: a
//! log, outside systems, and processes that drive the machines as the runtime does. The checker then takes every step
//! that can happen in every state: calls that are answered, unanswered or applied later, crashes anywhere (in recovery,
//! too), zombies that go on beside their successors, votes that are late or against, decisions that reach participants
//! late, twice, out of order or never, and prepared transactions that the outside system forgets.
//!
//! * [Rules](rules_by_name) are what has to hold in every state; two of them look ahead: from any state one more process settles
//!   everything, and a run that is asked to stop ends.
//! * Each exploration has to find its examples, or it is vacuous.
//! * A [`Mutant`] is a mistake in a driver. Each has to violate a rule, by a shortest way that the tests know.

mod bounds;
mod examples;
mod log;
mod model;
mod mutant;
mod outside;
mod process;
mod recovery;
mod rest;
mod rules;
mod run;
mod step;
mod subtask;
mod trace;
mod walk;
mod world;

pub use bounds::Bounds;
pub use model::CheckpointProtocol;
pub use mutant::Mutant;
pub use outside::Transaction;
pub use rules::names as rules_by_name;
pub use step::{Answer, Step};
pub use trace::{Explored, Violation, explore, shortest_violation};
pub use walk::{Walk, examples, walk};
pub use world::World;
