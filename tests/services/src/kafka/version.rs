use std::fmt;
use std::str::FromStr;

/// A release of Apache Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum KafkaVersion {
    /// 3.9.1, the last line of Kafka 3, with the transaction protocol before KIP-890.
    V3_9,
    /// 4.4.0.
    #[default]
    V4_4,
}

impl KafkaVersion {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::V3_9, Self::V4_4];

    /// The number of the release.
    pub fn number(self) -> &'static str {
        match self {
            Self::V3_9 => "3.9.1",
            Self::V4_4 => "4.4.0",
        }
    }

    /// The main class of the tool that changes access rules.
    pub(crate) fn access_tool(self) -> &'static str {
        match self {
            Self::V3_9 => "kafka.admin.AclCommand",
            Self::V4_4 => "org.apache.kafka.tools.AclCommand",
        }
    }
}

impl fmt::Display for KafkaVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.number())
    }
}

/// A version that is not among [`KafkaVersion::ALL`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is 3.9 (3.9.1) and 4.4 (4.4.0)")]
pub struct UnknownVersion;

impl FromStr for KafkaVersion {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        let matches = |version: &Self| {
            version.number() == text
                || version
                    .number()
                    .rsplit_once('.')
                    .is_some_and(|(line, _)| line == text)
        };
        Self::ALL.into_iter().find(matches).ok_or(UnknownVersion)
    }
}
