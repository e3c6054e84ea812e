//! What is put between the suite and a sink, or its system, so that things go wrong.

pub(crate) mod child;
pub(crate) mod polls;
pub(crate) mod proxy;
