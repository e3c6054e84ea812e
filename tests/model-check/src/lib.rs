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
//! * [Walks](walk) are drawn ways through worlds too large to explore: four processes, two sinks of up to two subtasks, up
//!   to five checkpoints, all faults together.
//! * A [`Mutant`] is a mistake in a driver. Each has to violate a rule, by a shortest way that the tests know.
//!
//! Measured in the development profile: the explorations of `cargo test` see 1,642,116 states; two processes, two sinks
//! and two checkpoints alone are 415,690 if the coordinator hears its subtasks at once, and 1,374,684 in every order of
//! messages. All tests took 45 seconds of processor time. Larger worlds, with one's own bounds:
//!
//! ```text
//! cargo run --release -p cofferdam-model-check -- --help
//! cargo run --release -p cofferdam-model-check -- --processes 3 --sinks 1 --checkpoints 1 --threads 2
//! cargo run --release -p cofferdam-model-check -- --sinks 1 --checkpoints 1 --mutant aborts-newer-epochs
//! ```
//!
//! What is left out: the store's calls are one step each (`core/src/checkpoint/tests` takes the log apart), operator
//! state, and records within a transaction: the records before a barrier are one share of each subtask.

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
