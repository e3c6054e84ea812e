//! A factory with a place, and the sinks opened there, without their types.
//!
//! The checks know no type of the sink under test: they are compiled once, here, and not again in each crate that runs
//! them. It also holds them to what a runtime has: a handle is text, between any two calls.

use std::any::Any;
use std::fmt::{self, Debug};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use cofferdam::{
    Capabilities, CommitError, Committed, Fence, InDoubt, JobId, SinkError, TransactionId,
    TwoPhaseCommitSinkFunction, Unfinished, async_trait,
};

use crate::factory::{Factory, GoldenHandle, Odd};
use crate::observer::Observer;
use crate::trouble::Trouble;

/// An open transaction of any sink.
pub(crate) type AnyTransaction = Box<dyn Any + Send>;

/// An instance of any sink.
#[async_trait]
pub(crate) trait Instance: Debug + Send + Sync {
    fn capabilities(&self) -> Capabilities;
    async fn begin(&self, id: &TransactionId) -> Result<AnyTransaction, SinkError>;
    async fn write(&self, to: &mut AnyTransaction, texts: Vec<String>) -> Result<(), SinkError>;
    /// Writes a record of which the subject [has](Subject::has) one.
    async fn write_odd(&self, to: &mut AnyTransaction, odd: Odd) -> Result<(), SinkError>;
    async fn pre_commit(&self, transaction: AnyTransaction) -> Result<Option<String>, SinkError>;
    /// Reads a handle from its text, and writes it again.
    fn reread(&self, handle: &str) -> Result<String, SinkError>;
    async fn commit(&self, id: &TransactionId, handle: &str) -> Result<Committed, CommitError>;
    async fn abort(&self, unfinished: Unfinished<AnyTransaction, String>) -> Result<(), SinkError>;
    async fn abort_stale(&self, fence: Fence<String>) -> Result<Vec<InDoubt>, SinkError>;
    async fn in_doubt(&self, job: &JobId) -> Result<Vec<InDoubt>, SinkError>;
}

/// What is under test: a factory, and a place that it made.
#[async_trait]
pub(crate) trait Subject: Send + Sync {
    fn place(&self) -> &dyn Observer;
    fn patience(&self) -> Duration;
    fn golden_handles(&self) -> Vec<GoldenHandle>;
    fn has(&self, odd: Odd) -> Result<(), Trouble>;
    async fn open(&self) -> Result<Box<dyn Instance>, Trouble>;
    async fn open_through(&self, proxy: SocketAddr) -> Result<Box<dyn Instance>, Trouble>;
}

/// A subject, on its way.
pub(crate) type SettingUp = Pin<Box<dyn Future<Output = Result<Arc<dyn Subject>, Trouble>> + Send>>;

/// Makes subjects, each with a new place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SetUp(pub(crate) fn() -> SettingUp);

impl SetUp {
    pub(crate) fn of<F: Factory>() -> Self {
        Self(|| {
            Box::pin(async {
                let factory = Arc::new(F::default());
                let place = factory.place().await?;
                Ok(Arc::new(FactoryAndPlace { factory, place }) as Arc<dyn Subject>)
            })
        })
    }
}

/// The place at an address, for a child process.
pub(crate) async fn attach<F: Factory>(address: &str) -> Result<Arc<dyn Subject>, Trouble> {
    let factory = Arc::new(F::default());
    let place = factory.attach(address).await?;
    Ok(Arc::new(FactoryAndPlace { factory, place }))
}

struct FactoryAndPlace<F: Factory> {
    factory: Arc<F>,
    place: F::Place,
}

#[async_trait]
impl<F: Factory> Subject for FactoryAndPlace<F> {
    fn place(&self) -> &dyn Observer {
        &self.place
    }

    fn patience(&self) -> Duration {
        self.factory.patience()
    }

    fn golden_handles(&self) -> Vec<GoldenHandle> {
        self.factory.golden_handles()
    }

    fn has(&self, odd: Odd) -> Result<(), Trouble> {
        self.factory.odd_record(odd).map(drop)
    }

    async fn open(&self) -> Result<Box<dyn Instance>, Trouble> {
        let sink = self.factory.open(&self.place).await?;
        let factory = Arc::clone(&self.factory);
        Ok(Box::new(Typed { factory, sink }))
    }

    async fn open_through(&self, proxy: SocketAddr) -> Result<Box<dyn Instance>, Trouble> {
        let sink = self.factory.open_through(&self.place, proxy).await?;
        let factory = Arc::clone(&self.factory);
        Ok(Box::new(Typed { factory, sink }))
    }
}

/// A sink of a known type.
struct Typed<F: Factory> {
    factory: Arc<F>,
    sink: F::Sink,
}

impl<F: Factory> Debug for Typed<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sink.fmt(f)
    }
}

type TransactionOf<F> = <<F as Factory>::Sink as TwoPhaseCommitSinkFunction>::Transaction;
type PreparedOf<F> = <<F as Factory>::Sink as TwoPhaseCommitSinkFunction>::Prepared;

const OWN: &str = "each process is given its own transactions";

impl<F: Factory> Typed<F> {
    fn decode(handle: &str) -> Result<PreparedOf<F>, SinkError> {
        serde_json::from_str(handle)
            .map_err(|error| SinkError::rejected("the handle can't be read").caused_by(error))
    }

    fn encode(handle: &PreparedOf<F>) -> Result<String, SinkError> {
        serde_json::to_string(handle)
            .map_err(|error| SinkError::rejected("the handle is no JSON").caused_by(error))
    }
}

#[async_trait]
impl<F: Factory> Instance for Typed<F> {
    fn capabilities(&self) -> Capabilities {
        self.sink.capabilities()
    }

    async fn begin(&self, id: &TransactionId) -> Result<AnyTransaction, SinkError> {
        Ok(Box::new(self.sink.begin(id).await?))
    }

    async fn write(&self, to: &mut AnyTransaction, texts: Vec<String>) -> Result<(), SinkError> {
        let records = texts.iter().map(|text| self.factory.record(text)).collect();
        let transaction = to.downcast_mut::<TransactionOf<F>>().expect(OWN);
        self.sink.write(transaction, records).await
    }

    async fn write_odd(&self, to: &mut AnyTransaction, odd: Odd) -> Result<(), SinkError> {
        let record = self.factory.odd_record(odd);
        let record =
            record.map_err(|trouble| SinkError::rejected("no record").caused_by(trouble))?;
        let transaction = to.downcast_mut::<TransactionOf<F>>().expect(OWN);
        self.sink.write(transaction, vec![record]).await
    }

    async fn pre_commit(&self, transaction: AnyTransaction) -> Result<Option<String>, SinkError> {
        let transaction = transaction.downcast::<TransactionOf<F>>().expect(OWN);
        let prepared = self.sink.pre_commit(*transaction).await?;
        prepared.as_ref().map(Self::encode).transpose()
    }

    fn reread(&self, handle: &str) -> Result<String, SinkError> {
        Self::encode(&Self::decode(handle)?)
    }

    async fn commit(&self, id: &TransactionId, handle: &str) -> Result<Committed, CommitError> {
        self.sink.commit(id, &Self::decode(handle)?).await
    }

    async fn abort(&self, unfinished: Unfinished<AnyTransaction, String>) -> Result<(), SinkError> {
        let unfinished = match unfinished {
            Unfinished::Open(id, transaction) => {
                let transaction = transaction.downcast::<TransactionOf<F>>().expect(OWN);
                Unfinished::Open(id, *transaction)
            }
            Unfinished::Prepared(id, handle) => Unfinished::Prepared(id, Self::decode(&handle)?),
        };
        self.sink.abort(unfinished).await
    }

    async fn abort_stale(&self, fence: Fence<String>) -> Result<Vec<InDoubt>, SinkError> {
        let decode = |(id, handle): (TransactionId, String)| Ok((id, Self::decode(&handle)?));
        let decided = fence.decided.iter().cloned().map(decode);
        let decided = decided.collect::<Result<_, SinkError>>()?;
        self.sink.abort_stale(&fence.with_decided(decided)).await
    }

    async fn in_doubt(&self, job: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        self.sink.in_doubt(job).await
    }
}
