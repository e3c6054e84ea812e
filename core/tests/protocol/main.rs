//! The state machines of the protocol, case by case. All of them together, in every order of events, are checked in
//! `tests/model-check`.

mod alignment;
mod coordinator;
mod participant;
mod settlement;
