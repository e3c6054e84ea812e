//! The way of late records into a sink of their own.

use std::fmt;

use super::record::{Keyed, Record};
use super::stage::{Chain, Operator, Stage, Start, Tail, Then};
use crate::runtime::{Failure, SinkTail, Site};
use crate::sink::TwoPhaseCommitSinkFunction;
use crate::window::LateRecord;

/// A sink for late records.
pub struct LateSink<S, F> {
    pub(crate) map: F,
    pub(crate) sink: SinkTail<S>,
}

impl<S, F: Clone> Clone for LateSink<S, F> {
    fn clone(&self) -> Self {
        Self {
            map: self.map.clone(),
            sink: self.sink.clone(),
        }
    }
}

impl<S, F> fmt::Debug for LateSink<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LateSink")
            .field("sink", &self.sink)
            .finish_non_exhaustive()
    }
}

impl<K, T, S, F> Tail<Keyed<K, T>> for LateSink<S, F>
where
    K: Send + 'static,
    T: Send + 'static,
    S: TwoPhaseCommitSinkFunction,
    F: Fn(LateRecord<K, T>) -> S::Input + Clone + Send + Sync + 'static,
{
    type Stage = <Then<Start<Keyed<K, T>>, ToLateRecord<F>> as Chain>::Stage<
        <SinkTail<S> as Tail<S::Input>>::Stage,
    >;

    fn stage(&self, site: &mut Site<'_>) -> Result<Self::Stage, Failure> {
        let sink = self.sink.stage(site)?;
        let operator = ToLateRecord(self.map.clone());
        Then {
            chain: Start::new(),
            operator,
        }
        .stage(site, sink)
    }
}

/// Makes a late record into what its sink takes.
#[derive(Clone)]
pub struct ToLateRecord<F>(F);

impl<F> fmt::Debug for ToLateRecord<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ToLateRecord")
    }
}

impl<K, T, U, F> Operator<Keyed<K, T>> for ToLateRecord<F>
where
    U: Send + 'static,
    F: Fn(LateRecord<K, T>) -> U + Clone + Send + Sync + 'static,
{
    type Out = U;

    fn process<N: Stage<U>>(&self, record: Record<Keyed<K, T>>, next: &mut N) {
        let timestamp = record.timestamp;
        next.push(record.with(|Keyed { key, value, .. }| {
            (self.0)(LateRecord {
                key,
                value,
                timestamp,
            })
        }));
    }
}
