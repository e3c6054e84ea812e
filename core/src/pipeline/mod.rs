//! The fluent builder: sources, operators, windows, sinks.

mod event_time;
mod exchange;
mod heads;
mod late_sink;
mod local_exchange;
mod operators;
mod record;
mod route;
mod stage;
mod stream;

pub use event_time::{EventTime, NoEventTime, TimestampAssigner};
pub use record::{Keyed, Record};
pub use stage::{Chain, Cut, Signal, Stage, Tail};
pub use stream::{KeyedStream, Pipeline, Stream, WindowedStream};

pub(crate) use exchange::Element;
pub(crate) use stage::BATCH;
