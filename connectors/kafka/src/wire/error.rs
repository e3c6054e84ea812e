//! What can go wrong between us and a broker.

use std::io;
use std::ops::RangeInclusive;

use cofferdam::ErrorKind;
use kafka_protocol::ResponseError;

/// An error of the protocol client.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    /// Nothing was sent.
    #[error("can't connect to {address}")]
    Connect {
        address: String,
        #[source]
        cause: io::Error,
    },
    /// TLS did not come about, or one side does not trust the other.
    #[error("no TLS with {address}: {reason}")]
    Tls {
        address: String,
        reason: String,
        /// The connection just ended, as it does when a broker dies: nobody judged anything.
        broke_off: bool,
    },
    /// Something else than a broker answers there, or a broker that speaks TLS while we don't.
    #[error("what answers at {address} is no Kafka broker, or speaks TLS: {reason}")]
    NotKafka { address: String, reason: String },
    /// Files of certificates or keys can't be used.
    #[error("can't use the TLS settings: {0}")]
    TlsSettings(String),
    /// The broker says no to who we are.
    #[error("{address} refuses to let {mechanism} sign in: {reason}")]
    Authentication {
        address: String,
        mechanism: &'static str,
        reason: String,
    },
    /// The connection broke after something was sent.
    #[error("the connection to {address} broke while {request} was under way")]
    Broken {
        address: String,
        request: &'static str,
        #[source]
        cause: io::Error,
    },
    /// What came is not what the protocol says.
    #[error("{address} answered {request} with what is no answer to it: {reason}")]
    Garbled {
        address: String,
        request: &'static str,
        reason: String,
    },
    /// The time is over.
    #[error("no answer to {request}{} within {seconds} s{}", at(.address), after(.last))]
    TimedOut {
        request: &'static str,
        /// Who did not answer, if it is one broker.
        address: Option<String>,
        seconds: u64,
        /// What the last try met, if there was more than one.
        last: Option<Box<WireError>>,
    },
    /// The broker does not speak a version that we need.
    #[error(
        "{address} does not know {request} in any version of {versions:?}: Kafka 3.0 is the oldest that will do"
    )]
    Unsupported {
        address: String,
        request: &'static str,
        versions: RangeInclusive<i16>,
    },
    /// It goes its way; look again.
    #[error("{0}")]
    Pending(String),
    /// The broker understood, and says no.
    #[error("{what}: {}", name_of(*.code))]
    Refused { what: String, code: i16 },
}

fn at(address: &Option<String>) -> String {
    match address {
        Some(address) => format!(" from {address}"),
        None => String::new(),
    }
}

fn after(last: &Option<Box<WireError>>) -> String {
    match last {
        Some(error) => format!("; the last try: {}", one_line(error)),
        None => String::new(),
    }
}

fn one_line(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", one_line(cause)),
        None => error.to_string(),
    }
}

/// The name of an error code, as the protocol's documents spell it.
pub(crate) fn name_of(code: i16) -> String {
    match ResponseError::try_from_code(code) {
        Some(ResponseError::Unknown(_)) => format!("error {code}"),
        Some(error) => format!("{error:?} ({code})"),
        None => "no error".to_owned(),
    }
}

impl WireError {
    /// What is to be done about it. Reading and looking never leave doubt; who changes something with a request that
    /// broke does not know whether it was done.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::Connect { .. }
            | Self::Pending(_)
            | Self::Tls {
                broke_off: true, ..
            } => ErrorKind::Transient,
            Self::Broken { .. } | Self::Garbled { .. } | Self::TimedOut { .. } => {
                ErrorKind::Unknown
            }
            Self::Tls { .. }
            | Self::TlsSettings(_)
            | Self::NotKafka { .. }
            | Self::Authentication { .. }
            | Self::Unsupported { .. } => ErrorKind::Configuration,
            Self::Refused { code, .. } => match ResponseError::try_from_code(*code) {
                Some(ResponseError::UnknownTopicOrPartition) => ErrorKind::Configuration,
                Some(error) if error.is_retriable() => ErrorKind::Transient,
                _ => ErrorKind::Configuration,
            },
        }
    }

    /// Whether another try may do better, perhaps at another broker.
    pub(crate) fn is_retriable(&self) -> bool {
        self.kind().is_retriable()
    }

    /// Whether the cluster does not know a topic. The protocol calls that retriable, as it may be on its way.
    pub(crate) fn is_unknown_topic(&self) -> bool {
        match self {
            Self::Refused { code, .. } => {
                ResponseError::try_from_code(*code) == Some(ResponseError::UnknownTopicOrPartition)
            }
            _ => false,
        }
    }

    /// What the reader of the error can do.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Connect { .. } => "is the broker up, and is that its address?",
            Self::Tls {
                broke_off: true, ..
            } => "is that a TLS listener, and is the broker well?",
            Self::Tls { .. } => {
                "it has to show a certificate of a trusted authority for this name, and may ask for one of ours"
            }
            Self::TlsSettings(_) => "check the files, and the password of the key",
            Self::NotKafka { .. } => {
                "is that the port of a listener with the same security as the connection's?"
            }
            Self::TimedOut {
                last: Some(last), ..
            } => return last.hint(),
            Self::TimedOut { .. } => "is that a broker's address, and is the broker well?",
            Self::Authentication { .. } => "check mechanism, name and password",
            Self::Refused { code, .. } => match ResponseError::try_from_code(*code)? {
                ResponseError::TopicAuthorizationFailed => {
                    "give this user READ and, to write to it, WRITE on the topic"
                }
                ResponseError::GroupAuthorizationFailed => {
                    "give this user READ on the group; a sink has groups of its own, by their prefix"
                }
                ResponseError::TransactionalIdAuthorizationFailed => {
                    "give this user WRITE on the transactional ids of the job, by their prefix"
                }
                ResponseError::ClusterAuthorizationFailed => {
                    "give this user DESCRIBE on the cluster"
                }
                ResponseError::UnknownTopicOrPartition => {
                    "create the topic first, or check its name"
                }
                ResponseError::InvalidTransactionTimeout => {
                    "lower the sink's transaction timeout, or raise transaction.max.timeout.ms of the brokers"
                }
                _ => return None,
            },
            _ => return None,
        })
    }
}
