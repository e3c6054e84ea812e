//! What comes between a check and its sink, or between a sink and its system.

mod proxy;

pub use proxy::{Passage, Proxy};
