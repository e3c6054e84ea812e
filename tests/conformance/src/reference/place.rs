//! A system of its own for each place, and what is seen and done there from outside.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use cofferdam::{TransactionId, async_trait};

use super::connection::Connection;
use super::server::Server;
use super::state::{EXPIRY, Fault};
use super::wire::{Answer, Password, Request, StoredRow};
use crate::observer::{Breakage, Observer, Row};
use crate::trouble::Trouble;

/// What lets sinks in. Long and odd enough to be found in a text.
pub(super) const PASSWORD: &str = "swordfish-and-cofferdams-8315";

/// A running reference system.
#[derive(Debug)]
pub struct ReferencePlace {
    system: System,
}

#[derive(Debug)]
enum System {
    /// In this process.
    Here(Server),
    /// In the process that made the place.
    Elsewhere(SocketAddr),
}

impl ReferencePlace {
    pub(super) fn start() -> io::Result<Self> {
        let server = Server::start(Password::new(PASSWORD))?;
        Ok(Self {
            system: System::Here(server),
        })
    }

    pub(super) fn attach(address: SocketAddr) -> Self {
        Self {
            system: System::Elsewhere(address),
        }
    }

    /// Where the system listens.
    pub fn socket_address(&self) -> SocketAddr {
        match &self.system {
            System::Here(server) => server.address(),
            System::Elsewhere(address) => *address,
        }
    }

    fn server(&self) -> Result<&Server, Trouble> {
        match &self.system {
            System::Here(server) => Ok(server),
            System::Elsewhere(_) => Err(Trouble::unsupported(
                "the system belongs to another process",
            )),
        }
    }

    /// Reads past the network where that is possible: a system that is down has lost nothing.
    async fn read(&self, committed_only: bool) -> Result<Vec<Row>, Trouble> {
        let rows = match &self.system {
            System::Here(server) => server.state().read(committed_only),
            System::Elsewhere(address) => read_from(*address, committed_only)
                .await
                .map_err(|cause| Trouble::failed("reading from the system", cause))?,
        };
        let row = |row: StoredRow| Row {
            text: row.text,
            lane: Some(row.lane),
        };
        Ok(rows.into_iter().map(row).collect())
    }
}

async fn read_from(address: SocketAddr, committed_only: bool) -> io::Result<Vec<StoredRow>> {
    let mut connection = Connection::open(address).await?;
    match connection.ask(&Request::Read { committed_only }).await? {
        Answer::Rows { rows } => Ok(rows),
        other => Err(io::Error::other(format!("unexpected answer {other:?}"))),
    }
}

fn order(action: &str, obeyed: io::Result<()>) -> Result<(), Trouble> {
    obeyed.map_err(|cause| Trouble::failed(action, cause))
}

#[async_trait]
impl Observer for ReferencePlace {
    async fn visible(&self) -> Result<Vec<Row>, Trouble> {
        self.read(true).await
    }

    async fn visible_without_isolation(&self) -> Result<Vec<Row>, Trouble> {
        self.read(false).await
    }

    async fn leftovers(&self) -> Result<Vec<String>, Trouble> {
        Ok(self.server()?.state().names_of_undecided())
    }

    async fn connections(&self) -> Result<usize, Trouble> {
        Ok(self.server()?.connections())
    }

    async fn kill_connections(&self) -> Result<(), Trouble> {
        order("cutting connections", self.server()?.cut().await)
    }

    async fn restart(&self) -> Result<(), Trouble> {
        order("restarting", self.server()?.restart().await)
    }

    async fn expire_in_doubt(&self) -> Result<(), Trouble> {
        self.server()?.state().pass(EXPIRY, Instant::now());
        Ok(())
    }

    async fn lose(&self, transaction: &TransactionId) -> Result<(), Trouble> {
        if self.server()?.state().lose(&transaction.to_string()) {
            return Ok(());
        }
        let cause = format!("{transaction} is not prepared");
        Err(Trouble::failed("losing a transaction", cause))
    }

    async fn break_down(&self, breakage: Breakage) -> Result<(), Trouble> {
        let server = self.server()?;
        let broken = match breakage {
            Breakage::NoRights => {
                server.state().set_fault(Some(Fault::NoRights));
                Ok(())
            }
            Breakage::Full => {
                server.state().set_fault(Some(Fault::Full));
                Ok(())
            }
            Breakage::Unreachable => server.go_down().await,
            Breakage::Silent => server.fall_silent().await,
        };
        order("breaking the system", broken)
    }

    async fn mend(&self) -> Result<(), Trouble> {
        let server = self.server()?;
        server.state().set_fault(None);
        order("mending the system", server.come_back().await)
    }

    fn secrets(&self) -> Vec<String> {
        vec![PASSWORD.to_owned()]
    }

    fn endpoint(&self) -> Option<SocketAddr> {
        Some(self.socket_address())
    }

    fn address(&self) -> Option<String> {
        Some(self.socket_address().to_string())
    }
}
