//! Asks the system, and tells by the kind of the error what became of the question.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use cofferdam::{ErrorKind, SinkError};

use super::connection::Connection;
use super::pool::{Discipline, Lease, Pool};
use super::wire::{Answer, Password, Refusal, Request};

/// A client of the system.
#[derive(Debug)]
pub(crate) struct Client {
    address: SocketAddr,
    password: Password,
    /// How long it waits for the system.
    patience: Duration,
    pool: Pool,
}

/// Why a question has no good answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The system refused: nothing was done.
    Refused(Refusal, String),
    /// The network failed.
    Network(SinkError),
}

impl Client {
    pub(super) fn new(
        address: SocketAddr,
        password: Password,
        patience: Duration,
        discipline: Discipline,
    ) -> Self {
        Self {
            address,
            password,
            patience,
            pool: Pool::new(discipline),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Asks the system. Cancel safe: the connection of a question that nobody waits for is thrown away.
    pub(crate) async fn ask(&self, request: Request) -> Result<Answer, Failure> {
        let mut lease = match self.pool.take() {
            Some(lease) => lease,
            None => self.connect().await?,
        };
        match lease.ask(&request).await {
            Ok(answer) => accepted(answer),
            // The question may have arrived, and been done.
            Err(cause) => Err(Failure::Network(
                SinkError::unknown(format!("no answer from {}", self.address)).caused_by(cause),
            )),
        }
    }

    /// Bounds a whole call. What it did until then is unknown.
    pub(crate) async fn within<T, E: From<SinkError>>(
        &self,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let ended = tokio::time::timeout(self.patience, call).await;
        ended.unwrap_or_else(|_| {
            let Self {
                address, patience, ..
            } = self;
            Err(SinkError::unknown(format!("no answer from {address} within {patience:?}")).into())
        })
    }

    async fn connect(&self) -> Result<Lease<'_>, Failure> {
        // Nothing has been asked yet, so nothing can have happened.
        let unreachable = |cause| {
            let message = format!("{} can't be reached", self.address);
            Failure::Network(SinkError::transient(message).caused_by(cause))
        };
        let connection = Connection::open(self.address).await.map_err(unreachable)?;
        let mut lease = self.pool.lease(connection);
        let login = Request::Login {
            password: self.password.clone(),
        };
        accepted(lease.ask(&login).await.map_err(unreachable)?)?;
        Ok(lease)
    }
}

fn accepted(answer: Answer) -> Result<Answer, Failure> {
    match answer {
        Answer::Refused { refusal, message } => Err(Failure::Refused(refusal, message)),
        answer => Ok(answer),
    }
}

impl From<Failure> for SinkError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(refusal, message) => {
                let error = Self::new(kind(refusal), format!("the system refuses: {message}"));
                match hint(refusal) {
                    Some(hint) => error.hint(hint),
                    None => error,
                }
            }
            Failure::Network(error) => error,
        }
    }
}

/// What is to be done about a refusal.
fn kind(refusal: Refusal) -> ErrorKind {
    match refusal {
        Refusal::Login | Refusal::NoRights | Refusal::Full => ErrorKind::Configuration,
        // The name is a pure function of the id, so somebody else has the same: a run of the same job and epoch.
        Refusal::Fenced | Refusal::Exists => ErrorKind::Fenced,
        Refusal::Malformed
        | Refusal::IsCommitted
        | Refusal::NotOpen
        | Refusal::NotPrepared
        | Refusal::Constraint
        | Refusal::Oversize => ErrorKind::Rejected,
        // An open transaction is gone with a restart of the system; the records can be written again.
        Refusal::NoSuchTransaction | Refusal::TooManyPrepared => ErrorKind::Transient,
    }
}

fn hint(refusal: Refusal) -> Option<&'static str> {
    match refusal {
        Refusal::Login => Some("check the password"),
        Refusal::NoRights => Some("give the login the right to write"),
        Refusal::Full => Some("make room"),
        Refusal::TooManyPrepared => Some("wait until earlier checkpoints are committed"),
        _ => None,
    }
}

/// An answer to another question: this client and the system don't understand each other.
pub(crate) fn unexpected(answer: &Answer) -> Failure {
    let message = format!("the answer makes no sense: {answer:?}");
    Failure::Network(SinkError::unknown(message))
}
