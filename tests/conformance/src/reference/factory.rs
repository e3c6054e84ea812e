//! How the suite comes to reference systems and sinks.

use std::net::SocketAddr;
use std::time::Duration;

use cofferdam::async_trait;

use super::place::{PASSWORD, ReferencePlace};
use super::pool::Discipline;
use super::sink::{ReferenceRecord, ReferenceSink};
use super::state::MAX_ROW;
use crate::factory::{Factory, GoldenHandle, Odd, Reality};
use crate::trouble::Trouble;

/// How long a call waits for an answer: long for a system in the same process, short for checks that let it pass.
pub(crate) const PATIENCE: Duration = Duration::from_millis(750);

/// A sink for a place, or for a proxy in front of one.
pub(crate) fn sink(address: SocketAddr, discipline: Discipline) -> ReferenceSink<ReferenceRecord> {
    ReferenceSink::with_discipline(address, PASSWORD, PATIENCE, discipline)
}

/// Makes reference systems, and opens [`ReferenceSink`]s on them.
#[derive(Debug, Default)]
pub struct ReferenceFactory;

#[async_trait]
impl Factory for ReferenceFactory {
    type Sink = ReferenceSink<ReferenceRecord>;
    type Place = ReferencePlace;

    fn name(&self) -> String {
        "reference".to_owned()
    }

    fn reality(&self) -> Reality {
        Reality::Simulated
    }

    async fn place(&self) -> Result<ReferencePlace, Trouble> {
        ReferencePlace::start().map_err(|cause| Trouble::failed("starting a system", cause))
    }

    async fn open(&self, place: &ReferencePlace) -> Result<Self::Sink, Trouble> {
        Ok(sink(place.socket_address(), Discipline::Sound))
    }

    fn record(&self, text: &str) -> ReferenceRecord {
        ReferenceRecord::Text(text.to_owned())
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }

    fn odd_record(&self, odd: Odd) -> Result<ReferenceRecord, Trouble> {
        Ok(match odd {
            Odd::Refused => ReferenceRecord::Text("not one word".to_owned()),
            Odd::Oversize => ReferenceRecord::Text("x".repeat(MAX_ROW + 1)),
            Odd::Panicking => ReferenceRecord::Panicking,
        })
    }

    fn golden_handles(&self) -> Vec<GoldenHandle> {
        vec![GoldenHandle {
            version: "0.1".to_owned(),
            json: r#"{"transaction":"orders/rows/3/0/17","rows":42}"#.to_owned(),
        }]
    }

    async fn open_through(
        &self,
        _: &ReferencePlace,
        proxy: SocketAddr,
    ) -> Result<Self::Sink, Trouble> {
        Ok(sink(proxy, Discipline::Sound))
    }

    async fn attach(&self, address: &str) -> Result<ReferencePlace, Trouble> {
        let address = address.parse();
        address
            .map(ReferencePlace::attach)
            .map_err(|cause| Trouble::failed("reading the address of a system", cause))
    }
}
