//! One connection through the proxy.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::time::sleep;

use super::Passage;
use super::turns::Turns;

/// How much is carried at once, in bytes.
const CHUNK: usize = 16 * 1024;

/// Carries between a client and the server until one of them leaves, or the trap closes.
pub(super) async fn carry(
    client: TcpStream,
    target: SocketAddr,
    turns: Arc<Turns>,
    passage: watch::Receiver<Passage>,
) {
    let connection = Connection {
        turns,
        passage,
        asked: AtomicBool::new(false),
    };
    // Whatever ends it, both sides see their connection end.
    let _ended = connection.run(client, target).await;
}

struct Connection {
    turns: Arc<Turns>,
    passage: watch::Receiver<Passage>,
    /// Whether the client has spoken since the server did.
    asked: AtomicBool,
}

impl Connection {
    async fn run(&self, mut client: TcpStream, target: SocketAddr) -> io::Result<()> {
        let mut server = TcpStream::connect(target).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        tokio::try_join!(
            self.carry_requests(from_client, to_server),
            self.carry_answers(from_server, to_client),
        )?;
        Ok(())
    }

    async fn carry_requests(
        &self,
        mut client: ReadHalf<'_>,
        mut server: WriteHalf<'_>,
    ) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK];
        loop {
            let length = client.read(&mut chunk).await?;
            if length == 0 {
                // It may still listen.
                return server.shutdown().await;
            }
            if !self.asked.swap(true, Ordering::SeqCst) && !self.turns.request() {
                return Err(trapped());
            }
            server.write_all(&chunk[..length]).await?;
        }
    }

    async fn carry_answers(
        &self,
        mut server: ReadHalf<'_>,
        mut client: WriteHalf<'_>,
    ) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK];
        loop {
            let length = server.read(&mut chunk).await?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if self.asked.swap(false, Ordering::SeqCst) {
                if !self.turns.answer() {
                    return Err(trapped());
                }
                self.hold_back().await?;
            }
            client.write_all(&chunk[..length]).await?;
        }
    }

    /// Waits as long as an answer has to.
    async fn hold_back(&self) -> io::Result<()> {
        let mut passage = self.passage.clone();
        let audible = passage.wait_for(|passage| *passage != Passage::Silent);
        let passage = *audible.await.map_err(io::Error::other)?;
        if let Passage::Delayed(delay) = passage {
            sleep(delay).await;
        }
        Ok(())
    }
}

fn trapped() -> io::Error {
    io::Error::other("the trap has closed")
}
