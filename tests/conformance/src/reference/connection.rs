//! One connection of a client.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::wire::{Answer, Request};

/// A connection. One request at a time: whoever gives up waiting for an answer has to throw the connection away.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    pub(super) async fn ask(&mut self, request: &Request) -> io::Result<Answer> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.stream.write_all(&line).await?;
        line.clear();
        self.stream.read_until(b'\n', &mut line).await?;
        if line.last() != Some(&b'\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_slice(&line)?)
    }

    /// Whether the connection may be used again: the system has not closed it, and has nothing more to say.
    pub(super) fn is_quiet(&self) -> bool {
        let mut byte = [0];
        let waits = self.stream.get_ref().try_read(&mut byte);
        self.stream.buffer().is_empty()
            && matches!(waits, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}
