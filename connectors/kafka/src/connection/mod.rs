//! How to reach a cluster: one description for both clients, the library that moves records and our own that finishes
//! transactions.

mod client_events;
mod options;
mod secret;
mod security;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::ClientConfig;

pub(crate) use self::client_events::ClientEvents;
pub(crate) use self::options::{Options, Reserved};
pub(crate) use self::secret::Secret;
pub use self::security::{BearerToken, Sasl, Tls, TokenSource};
pub(crate) use self::security::{Credentials, Mechanism};

/// How long a call may take before it fails with an error that can be tried again.
const PATIENCE: Duration = Duration::from_secs(15);

/// A Kafka cluster and the way to it. Cheap to clone; nothing is connected until it is used.
///
/// ```
/// use cofferdam_kafka::{KafkaConnection, Sasl, Tls};
///
/// let local = KafkaConnection::new("localhost:9092");
/// let secured = KafkaConnection::new("broker-1:9093,broker-2:9093")
///     .tls(Tls::new().ca_file("/etc/kafka/ca.pem"))
///     .sasl(Sasl::scram_sha_512("orders", "the password"));
/// assert!(!format!("{secured:?}").contains("the password"));
/// ```
#[derive(Debug, Clone)]
pub struct KafkaConnection {
    pub(crate) settings: Arc<Settings>,
}

/// What a connection is made of.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) bootstrap: Vec<String>,
    pub(crate) tls: Option<Tls>,
    pub(crate) sasl: Option<Sasl>,
    pub(crate) client_id: String,
    pub(crate) patience: Duration,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("bootstrap", &self.bootstrap)
            .field("tls", &self.tls)
            .field("sasl", &self.sasl)
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

impl KafkaConnection {
    /// A cluster, by the addresses (`host:port`, separated by commas) of some of its brokers.
    pub fn new(bootstrap_servers: impl AsRef<str>) -> Self {
        let addresses = bootstrap_servers.as_ref().split(',');
        Self {
            settings: Arc::new(Settings {
                bootstrap: addresses.map(|address| address.trim().to_owned()).collect(),
                tls: None,
                sasl: None,
                client_id: "cofferdam".to_owned(),
                patience: PATIENCE,
            }),
        }
    }

    /// Encrypts all connections, and proves who is who by certificates.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        Arc::make_mut(&mut self.settings).tls = Some(tls);
        self
    }

    /// Signs in with a name and a password, or with a token.
    #[must_use]
    pub fn sasl(mut self, sasl: Sasl) -> Self {
        Arc::make_mut(&mut self.settings).sasl = Some(sasl);
        self
    }

    /// The name under which brokers log and meter what comes from here; `cofferdam` if it is not set.
    #[must_use]
    pub fn client_id(mut self, client_id: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.settings).client_id = client_id.into();
        self
    }

    /// How long a call may take before it fails with an error that can be tried again; 15 seconds if it is not set.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        Arc::make_mut(&mut self.settings).patience = patience;
        self
    }

    /// The same settings, as librdkafka names them.
    pub(crate) fn client_config(&self) -> ClientConfig {
        let Settings {
            bootstrap,
            tls,
            sasl,
            client_id,
            ..
        } = &*self.settings;
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", bootstrap.join(","))
            .set("client.id", client_id)
            // A dead connection is tried again at once rather than after seconds.
            .set("reconnect.backoff.ms", "50")
            .set("reconnect.backoff.max.ms", "1000")
            .set_log_level(client_events::log_level());
        let protocol = match (tls.is_some(), sasl.is_some()) {
            (false, false) => "plaintext",
            (true, false) => "ssl",
            (false, true) => "sasl_plaintext",
            (true, true) => "sasl_ssl",
        };
        config.set("security.protocol", protocol);
        if let Some(tls) = tls {
            tls.configure(&mut config);
        }
        if let Some(sasl) = sasl {
            sasl.configure(&mut config);
        }
        config
    }
}
