//! The calls into librdkafka that `rdkafka` does not offer: many records at once, in and out.
//!
//! All `unsafe` code of the project is here. `benches/kafka` shows what it is for: with it, source and sink are faster than
//! the client used by itself.

mod consume;
mod produce;

pub(crate) use self::consume::{BatchQueue, Headers, LARGEST_READ, Message};
pub(crate) use self::produce::{Batch, BatchProducer};
