//! Whole jobs over the reference source, sink and stores, with faults at every step.
//!
//! `plan` says which call goes wrong and how; `wrappers` put a plan around sinks, stores and sources; `world` is what
//! outlives a crash, with what must come out of it.

#[cfg(test)]
mod ambiguous;
#[cfg(test)]
mod at_least_once;
#[cfg(test)]
mod busy;
#[cfg(test)]
mod double_start;
#[cfg(test)]
mod extremes;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod flush;
#[cfg(test)]
mod gone;
#[cfg(test)]
mod growing;
#[cfg(test)]
mod handles;
#[cfg(test)]
mod idle;
#[cfg(test)]
mod left_out;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod lost;
#[cfg(test)]
mod ordered;
#[cfg(test)]
mod overtaken;
#[cfg(test)]
mod plan;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod removed;
#[cfg(test)]
mod routing;
#[cfg(test)]
mod rows;
#[cfg(test)]
mod settled;
#[cfg(test)]
mod spans;
#[cfg(test)]
mod state;
#[cfg(test)]
mod stuck;
#[cfg(test)]
mod timeouts;
#[cfg(test)]
mod verdicts;
#[cfg(test)]
mod warnings;
#[cfg(test)]
mod windows;
#[cfg(test)]
mod world;
#[cfg(test)]
mod wrappers;
