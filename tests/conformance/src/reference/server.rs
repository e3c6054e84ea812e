//! The system on the network. It runs in a thread of its own, as it would in a process of its own: whatever blocks the
//! test, the system answers.

mod session;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::state::State;
use super::wire::Password;
use crate::reserved_port::ReservedPort;

/// What the network thread is told.
#[derive(Debug, Clone, Copy)]
enum Order {
    /// Cut all connections.
    Cut,
    /// Die, and come back.
    Restart,
    /// Take no connections, and cut those that are there.
    GoDown,
    /// Take connections and requests, do them, and say nothing.
    FallSilent,
    /// Take connections and answer, as one should.
    ComeBack,
}

/// What all threads know.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    password: Password,
    /// Connections that have logged in.
    connections: AtomicUsize,
    /// Whether nothing is answered.
    silent: AtomicBool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running system. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// `None` only while it is dropped.
    orders: Option<mpsc::UnboundedSender<(Order, oneshot::Sender<io::Result<()>>)>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts an empty system, to which this password lets in.
    pub(crate) fn start(password: Password) -> io::Result<Self> {
        let port = ReservedPort::any()?;
        let address = port.address();
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            password,
            connections: AtomicUsize::new(0),
            silent: AtomicBool::new(false),
        });
        let (orders, received) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let listener = {
            let _inside = runtime.enter();
            Some(port.listen()?)
        };
        let network = Network {
            port,
            listener,
            connections: JoinSet::new(),
            shared: Arc::clone(&shared),
        };
        let thread = thread::Builder::new()
            .name("reference system".to_owned())
            .spawn(move || runtime.block_on(network.run(received)))?;
        Ok(Self {
            address,
            shared,
            orders: Some(orders),
            thread: Some(thread),
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the system keeps, past its network.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }

    /// How many connections have logged in.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    pub(crate) async fn cut(&self) -> io::Result<()> {
        self.obey(Order::Cut).await
    }

    /// Loses what is not durable, and starts again on the same port.
    pub(crate) async fn restart(&self) -> io::Result<()> {
        self.obey(Order::Restart).await
    }

    pub(crate) async fn go_down(&self) -> io::Result<()> {
        self.obey(Order::GoDown).await
    }

    pub(crate) async fn fall_silent(&self) -> io::Result<()> {
        self.obey(Order::FallSilent).await
    }

    pub(crate) async fn come_back(&self) -> io::Result<()> {
        self.obey(Order::ComeBack).await
    }

    async fn obey(&self, order: Order) -> io::Result<()> {
        let (done, obeyed) = oneshot::channel();
        let gone = || io::Error::other("the system has ended");
        let orders = self.orders.as_ref().ok_or_else(gone)?;
        orders.send((order, done)).map_err(|_| gone())?;
        obeyed.await.map_err(|_| gone())?
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!("the thread of the reference system has panicked");
        }
    }
}

struct Network {
    port: ReservedPort,
    /// `None` while the system is down.
    listener: Option<TcpListener>,
    connections: JoinSet<()>,
    shared: Arc<Shared>,
}

impl Network {
    async fn run(
        mut self,
        mut orders: mpsc::UnboundedReceiver<(Order, oneshot::Sender<io::Result<()>>)>,
    ) {
        loop {
            tokio::select! {
                stream = accept(self.listener.as_ref()) => {
                    let session = session::run(stream, Arc::clone(&self.shared));
                    self.connections.spawn(session);
                }
                order = orders.recv() => {
                    let Some((order, done)) = order else { return };
                    // Whoever gave the order may have stopped waiting.
                    let _gone = done.send(self.obey(order).await);
                }
                Some(_) = self.connections.join_next() => {}
            }
        }
    }

    async fn obey(&mut self, order: Order) -> io::Result<()> {
        match order {
            Order::Cut => self.connections.shutdown().await,
            Order::FallSilent => self.shared.silent.store(true, Ordering::SeqCst),
            Order::GoDown => self.go_down().await,
            Order::Restart => {
                self.go_down().await;
                self.shared.state().crash();
                self.come_back().await?;
            }
            Order::ComeBack => self.come_back().await?,
        }
        Ok(())
    }

    async fn go_down(&mut self) {
        self.listener = None;
        self.connections.shutdown().await;
    }

    async fn come_back(&mut self) -> io::Result<()> {
        if self.shared.silent.swap(false, Ordering::SeqCst) {
            // These connections owe answers that nobody waits for.
            self.connections.shutdown().await;
        }
        if self.listener.is_none() {
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
