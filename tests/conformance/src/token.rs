//! The text that each record carries: it says who wrote it, and whether it is whole.

use std::fmt;
use std::str::FromStr;

use cofferdam::TransactionId;

/// One record, as one transaction wrote it.
///
/// The same record has another token in another transaction: when a job rolls back and writes it again, the two copies
/// can be told apart.
///
/// ```
/// use cofferdam_conformance::Token;
///
/// let token = Token { record: 7, writer: "orders/files/3/0/17".parse()? };
/// let text = token.to_string();
/// assert_eq!(text.parse::<Token>()?, token);
/// assert!(text.replace('7', "8").parse::<Token>().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token {
    /// The record's number.
    pub record: u64,
    /// The transaction that wrote it.
    pub writer: TransactionId,
}

/// The text of a row is no token: something else was written there, or it was damaged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not what a sink was given to write")]
pub struct CorruptToken {
    /// The text.
    pub text: String,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = format!("{}/{}", self.record, self.writer);
        write!(f, "{body}/{:08x}", crc32fast::hash(body.as_bytes()))
    }
}

impl FromStr for Token {
    type Err = CorruptToken;

    fn from_str(text: &str) -> Result<Self, CorruptToken> {
        let corrupt = || CorruptToken {
            text: text.to_owned(),
        };
        let (body, checksum) = text.rsplit_once('/').ok_or_else(corrupt)?;
        if checksum != format!("{:08x}", crc32fast::hash(body.as_bytes())) {
            return Err(corrupt());
        }
        let (record, writer) = body.split_once('/').ok_or_else(corrupt)?;
        Ok(Self {
            record: record.parse().map_err(|_| corrupt())?,
            writer: writer.parse().map_err(|_| corrupt())?,
        })
    }
}
