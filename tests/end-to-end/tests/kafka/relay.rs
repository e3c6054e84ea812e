//! The way from jobs to a broker, with traps for requests that end transactions.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The number of `EndTxn` in the protocol.
const END_TXN: [u8; 2] = 26_i16.to_be_bytes();

/// No request of these tests is as long.
const LONGEST_REQUEST: usize = 64 << 20;

/// Where an `EndTxn` is caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Catch {
    /// On its way to the broker, which never hears of it.
    Request,
    /// The answer, on its way back: what was asked for is done.
    Answer,
}

/// Catches some of a job's `EndTxn`s, and then cuts their connections.
#[derive(Debug)]
pub struct Trap {
    /// What transactional ids of the job begin with.
    prefix: String,
    catch: Catch,
    left: AtomicU32,
    caught: AtomicU32,
    released: AtomicBool,
}

impl Trap {
    /// How many it has caught.
    pub fn caught(&self) -> u32 {
        self.caught.load(Ordering::SeqCst)
    }

    /// Lets go of those that are caught, by cutting their connections, and of all that come.
    pub fn release(&self) {
        self.left.store(0, Ordering::SeqCst);
        self.released.store(true, Ordering::SeqCst);
    }

    fn springs(&self) -> bool {
        let take = |left: u32| left.checked_sub(1);
        let taken = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take);
        taken.is_ok()
    }

    /// Holds what was caught.
    fn hold(&self) {
        self.caught.fetch_add(1, Ordering::SeqCst);
        while !self.released.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Carries connections to a broker.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    traps: Mutex<Vec<Arc<Trap>>>,
    /// The transactional ids of all `EndTxn`s that went to the broker.
    ends: Mutex<Vec<String>>,
}

impl Relay {
    pub fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let state = Arc::new(State::default());
        let serving = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(broker) = TcpStream::connect(target) else {
                    continue;
                };
                if let Err(_gone) = carry(&serving, client, broker) {}
            }
        });
        Ok(Self { address, state })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Catches the next `EndTxn`s of a job, so many times, and holds them until it is told to let go.
    pub fn hold(&self, job: &str, catch: Catch, times: u32) -> Arc<Trap> {
        self.trap(job, catch, times, false)
    }

    /// Catches the next `EndTxn`s of a job, so many times, and loses them.
    pub fn lose(&self, job: &str, catch: Catch, times: u32) -> Arc<Trap> {
        self.trap(job, catch, times, true)
    }

    fn trap(&self, job: &str, catch: Catch, times: u32, released: bool) -> Arc<Trap> {
        let trap = Arc::new(Trap {
            prefix: format!("cofferdam.{job}."),
            catch,
            left: AtomicU32::new(times),
            caught: AtomicU32::new(0),
            released: AtomicBool::new(released),
        });
        lock(&self.state.traps).push(Arc::clone(&trap));
        trap
    }

    /// The transactional ids of a job that the broker was asked to end, in the order of requests.
    pub fn ends(&self, job: &str) -> Vec<String> {
        let prefix = format!("cofferdam.{job}.");
        let ends = lock(&self.state.ends);
        let ours = ends.iter().filter(|id| id.starts_with(&prefix));
        ours.cloned().collect()
    }
}

impl State {
    /// The trap that an `EndTxn` of this id runs into.
    fn trap(&self, id: &str) -> Option<Arc<Trap>> {
        let traps = lock(&self.traps);
        let mut ours = traps.iter().filter(|trap| id.starts_with(&trap.prefix));
        ours.find(|trap| trap.springs()).map(Arc::clone)
    }
}

fn carry(state: &Arc<State>, client: TcpStream, broker: TcpStream) -> io::Result<()> {
    client.set_nodelay(true)?;
    broker.set_nodelay(true)?;
    let (back_from, back_to) = (broker.try_clone()?, client.try_clone()?);
    // What catches the next answer.
    let awaited = Arc::new(Mutex::new(None));
    let caught = Arc::clone(&awaited);
    thread::spawn(move || {
        if let Err(_gone) = carry_answers(&back_from, &back_to, &caught) {}
        close(&back_from);
        close(&back_to);
    });
    let state = Arc::clone(state);
    thread::spawn(move || {
        if let Err(_gone) = carry_requests(&state, &client, &broker, &awaited) {}
        close(&client);
        close(&broker);
    });
    Ok(())
}

fn carry_requests(
    state: &State,
    mut client: &TcpStream,
    mut broker: &TcpStream,
    awaited: &Mutex<Option<Arc<Trap>>>,
) -> io::Result<()> {
    loop {
        let mut length = [0; 4];
        client.read_exact(&mut length)?;
        let size = usize::try_from(u32::from_be_bytes(length)).map_err(io::Error::other)?;
        if size > LONGEST_REQUEST {
            return Err(io::Error::other("that is no request"));
        }
        let mut request = length.to_vec();
        request.resize(4 + size, 0);
        client.read_exact(&mut request[4..])?;
        if request[4..].starts_with(&END_TXN) {
            let id = transactional_id(&request).expect("EndTxn names a transactional id");
            match state.trap(&id) {
                Some(trap) if trap.catch == Catch::Request => {
                    trap.hold();
                    return Ok(());
                }
                // The job's client has one request at a time on a connection: the next answer is to this one.
                trap => *lock(awaited) = trap,
            }
            lock(&state.ends).push(id);
        }
        broker.write_all(&request)?;
    }
}

fn carry_answers(
    mut broker: &TcpStream,
    mut client: &TcpStream,
    awaited: &Mutex<Option<Arc<Trap>>>,
) -> io::Result<()> {
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let length = broker.read(&mut chunk)?;
        if length == 0 {
            return Ok(());
        }
        if let Some(trap) = lock(awaited).take() {
            trap.hold();
            return Ok(());
        }
        client.write_all(&chunk[..length])?;
    }
}

/// The first name in a request that begins as our transactional ids do.
fn transactional_id(request: &[u8]) -> Option<String> {
    const PREFIX: &[u8] = b"cofferdam.";
    let start = request
        .windows(PREFIX.len())
        .position(|part| part == PREFIX)?;
    let of_name = |byte: &&u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let name = request[start..].iter().take_while(of_name).copied();
    String::from_utf8(name.collect()).ok()
}

/// Closes, if that has not happened yet.
fn close(stream: &TcpStream) {
    if let Err(_closed) = stream.shutdown(Shutdown::Both) {}
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
