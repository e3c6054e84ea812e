//! A port of this machine that stays ours, whether or not anybody listens on it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::{TcpListener, TcpSocket};

/// Connections waiting to be accepted.
const BACKLOG: u32 = 1024;

/// Who stops listening, to be down for a while, must not lose the port to somebody else's test. A socket that is bound
/// and does not listen keeps it; connections are refused meanwhile.
#[derive(Debug)]
pub(crate) struct ReservedPort {
    address: SocketAddr,
    /// Held, never used.
    _placeholder: TcpSocket,
}

impl ReservedPort {
    /// Any port that is free.
    pub(crate) fn any() -> io::Result<Self> {
        let placeholder = bound(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        Ok(Self {
            address: placeholder.local_addr()?,
            _placeholder: placeholder,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Listens, until the listener is dropped.
    pub(crate) fn listen(&self) -> io::Result<TcpListener> {
        bound(self.address)?.listen(BACKLOG)
    }
}

fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    // Placeholder and listener share the port.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

    use super::*;
    use tokio::net::TcpStream;

    #[tokio::test]
    async fn refuses_while_nobody_listens_and_keeps_the_port() {
        let port = ReservedPort::any().unwrap();
        for _ in 0..3 {
            let refused = TcpStream::connect(port.address()).await.unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
            let listener = port.listen().unwrap();
            let (client, accepted) =
                tokio::join!(TcpStream::connect(port.address()), listener.accept());
            client.unwrap();
            accepted.unwrap();
        }
    }
}
