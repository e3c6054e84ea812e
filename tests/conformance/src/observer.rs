//! What is seen and done from outside, past the sink.

use std::net::SocketAddr;

use cofferdam::{TransactionId, async_trait};

use crate::trouble::Trouble;

/// A record as a reader of the outside system finds it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Row {
    /// The text that was given to [`Factory::record`](crate::Factory::record).
    pub text: String,
    /// Where order means something: rows of one lane (a file, a partition) are in the order in which a reader gets
    /// them. `None` where there is no order, as in a table.
    pub lane: Option<String>,
}

/// What can be wrong with the outside system. Where it is a library within the sink's process, few of these exist;
/// [`Silent`](Self::Silent) then is a stranger who holds its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Breakage {
    /// The sink's right to write is taken away.
    NoRights,
    /// It is down, or gone.
    Unreachable,
    /// It takes connections and requests, and does not answer.
    Silent,
    /// Disk or quota is full.
    Full,
}

/// The eyes and hands of the suite at one place in the outside system. All but [`visible`](Self::visible) is optional:
/// what is not there skips the checks that need it.
#[async_trait]
pub trait Observer: Send + Sync + 'static {
    /// All that a reader sees at the isolation which the sink declares.
    async fn visible(&self) -> Result<Vec<Row>, Trouble>;

    /// All that a reader sees who does not use the setting of [`Isolation::HiddenIf`](cofferdam::Isolation::HiddenIf).
    async fn visible_without_isolation(&self) -> Result<Vec<Row>, Trouble> {
        Err(Trouble::unsupported("there is no weaker isolation"))
    }

    /// Names of all that is not visible data: what is staged, prepared or open, temporary tables, lock files.
    /// A ledger of what is committed, a table of fences or a log of the system's own does not belong to them.
    async fn leftovers(&self) -> Result<Vec<String>, Trouble> {
        Err(Trouble::unsupported("the observer does not list leftovers"))
    }

    /// How many connections the sinks of this place hold open; the observer's own don't count.
    async fn connections(&self) -> Result<usize, Trouble> {
        Err(Trouble::unsupported("the observer counts no connections"))
    }

    /// Cuts all connections of sinks, from the side of the system.
    async fn kill_connections(&self) -> Result<(), Trouble> {
        Err(Trouble::unsupported("there are no connections"))
    }

    /// Kills the outside system hard, and starts it again.
    async fn restart(&self) -> Result<(), Trouble> {
        Err(Trouble::unsupported(
            "the outside system can't be restarted",
        ))
    }

    /// Lets the time pass after which the system forgets what is prepared
    /// ([`Capabilities::expiry`](cofferdam::Capabilities::expiry)).
    async fn expire_in_doubt(&self) -> Result<(), Trouble> {
        Err(Trouble::unsupported("nothing expires"))
    }

    /// Removes a prepared transaction behind the sink's back, as an operator might, without a trace.
    async fn lose(&self, _transaction: &TransactionId) -> Result<(), Trouble> {
        Err(Trouble::unsupported(
            "the observer can't take away what is prepared",
        ))
    }

    /// Breaks the system.
    async fn break_down(&self, _breakage: Breakage) -> Result<(), Trouble> {
        Err(Trouble::unsupported("the observer can't break the system"))
    }

    /// Mends what [`break_down`](Self::break_down) broke.
    async fn mend(&self) -> Result<(), Trouble> {
        Ok(())
    }

    /// Passwords and the like that sinks of this place know; none may turn up in an error or in `Debug`.
    fn secrets(&self) -> Vec<String> {
        Vec::new()
    }

    /// Where the outside system listens, if it is reached over TCP.
    fn endpoint(&self) -> Option<SocketAddr> {
        None
    }

    /// Leads another process of this machine to the place, by [`Factory::attach`](crate::Factory::attach).
    fn address(&self) -> Option<String> {
        None
    }
}
