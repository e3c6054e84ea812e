//! What several tests look at.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Waits until something holds, and fails with its description when it does not come to.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "not within 30 s: {what}"
        );
        thread::sleep(Duration::from_millis(20));
    }
}

/// Asks a broker for the versions it speaks, and checks that it answers without an error.
pub fn ask(address: SocketAddr, patience: Duration) -> io::Result<()> {
    const CORRELATION: [u8; 4] = [0, 0, 0, 7];
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(patience))?;
    let api_versions = [&[0, 18, 0, 0], &CORRELATION, &[0xff, 0xff][..]].concat();
    stream.write_all(&[&[0, 0, 0, 10], &api_versions[..]].concat())?;
    let mut answer = [0; 10];
    stream.read_exact(&mut answer)?;
    assert_eq!(answer[4..8], CORRELATION);
    assert_eq!(answer[8..10], [0, 0], "an error code");
    Ok(())
}

/// For an answer that is expected, on a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// How many processes have this path on their command line.
pub fn processes_with(path: &Path) -> usize {
    let path = path.to_str().unwrap().as_bytes();
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    processes
        .filter_map(|process| fs::read(process.path().join("cmdline")).ok())
        .filter(|command| command.windows(path.len()).any(|part| part == path))
        .count()
}
