//! Connections that are used again.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::connection::Connection;
use super::wire::{Answer, Request};

/// How many connections are kept for later.
const MAX_IDLE: usize = 4;

/// What becomes of a connection after its use. Sound is but one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Discipline {
    /// It is used again, unless it still owes an answer.
    Sound,
    /// It is used again, also with an answer on its way. Only a broken sink does this.
    ReturnsBusy,
}

#[derive(Debug)]
pub(super) struct Pool {
    idle: Mutex<Vec<Connection>>,
    discipline: Discipline,
}

impl Pool {
    pub(super) fn new(discipline: Discipline) -> Self {
        Self {
            idle: Mutex::default(),
            discipline,
        }
    }

    /// A connection that was used before and is in order.
    pub(super) fn take(&self) -> Option<Lease<'_>> {
        let taken = loop {
            let connection = self.idle().pop()?;
            if self.discipline == Discipline::ReturnsBusy || connection.is_quiet() {
                break connection;
            }
        };
        Some(self.lease(taken))
    }

    /// Lends out a new connection.
    pub(super) fn lease(&self, connection: Connection) -> Lease<'_> {
        Lease {
            pool: self,
            connection: Some(connection),
            busy: false,
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection on loan. It goes back when this is dropped, unless it is in the middle of a request: that is how a call
/// whose future is dropped, or which waits no longer, takes its connection with it.
#[derive(Debug)]
pub(super) struct Lease<'a> {
    pool: &'a Pool,
    /// `None` once it is broken.
    connection: Option<Connection>,
    busy: bool,
}

impl Lease<'_> {
    pub(super) async fn ask(&mut self, request: &Request) -> io::Result<Answer> {
        let lent = self.connection.as_mut();
        self.busy = true;
        let answer = lent.ok_or(io::ErrorKind::NotConnected)?.ask(request).await;
        self.busy = false;
        if answer.is_err() {
            self.connection = None;
        }
        answer
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let sound = !self.busy || self.pool.discipline == Discipline::ReturnsBusy;
        let mut idle = self.pool.idle();
        if sound && idle.len() < MAX_IDLE {
            idle.extend(self.connection.take());
        }
    }
}
