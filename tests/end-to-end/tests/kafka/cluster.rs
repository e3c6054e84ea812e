//! Brokers, and the ways to them.

use std::net::TcpListener;
use std::sync::OnceLock;

use cofferdam_services::Kafka;

use super::relay::Relay;

/// How to come to a cluster.
#[derive(Debug, Clone)]
pub struct Place {
    /// The way of the tests' own eyes.
    pub eyes: String,
    /// The way of jobs.
    pub jobs: String,
    pub replicas: i32,
}

impl Place {
    /// A cluster that jobs reach directly.
    pub fn of(kafka: &Kafka) -> Self {
        Self {
            eyes: kafka.bootstrap(),
            jobs: kafka.bootstrap(),
            replicas: i32::try_from(kafka.nodes()).expect("a few nodes"),
        }
    }
}

/// A broker that jobs reach through a relay.
#[derive(Debug)]
pub struct Relayed {
    pub kafka: Kafka,
    pub relay: Relay,
}

impl Relayed {
    /// The one that all tests share which leave it alone.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Relayed> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// One listener for our own eyes, and one for jobs, which is told to them under the relay's address.
    fn start() -> Self {
        let port = || TcpListener::bind("127.0.0.1:0").expect("a port");
        // Held together, so that all differ.
        let held = [port(), port(), port()];
        let [eyes, door, controller] = held
            .each_ref()
            .map(|held| held.local_addr().expect("an address"));
        let relay = Relay::start(door).expect("a relay");
        drop(held);
        let relayed = relay.address();
        let kafka = Kafka::builder()
            .port(eyes.port())
            .set("controller.quorum.voters", format!("1@{controller}"))
            .set(
                "listeners",
                format!("PLAINTEXT://{eyes},RELAYED://{door},CONTROLLER://{controller}"),
            )
            .set(
                "advertised.listeners",
                format!("PLAINTEXT://{eyes},RELAYED://{relayed}"),
            )
            .set(
                "listener.security.protocol.map",
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,RELAYED:PLAINTEXT",
            )
            .start()
            .expect("a broker");
        Self { kafka, relay }
    }

    /// Past the relay: all that does not need its traps.
    pub fn place(&self) -> Place {
        Place::of(&self.kafka)
    }

    pub fn through_relay(&self) -> Place {
        Place {
            jobs: self.relay.address().to_string(),
            ..self.place()
        }
    }
}
