//! How operators become one monomorphic chain per subtask.
//!
//! A [`Chain`] is the plan: cheap to clone, no state. In each subtask it is built, from the end forwards, into a
//! [`Stage`]: nested structs whose `push` calls inline into one loop body. Nothing waits inside `push`; what has to wait
//! (channels, sinks) collects records and does its waiting in [`Stage::signal`], between batches.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::record::Record;
use crate::identity::OperatorId;
use crate::protocol::Barrier;
use crate::runtime::{Failure, Site};
use crate::time::Timestamp;

/// Records that travel together: enough to make the cost of a hand-over vanish, few enough to stay in the cache.
pub(crate) const BATCH: usize = 1024;

/// What passes a chain between records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// A batch has ended: hand over what has gathered, if it is worth it.
    BatchEnd,
    /// Records have waited long enough: hand over what has gathered, however little.
    Flush,
    /// No more records up to this event time, but late ones.
    Watermark(Timestamp),
    /// Nothing comes for now, and until the next watermark event time is for others to tell.
    Idle,
    /// The end of a checkpoint: hand over everything, snapshot, prepare.
    Barrier(Barrier),
    /// The run is given up: let go of what is open.
    Cancel,
}

/// What a chain adds to a checkpoint at a barrier.
#[derive(Debug, Default)]
pub struct Cut {
    pub(crate) state: Vec<(OperatorId, Vec<u8>)>,
    pub(crate) counts: BTreeMap<String, u64>,
}

/// A running chain, from here to its end.
#[async_trait]
pub trait Stage<T>: Send + 'static {
    /// Takes a record. Never waits.
    fn push(&mut self, record: Record<T>);

    /// Passes a signal to the end of the chain, doing on the way what it asks for.
    async fn signal(&mut self, signal: Signal, cut: &mut Cut) -> Result<(), Failure>;
}

/// The plan of the end of a chain.
pub trait Tail<T>: Clone + Send + Sync + 'static {
    /// The running form.
    type Stage: Stage<T>;

    /// Builds the running form in a subtask.
    fn stage(&self, site: &mut Site<'_>) -> Result<Self::Stage, Failure>;
}

/// An end where records vanish.
#[derive(Debug, Clone, Copy)]
pub struct Discard;

impl<T: Send + 'static> Tail<T> for Discard {
    type Stage = Discard;

    fn stage(&self, _: &mut Site<'_>) -> Result<Discard, Failure> {
        Ok(Discard)
    }
}

#[async_trait]
impl<T: Send + 'static> Stage<T> for Discard {
    fn push(&mut self, _: Record<T>) {}

    async fn signal(&mut self, _: Signal, _: &mut Cut) -> Result<(), Failure> {
        Ok(())
    }
}

/// The plan of a chain of operators without exchange between them.
pub trait Chain: Clone + Send + Sync + 'static {
    /// What comes in.
    type In: Send + 'static;
    /// What comes out.
    type Out: Send + 'static;
    /// The running form, in front of what follows.
    type Stage<N: Stage<Self::Out>>: Stage<Self::In>;

    /// Builds the running form in a subtask, restoring its state.
    fn stage<N: Stage<Self::Out>>(
        &self,
        site: &mut Site<'_>,
        next: N,
    ) -> Result<Self::Stage<N>, Failure>;
}

/// An operator without state.
pub trait Operator<In>: Clone + Send + Sync + 'static {
    /// What comes out.
    type Out: Send + 'static;

    /// Takes a record and hands on what becomes of it.
    fn process<N: Stage<Self::Out>>(&self, record: Record<In>, next: &mut N);
}

/// The empty chain.
#[derive(Debug)]
pub struct Start<T>(std::marker::PhantomData<fn() -> T>);

impl<T> Start<T> {
    pub(crate) fn new() -> Self {
        Self(std::marker::PhantomData)
    }
}

impl<T> Clone for Start<T> {
    fn clone(&self) -> Self {
        Self::new()
    }
}

impl<T: Send + 'static> Chain for Start<T> {
    type In = T;
    type Out = T;
    type Stage<N: Stage<T>> = N;

    fn stage<N: Stage<T>>(&self, _: &mut Site<'_>, next: N) -> Result<N, Failure> {
        Ok(next)
    }
}

/// A chain with one more operator.
#[derive(Debug, Clone)]
pub struct Then<C, O> {
    pub(crate) chain: C,
    pub(crate) operator: O,
}

impl<C: Chain, O: Operator<C::Out>> Chain for Then<C, O> {
    type In = C::In;
    type Out = O::Out;
    type Stage<N: Stage<O::Out>> = C::Stage<Running<O, N>>;

    fn stage<N: Stage<O::Out>>(
        &self,
        site: &mut Site<'_>,
        next: N,
    ) -> Result<Self::Stage<N>, Failure> {
        self.chain.stage(
            site,
            Running {
                operator: self.operator.clone(),
                next,
            },
        )
    }
}

/// A stateless operator in front of what follows it.
#[derive(Debug)]
pub struct Running<O, N> {
    operator: O,
    next: N,
}

#[async_trait]
impl<T: Send + 'static, O: Operator<T>, N: Stage<O::Out>> Stage<T> for Running<O, N> {
    #[inline]
    fn push(&mut self, record: Record<T>) {
        self.operator.process(record, &mut self.next);
    }

    async fn signal(&mut self, signal: Signal, cut: &mut Cut) -> Result<(), Failure> {
        self.next.signal(signal, cut).await
    }
}
