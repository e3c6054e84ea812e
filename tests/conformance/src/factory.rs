//! How the suite comes to places in the outside system, and to sinks that write there.

use std::net::SocketAddr;
use std::time::Duration;

use cofferdam::{TwoPhaseCommitSinkFunction, async_trait};

use crate::observer::Observer;
use crate::trouble::Trouble;

/// How much of the outside system is real. Shown in the report beside every result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reality {
    /// It lives in the memory of the test.
    Simulated,
    /// Other software that speaks the system's protocol.
    Emulator,
    /// The system itself.
    Real,
}

/// A record that is not as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Odd {
    /// The outside system refuses it: it breaks a constraint, or can't be encoded.
    Refused,
    /// It is larger than the outside system takes.
    Oversize,
    /// Encoding it panics, in code that the user of the sink wrote.
    Panicking,
}

/// A handle as an earlier version of the sink has stored it.
#[derive(Debug, Clone)]
pub struct GoldenHandle {
    /// The version that wrote it.
    pub version: String,
    /// The handle, as JSON.
    pub json: String,
}

/// Makes places in the outside system, and opens sinks on them.
///
/// Each check makes a factory of its own: what is costly, such as a server, is started once and shared by places.
#[async_trait]
pub trait Factory: Default + Send + Sync + 'static {
    /// The sink under test.
    type Sink: TwoPhaseCommitSinkFunction;
    /// A place in the outside system: a folder, a table, a topic; empty at first, and nobody else's.
    type Place: Observer;

    /// The sink's name in the report.
    fn name(&self) -> String;

    /// How much of the outside system is real.
    fn reality(&self) -> Reality;

    /// A new, empty place. It is cleaned up when it is dropped.
    async fn place(&self) -> Result<Self::Place, Trouble>;

    /// Opens a sink on the place, as another process would: with no memory of the sinks opened before.
    async fn open(&self, place: &Self::Place) -> Result<Self::Sink, Trouble>;

    /// A record that carries this text, which is unique, short, printable ASCII without quotes or white space.
    fn record(&self, text: &str) -> <Self::Sink as TwoPhaseCommitSinkFunction>::Input;

    /// How long one call may take when the outside system does not answer: the deadline that the sink sets itself.
    fn patience(&self) -> Duration {
        Duration::from_secs(30)
    }

    /// A record that is not as it should be.
    fn odd_record(
        &self,
        odd: Odd,
    ) -> Result<<Self::Sink as TwoPhaseCommitSinkFunction>::Input, Trouble> {
        Err(Trouble::unsupported(match odd {
            Odd::Refused => "no record is refused",
            Odd::Oversize => "no record is too large",
            Odd::Panicking => "no code of the user's encodes records",
        }))
    }

    /// Handles of all earlier versions that a checkpoint may still hold. The current version belongs to them, so that
    /// the next one has it.
    fn golden_handles(&self) -> Vec<GoldenHandle> {
        Vec::new()
    }

    /// Opens a sink that reaches the place through a proxy instead of at [`Observer::endpoint`].
    async fn open_through(
        &self,
        _place: &Self::Place,
        _proxy: SocketAddr,
    ) -> Result<Self::Sink, Trouble> {
        Err(Trouble::unsupported(
            "no network between the sink and its system",
        ))
    }

    /// The place at an [`Observer::address`], in another process. It must not be cleaned up there.
    async fn attach(&self, _address: &str) -> Result<Self::Place, Trouble> {
        Err(Trouble::unsupported(
            "the outside system lives in the process of the test",
        ))
    }
}
