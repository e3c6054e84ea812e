//! One connection, as the system sees it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::Shared;
use crate::reference::wire::{Answer, Refusal, Request};

/// How long a request may be, in bytes.
const MAX_REQUEST: u64 = 1 << 20;

/// Answers a client until it leaves, or is thrown out.
pub(super) async fn run(stream: TcpStream, shared: Arc<Shared>) {
    let mut session = Session {
        shared,
        logged_in: false,
    };
    // A client that is cut off in mid-request is no matter.
    let _ended = session.serve(stream).await;
}

struct Session {
    shared: Arc<Shared>,
    logged_in: bool,
}

impl Session {
    async fn serve(&mut self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        loop {
            line.clear();
            (&mut stream)
                .take(MAX_REQUEST)
                .read_until(b'\n', &mut line)
                .await?;
            // A request that ends before its line does has not been made.
            if line.last() != Some(&b'\n') {
                return Ok(());
            }
            let mut answer = serde_json::to_vec(&self.answer(&line))?;
            answer.push(b'\n');
            // In silence, what is asked is done all the same.
            if !self.shared.silent.load(Ordering::SeqCst) {
                stream.write_all(&answer).await?;
            }
        }
    }

    fn answer(&mut self, line: &[u8]) -> Answer {
        let refused = |refusal, message: &str| Answer::Refused {
            refusal,
            message: message.to_owned(),
        };
        match serde_json::from_slice(line) {
            Err(error) => refused(Refusal::Malformed, &error.to_string()),
            Ok(Request::Login { password }) if password == self.shared.password => {
                self.log_in();
                Answer::Done
            }
            Ok(Request::Login { .. }) => refused(Refusal::Login, "the password is wrong"),
            Ok(request) if self.logged_in || matches!(request, Request::Read { .. }) => {
                self.shared.state().answer(request, Instant::now())
            }
            Ok(_) => refused(Refusal::Login, "log in first"),
        }
    }

    fn log_in(&mut self) {
        if !self.logged_in {
            self.logged_in = true;
            self.shared.connections.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.logged_in {
            self.shared.connections.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
