//! The way from sinks to a broker: counted, cut, or led through another door.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Carries connections to where it is told, in threads of its own, as it outlives the runtimes of tests.
#[derive(Debug)]
pub(crate) struct Relay {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    target: SocketAddr,
    /// Both ends of each connection.
    connections: Vec<(TcpStream, TcpStream)>,
}

impl Relay {
    pub(crate) fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(State {
            target,
            connections: Vec::new(),
        }));
        let serving = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let target = lock(&serving).target;
                let Ok(server) = TcpStream::connect(target) else {
                    continue;
                };
                if let Err(_gone) = carry(&serving, client, server) {}
            }
        });
        Ok(Self { address, state })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where new connections lead from now on. Those that are there are cut, so that none takes the old way.
    pub(crate) fn lead_to(&self, target: SocketAddr) {
        lock(&self.state).target = target;
        self.cut();
    }

    pub(crate) fn cut(&self) {
        for (client, server) in &lock(&self.state).connections {
            close(client);
            close(server);
        }
    }

    pub(crate) fn connections(&self) -> usize {
        lock(&self.state).connections.len()
    }
}

fn carry(state: &Arc<Mutex<State>>, client: TcpStream, server: TcpStream) -> io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (kept_client, kept_server) = (client.try_clone()?, server.try_clone()?);
    let name = client.peer_addr()?;
    lock(state).connections.push((kept_client, kept_server));
    let (back_from, back_to) = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || pump(back_from, back_to));
    let state = Arc::clone(state);
    thread::spawn(move || {
        pump(client, server);
        lock(&state)
            .connections
            .retain(|(client, _)| client.peer_addr().is_ok_and(|address| address != name));
    });
    Ok(())
}

/// Carries one direction until it ends, and then ends the other too.
fn pump(mut from: TcpStream, mut to: TcpStream) {
    let mut chunk = vec![0; 64 * 1024];
    loop {
        match from.read(&mut chunk) {
            Ok(0) | Err(_) => break,
            Ok(length) => {
                if to.write_all(&chunk[..length]).is_err() {
                    break;
                }
            }
        }
    }
    close(&from);
    close(&to);
}

/// Closes, if that has not happened yet.
fn close(stream: &TcpStream) {
    if let Err(_closed) = stream.shutdown(Shutdown::Both) {}
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
