//! What is put between the suite and a sink, or between a sink and its system, so that things go wrong.

pub(crate) mod child;
pub(crate) mod polls;
pub(crate) mod proxy;
