//! The names and numbers that identify a job, its parts and its transactions.
//!
//! External names (file names, transaction ids, …) carry the parts of a [`TransactionId`], so that any process can tell from a
//! name alone who owns it. That needs names which never contain a delimiter: hence the narrow alphabet of [`JobId`] and
//! its siblings.

use std::fmt;
use std::str::FromStr;

use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};

/// Longest name of a job, source, operator or sink, in bytes.
///
/// The two names and three numbers of a transaction id, with their delimiters and a prefix, stay below the 200 bytes that the narrowest outside system
/// allows (the global transaction id of Postgres).
pub const MAX_NAME_LENGTH: usize = 48;

/// A name or a wire form that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The name is empty, too long or holds a character outside `A-Z a-z 0-9 _ -`.
    #[error(
        "{what} {name:?} can't be used as a name: use 1 to {MAX_NAME_LENGTH} characters out of A-Z a-z 0-9 _ -"
    )]
    Name {
        /// What the name was meant for.
        what: &'static str,
        /// The refused name.
        name: String,
    },
    /// The name holds `--`, which is reserved.
    #[error(
        "{what} {name:?} can't be used as a name: -- is reserved, to separate a job from its tasks"
    )]
    Reserved {
        /// The part of the job that the name was meant for.
        what: &'static str,
        /// The refused name.
        name: String,
    },
    /// The text is not the wire form of a transaction id.
    #[error("{text:?} is not a transaction id: expected job/sink/epoch/subtask/checkpoint")]
    TransactionId {
        /// The refused text.
        text: String,
    },
}

fn check_name(what: &'static str, name: &str) -> Result<(), IdentityError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let of = name.to_owned();
    if !(1..=MAX_NAME_LENGTH).contains(&name.len()) || !name.bytes().all(allowed) {
        return Err(IdentityError::Name { what, name: of });
    }
    if name.contains("--") {
        return Err(IdentityError::Reserved { what, name: of });
    }
    Ok(())
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(String);

        impl $type {
            /// Checks and wraps a name.
            ///
            /// # Errors
            /// [`IdentityError::Name`] if it is empty, longer than [`MAX_NAME_LENGTH`] or holds a character
            /// outside `A-Z a-z 0-9 _ -`; [`IdentityError::Reserved`] if it holds `--`.
            pub fn new(name: impl Into<String>) -> Result<Self, IdentityError> {
                let name = name.into();
                check_name($what, &name)?;
                Ok(Self(name))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $type {
            type Error = IdentityError;
            fn try_from(name: String) -> Result<Self, IdentityError> {
                Self::new(name)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> String {
                name.0
            }
        }
    };
}

name!(
    /// The stable name of a job, over all its runs.
    JobId,
    "job"
);
name!(
    /// The name of a source within its job. Its positions are kept under this name.
    SourceId,
    "source"
);
name!(
    /// The name of a stateful operator within its job. Its state is kept under this name.
    OperatorId,
    "operator"
);
name!(
    /// The name of a sink within its job. Its transactions are kept under this name.
    SinkId,
    "sink"
);

/// The greatest number that is accepted from a stored form. Counting from here never reaches the end.
pub(crate) const MAX_STORED_NUMBER: u64 = u64::MAX >> 1;

/// Decodes a number that a run counts on from.
pub(crate) fn stored_number<'de, D: Deserializer<'de>>(input: D) -> Result<u64, D::Error> {
    let number = u64::deserialize(input)?;
    if number > MAX_STORED_NUMBER {
        let expected = format!("a number up to {MAX_STORED_NUMBER}");
        return Err(D::Error::invalid_value(
            Unexpected::Unsigned(number),
            &expected.as_str(),
        ));
    }
    Ok(number)
}

macro_rules! number {
    ($(#[$doc:meta])* $type:ident($(#[$inner_attribute:meta])* $inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $type($(#[$inner_attribute])* pub $inner);

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// The number of a run of a job: the fencing token. Rises by one at each start or takeover.
    Epoch(#[serde(deserialize_with = "stored_number")] u64)
);
number!(
    /// The number of a checkpoint. Rises within a job, over all its epochs.
    CheckpointId(#[serde(deserialize_with = "stored_number")] u64)
);
number!(
    /// The index of one of the parallel instances of a part of the pipeline, from 0.
    SubtaskIndex(u32)
);

impl Epoch {
    /// The epoch of the next run. Numbers that are decoded are below 2^63, so no run reaches the end.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl CheckpointId {
    /// The checkpoint after this one. Numbers that are decoded are below 2^63, so no job reaches the end.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// The identity of one transaction: what one sink subtask writes between two barriers, in one run of the job.
///
/// No two transactions of a job ever share an id: after a restart the epoch differs.
///
/// ```
/// use cofferdam::{CheckpointId, Epoch, JobId, SinkId, SubtaskIndex, TransactionId};
///
/// let id = TransactionId {
///     job: JobId::new("orders")?,
///     sink: SinkId::new("files")?,
///     epoch: Epoch(3),
///     subtask: SubtaskIndex(0),
///     checkpoint: CheckpointId(17),
/// };
/// assert_eq!(id.to_string(), "orders/files/3/0/17");
/// assert_eq!("orders/files/3/0/17".parse::<TransactionId>()?, id);
/// # Ok::<(), cofferdam::IdentityError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TransactionId {
    /// The job that owns the transaction.
    pub job: JobId,
    /// The sink that writes it.
    pub sink: SinkId,
    /// The run of the job that began it.
    pub epoch: Epoch,
    /// The sink's subtask that began it.
    pub subtask: SubtaskIndex,
    /// The checkpoint whose barrier ends it.
    pub checkpoint: CheckpointId,
}

impl TransactionId {
    /// The id with dots as delimiters, `orders.files.3.0.17`: a name for files, objects and tables. No two ids share one.
    pub fn dotted(&self) -> String {
        self.to_string().replace('/', ".")
    }

    /// The id that [`dotted`](Self::dotted) wrote.
    ///
    /// # Errors
    /// [`IdentityError::TransactionId`] for every other text.
    pub fn from_dotted(text: &str) -> Result<Self, IdentityError> {
        let id = text.replace('.', "/").parse::<Self>();
        // A `/` in the text would have passed for a `.`.
        id.ok()
            .filter(|id| id.dotted() == text)
            .ok_or_else(|| IdentityError::TransactionId {
                text: text.to_owned(),
            })
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            job,
            sink,
            epoch,
            subtask,
            checkpoint,
        } = self;
        write!(f, "{job}/{sink}/{epoch}/{subtask}/{checkpoint}")
    }
}

impl FromStr for TransactionId {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Self, IdentityError> {
        let refuse = || IdentityError::TransactionId {
            text: text.to_owned(),
        };
        let mut parts = text.split('/');
        let mut part = || parts.next().ok_or_else(refuse);
        let id = Self {
            job: JobId::new(part()?)?,
            sink: SinkId::new(part()?)?,
            epoch: Epoch(part()?.parse().map_err(|_| refuse())?),
            subtask: SubtaskIndex(part()?.parse().map_err(|_| refuse())?),
            checkpoint: CheckpointId(part()?.parse().map_err(|_| refuse())?),
        };
        // Numbers have many spellings ("+1", "01"); only the one that Display writes is an id.
        if parts.next().is_none() && id.to_string() == text {
            Ok(id)
        } else {
            Err(refuse())
        }
    }
}

impl TryFrom<String> for TransactionId {
    type Error = IdentityError;
    fn try_from(text: String) -> Result<Self, IdentityError> {
        text.parse()
    }
}

impl From<TransactionId> for String {
    fn from(id: TransactionId) -> String {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_be_mistaken_are_refused() {
        for name in [
            "",
            "a/b",
            "a.b",
            "ä",
            "a b",
            "..",
            &"x".repeat(MAX_NAME_LENGTH + 1),
        ] {
            assert!(JobId::new(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn two_hyphens_are_reserved_in_every_name() {
        for name in ["orders--3", "--", "a---b"] {
            let errors = [
                JobId::new(name).unwrap_err(),
                SourceId::new(name).unwrap_err(),
                OperatorId::new(name).unwrap_err(),
                SinkId::new(name).unwrap_err(),
            ];
            for error in errors {
                assert!(error.to_string().contains("-- is reserved"), "{error}");
            }
        }
        assert!(JobId::new("-a-b-").is_ok());
    }

    #[test]
    fn numbers_near_the_end_are_not_decoded() {
        let last = MAX_STORED_NUMBER.to_string();
        assert_eq!(
            serde_json::from_str::<Epoch>(&last).unwrap().0,
            MAX_STORED_NUMBER
        );
        for number in [MAX_STORED_NUMBER + 1, u64::MAX] {
            let text = number.to_string();
            assert!(serde_json::from_str::<Epoch>(&text).is_err(), "{number}");
            assert!(
                serde_json::from_str::<CheckpointId>(&text).is_err(),
                "{number}"
            );
        }
        assert_eq!(Epoch(u64::MAX).next(), Epoch(u64::MAX));
        assert_eq!(CheckpointId(u64::MAX).next(), CheckpointId(u64::MAX));
    }

    #[test]
    fn a_dotted_name_leads_back_to_its_transaction() {
        let id: TransactionId = "orders/a-b/3/0/17".parse().unwrap();
        assert_eq!(id.dotted(), "orders.a-b.3.0.17");
        assert_eq!(TransactionId::from_dotted(&id.dotted()).as_ref(), Ok(&id));
        for text in [
            "orders/a-b/3/0/17",
            "orders/a-b.3.0.17",
            "a.b.1.2",
            "a.b.01.2.3",
            "_x.a.b.1.2.3",
        ] {
            assert!(TransactionId::from_dotted(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn only_the_one_spelling_of_a_transaction_id_parses() {
        for text in [
            "",
            "a/b/1/2",
            "a/b/1/2/3/4",
            "a/b/01/2/3",
            "a/b/+1/2/3",
            "a/b/1/2/",
            "a//1/2/3",
            "a/b/x/2/3",
        ] {
            assert!(text.parse::<TransactionId>().is_err(), "{text:?}");
        }
    }
}
