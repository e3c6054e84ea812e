//! The source against real brokers.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

#[path = "source/bounded.rs"]
mod bounded;
#[path = "source/cluster.rs"]
mod cluster;
#[path = "source/decoding.rs"]
mod decoding;
#[path = "source/errors.rs"]
mod errors;
#[path = "source/group.rs"]
mod group;
#[path = "source/job.rs"]
mod job;
#[path = "source/new_partitions.rs"]
mod new_partitions;
#[path = "source/positions.rs"]
mod positions;
#[path = "source/reading.rs"]
mod reading;
#[path = "source/round_trip.rs"]
mod round_trip;
#[path = "source/secured.rs"]
mod secured;
