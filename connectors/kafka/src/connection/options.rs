//! Settings of librdkafka that users give by their names.

use std::fmt;

use cofferdam::{SinkError, SourceError};
use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;

/// Settings that are not for users, and what is to be done instead. A name that ends in a dot stands for all that begin
/// so.
pub(crate) type Reserved = &'static [(&'static str, &'static str)];

/// Those that no client leaves to users.
const RESERVED: Reserved = &[
    ("allow.auto.create.topics", "create the topics first"),
    ("bootstrap.servers", "it comes from the connection"),
    ("client.id", "it comes from the connection"),
    ("enable.sasl.", "it comes from the connection"),
    ("enable.ssl.", "it comes from the connection"),
    ("metadata.broker.list", "it comes from the connection"),
    (
        "plugin.library.paths",
        "what plugins do to records is not known here",
    ),
    ("sasl.", "it comes from the connection"),
    ("security.", "it comes from the connection"),
    ("ssl.", "it comes from the connection"),
];

/// What a user set, in the order of calls.
#[derive(Clone, Default)]
pub(crate) struct Options(Vec<(String, String)>);

/// By name alone: somebody may have tried to give a password so, before that is refused.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

/// Why settings can't be used.
pub(crate) struct OptionError {
    what: String,
    hint: &'static str,
    cause: Option<KafkaError>,
}

impl From<OptionError> for SourceError {
    fn from(error: OptionError) -> Self {
        let told = Self::configuration(error.what).hint(error.hint);
        match error.cause {
            Some(cause) => told.caused_by(cause),
            None => told,
        }
    }
}

impl From<OptionError> for SinkError {
    fn from(error: OptionError) -> Self {
        let told = Self::configuration(error.what).hint(error.hint);
        match error.cause {
            Some(cause) => told.caused_by(cause),
            None => told,
        }
    }
}

impl Options {
    pub(crate) fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.push((name.into(), value.into()));
    }

    /// Adds what the user set to what the `owner`, source or sink, has set, and proves that librdkafka takes it.
    pub(crate) fn add_to(
        &self,
        mut config: ClientConfig,
        owner: &'static str,
        reserved: Reserved,
    ) -> Result<ClientConfig, OptionError> {
        for (name, value) in &self.0 {
            let is_it = |(reserved, _): &&(&str, &str)| match reserved.ends_with('.') {
                true => name.starts_with(reserved),
                false => name == reserved,
            };
            if let Some((_, hint)) = RESERVED.iter().chain(reserved).find(is_it) {
                return Err(OptionError {
                    what: format!("the option {name} of the Kafka {owner} can't be set"),
                    hint,
                    cause: None,
                });
            }
            config.set(name, value);
        }
        match config.create_native_config() {
            Ok(_) => Ok(config),
            Err(cause) => Err(OptionError {
                what: format!("librdkafka refuses the settings of the Kafka {owner}"),
                hint: "check the names and values of its options",
                cause: Some(cause),
            }),
        }
    }
}
