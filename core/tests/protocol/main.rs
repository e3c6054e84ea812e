//! The state machines of the protocol under schedules of crashes, losses and zombies, and case by case.

mod alignment;
mod coordinator;
mod log;
mod outside;
mod participant;
mod process;
mod rules;
mod schedule;
mod schedules;
mod settlement;
mod world;
