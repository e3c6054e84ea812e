//! A way to a server that can be disturbed at will, whatever the protocol.

mod carry;
#[cfg(test)]
mod tests;
mod turns;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use self::turns::Turns;
use crate::reserved_port::ReservedPort;

/// How the proxy lets through what it carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// All passes.
    Open,
    /// All passes; answers come later by so much.
    Delayed(Duration),
    /// Connections are taken and requests pass; answers are held back, until the passage is another.
    Silent,
    /// New connections are refused. Those that are there stay, until they are [cut](Proxy::cut).
    Refused,
}

/// A proxy in front of a server.
///
/// It knows no protocol. An *answer* is what the server says after the client has said something, up to the client's
/// next word; a *request* is what the client says after an answer, or first. A server's greeting is no answer.
///
/// To lose the answer of each step of a call in turn, learn from [`answers`](Self::answers) how many the call takes, and
/// make it again with each of them [swallowed](Self::swallow_answer).
///
/// It runs in the runtime in which it was started, and ends, with all connections, when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    turns: Arc<Turns>,
    orders: mpsc::UnboundedSender<Order>,
    running: JoinHandle<()>,
}

#[derive(Debug)]
enum Order {
    Set(Passage, oneshot::Sender<io::Result<()>>),
    Cut(oneshot::Sender<io::Result<()>>),
}

impl Proxy {
    /// Starts an open proxy in front of a server.
    ///
    /// # Errors
    /// If no port is free.
    pub async fn start(target: SocketAddr) -> io::Result<Self> {
        let port = ReservedPort::any()?;
        let address = port.address();
        let turns = Arc::new(Turns::default());
        let (orders, received) = mpsc::unbounded_channel();
        let serving = Serving {
            listener: Some(port.listen()?),
            port,
            target,
            passage: watch::Sender::new(Passage::Open),
            turns: Arc::clone(&turns),
            connections: JoinSet::new(),
        };
        Ok(Self {
            address,
            turns,
            orders,
            running: tokio::spawn(serving.run(received)),
        })
    }

    /// Where clients come in.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets how the proxy lets through what it carries, from now on.
    ///
    /// # Errors
    /// If the proxy can't listen again after it has refused.
    pub async fn set(&self, passage: Passage) -> io::Result<()> {
        self.obey(|done| Order::Set(passage, done)).await
    }

    /// Cuts all connections. They are closed when this returns.
    ///
    /// # Errors
    /// If the proxy has ended with its runtime.
    pub async fn cut(&self) -> io::Result<()> {
        self.obey(Order::Cut).await
    }

    /// How many answers have come from the server, swallowed ones not counted.
    pub fn answers(&self) -> u64 {
        self.turns.answers()
    }

    /// How many requests have gone to the server.
    pub fn requests(&self) -> u64 {
        self.turns.requests()
    }

    /// Sets a trap: of the answers from now on, the one of this number, from 1, does not arrive, and its connection is
    /// cut. What was asked for is done. It replaces a trap that was set before.
    pub fn swallow_answer(&self, number: u64) {
        self.turns.swallow_answer(number);
    }

    /// Sets a trap: of the requests from now on, the one of this number, from 1, does not reach the server, and its
    /// connection is cut. It replaces a trap that was set before.
    pub fn cut_before_request(&self, number: u64) {
        self.turns.cut_before_request(number);
    }

    /// Whether the trap is still set: no connection has run into it.
    pub fn is_armed(&self) -> bool {
        self.turns.is_armed()
    }

    /// Takes the trap away.
    pub fn disarm(&self) {
        self.turns.disarm();
    }

    async fn obey(
        &self,
        order: impl FnOnce(oneshot::Sender<io::Result<()>>) -> Order,
    ) -> io::Result<()> {
        let gone = || io::Error::other("the proxy has ended");
        let (done, obeyed) = oneshot::channel();
        self.orders.send(order(done)).map_err(|_| gone())?;
        obeyed.await.map_err(|_| gone())?
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.running.abort();
    }
}

struct Serving {
    port: ReservedPort,
    /// `None` while connections are refused.
    listener: Option<TcpListener>,
    target: SocketAddr,
    passage: watch::Sender<Passage>,
    turns: Arc<Turns>,
    connections: JoinSet<()>,
}

impl Serving {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        loop {
            tokio::select! {
                client = accept(self.listener.as_ref()) => {
                    let (turns, passage) = (Arc::clone(&self.turns), self.passage.subscribe());
                    self.connections.spawn(carry::carry(client, self.target, turns, passage));
                }
                Some(order) = orders.recv() => {
                    let (done, obeyed) = match order {
                        Order::Set(passage, done) => (done, self.set(passage)),
                        Order::Cut(done) => {
                            self.connections.shutdown().await;
                            (done, Ok(()))
                        }
                    };
                    // Whoever gave the order may have stopped waiting.
                    let _gone = done.send(obeyed);
                }
                Some(_) = self.connections.join_next() => {}
            }
        }
    }

    fn set(&mut self, passage: Passage) -> io::Result<()> {
        self.passage.send_replace(passage);
        if passage == Passage::Refused {
            self.listener = None;
        } else if self.listener.is_none() {
            self.listener = Some(self.port.listen()?);
        }
        Ok(())
    }
}

async fn accept(listener: Option<&TcpListener>) -> TcpStream {
    let Some(listener) = listener else {
        return std::future::pending().await;
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // Out of files, for instance.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}
