//! A sink with a bug, and how the suite comes to it.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::time::Duration;

use cofferdam::{
    Capabilities, CommitError, Committed, Fence, InDoubt, JobId, SinkError, TransactionId,
    TwoPhaseCommitSinkFunction, Unfinished, async_trait,
};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::bug::{Bug, Call, NotedHandle, Sink};
use crate::factory::{Factory, GoldenHandle, Odd, Reality};
use crate::reference::{
    self, Discipline, OpenTransaction, ReferenceFactory, ReferencePlace, ReferenceRecord,
};
use crate::trouble::Trouble;

/// The handle of a [`MutantSink`].
pub struct MutantHandle<B> {
    noted: NotedHandle,
    bug: PhantomData<fn() -> B>,
}

impl<B> From<NotedHandle> for MutantHandle<B> {
    fn from(noted: NotedHandle) -> Self {
        let bug = PhantomData;
        Self { noted, bug }
    }
}

impl<B> Clone for MutantHandle<B> {
    fn clone(&self) -> Self {
        self.noted.clone().into()
    }
}

impl<B> fmt::Debug for MutantHandle<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.noted.fmt(f)
    }
}

impl<B> Serialize for MutantHandle<B> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.noted.serialize(serializer)
    }
}

impl<'de, B: Bug> Deserialize<'de> for MutantHandle<B> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = serde_json::Value::deserialize(deserializer)?;
        Ok(B::decode(json).map_err(D::Error::custom)?.into())
    }
}

/// The reference sink with a bug in it.
pub struct MutantSink<B: Bug> {
    sink: Sink,
    bug: B,
}

impl<B: Bug> MutantSink<B> {
    async fn open(address: SocketAddr) -> Result<Self, Trouble> {
        let discipline = if B::RETURNS_BUSY_CONNECTIONS {
            Discipline::ReturnsBusy
        } else {
            Discipline::Sound
        };
        let sink = reference::sink(address, discipline);
        let bug = B::default();
        let opened = sink.client.within(bug.opened(&sink)).await;
        opened.map_err(|cause| Trouble::failed("opening a sink", cause))?;
        Ok(Self { sink, bug })
    }

    async fn within<T, E: From<SinkError>>(
        &self,
        call: Call,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        if self.bug.has_deadline(call) {
            self.sink.client.within(work).await
        } else {
            work.await
        }
    }
}

impl<B: Bug> fmt::Debug for MutantSink<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bug.show(&self.sink, f)
    }
}

impl<B: Bug> Drop for MutantSink<B> {
    fn drop(&mut self) {
        self.bug.closed(&self.sink);
    }
}

#[async_trait]
impl<B: Bug> TwoPhaseCommitSinkFunction for MutantSink<B> {
    type Input = ReferenceRecord;
    type Transaction = OpenTransaction;
    type Prepared = MutantHandle<B>;

    fn capabilities(&self) -> Capabilities {
        self.bug.capabilities(&self.sink)
    }

    async fn begin(&self, id: &TransactionId) -> Result<OpenTransaction, SinkError> {
        let begun = self.bug.begin(&self.sink, id);
        self.within(Call::Begin, begun).await
    }

    async fn write(
        &self,
        transaction: &mut OpenTransaction,
        records: Vec<ReferenceRecord>,
    ) -> Result<(), SinkError> {
        let written = self.bug.write(&self.sink, transaction, records);
        self.within(Call::Write, written).await
    }

    async fn pre_commit(
        &self,
        transaction: OpenTransaction,
    ) -> Result<Option<MutantHandle<B>>, SinkError> {
        let prepared = self.bug.pre_commit(&self.sink, transaction);
        let prepared = self.within(Call::PreCommit, prepared).await?;
        Ok(prepared.map(MutantHandle::from))
    }

    async fn commit(
        &self,
        id: &TransactionId,
        prepared: &MutantHandle<B>,
    ) -> Result<Committed, CommitError> {
        let committed = self.bug.commit(&self.sink, id, &prepared.noted);
        self.within(Call::Commit, committed).await
    }

    async fn abort(
        &self,
        unfinished: Unfinished<OpenTransaction, MutantHandle<B>>,
    ) -> Result<(), SinkError> {
        let unfinished = match unfinished {
            Unfinished::Open(id, transaction) => Unfinished::Open(id, transaction),
            Unfinished::Prepared(id, handle) => Unfinished::Prepared(id, handle.noted.handle),
        };
        let aborted = self.bug.abort(&self.sink, unfinished);
        self.within(Call::Abort, aborted).await
    }

    async fn abort_stale(&self, fence: &Fence<MutantHandle<B>>) -> Result<Vec<InDoubt>, SinkError> {
        let handle = |(id, prepared): &(TransactionId, MutantHandle<B>)| {
            (id.clone(), prepared.noted.handle.clone())
        };
        let fence = fence.with_decided(fence.decided.iter().map(handle).collect());
        let swept = self.bug.abort_stale(&self.sink, &fence);
        self.within(Call::AbortStale, swept).await
    }

    async fn in_doubt(&self, job: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        let listed = self.bug.in_doubt(&self.sink, job);
        self.within(Call::InDoubt, listed).await
    }
}

/// Opens broken sinks on reference systems.
#[derive(Debug)]
pub struct MutantFactory<B> {
    bug: PhantomData<fn() -> B>,
}

impl<B> Default for MutantFactory<B> {
    fn default() -> Self {
        Self { bug: PhantomData }
    }
}

#[async_trait]
impl<B: Bug> Factory for MutantFactory<B> {
    type Sink = MutantSink<B>;
    type Place = ReferencePlace;

    fn name(&self) -> String {
        format!("{} {}", B::ABOUT.id, B::ABOUT.name)
    }

    fn reality(&self) -> Reality {
        ReferenceFactory.reality()
    }

    async fn place(&self) -> Result<ReferencePlace, Trouble> {
        ReferenceFactory.place().await
    }

    async fn open(&self, place: &ReferencePlace) -> Result<MutantSink<B>, Trouble> {
        MutantSink::open(place.socket_address()).await
    }

    fn record(&self, text: &str) -> ReferenceRecord {
        ReferenceFactory.record(text)
    }

    fn patience(&self) -> Duration {
        ReferenceFactory.patience()
    }

    fn odd_record(&self, odd: Odd) -> Result<ReferenceRecord, Trouble> {
        ReferenceFactory.odd_record(odd)
    }

    fn golden_handles(&self) -> Vec<GoldenHandle> {
        ReferenceFactory.golden_handles()
    }

    async fn open_through(
        &self,
        _: &ReferencePlace,
        proxy: SocketAddr,
    ) -> Result<MutantSink<B>, Trouble> {
        MutantSink::open(proxy).await
    }

    async fn attach(&self, address: &str) -> Result<ReferencePlace, Trouble> {
        ReferenceFactory.attach(address).await
    }
}
