use super::java;
use super::properties::{self, Properties};
use crate::supervised::{POLL, Supervised};
use crate::{ServiceError, programs};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

const READY: Duration = Duration::from_secs(90);
const STOP: Duration = Duration::from_secs(30);
/// What is not even handed over to the process within this time will never be.
const KILL: Duration = Duration::from_secs(30);

/// Where a node listens on 127.0.0.1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    pub(super) plaintext: u16,
    pub(super) controller: u16,
    pub(super) sasl_ssl: u16,
    pub(super) mutual_tls: u16,
}

/// One broker, running or not, with its folder.
#[derive(Debug)]
pub(super) struct Node {
    number: usize,
    ports: Ports,
    cluster: PathBuf,
    home: PathBuf,
    command: Vec<String>,
    process: Option<Supervised>,
    /// Where in the log the present run begins.
    run: u64,
}

impl Node {
    /// Writes the node's configuration, without starting it.
    pub(super) fn prepare(
        number: usize,
        ports: Ports,
        cluster: &Path,
        properties: &Properties,
        jars: &Path,
        options: &[&str],
    ) -> Result<Self, ServiceError> {
        let home = home(cluster, number);
        fs::create_dir_all(&home).map_err(ServiceError::io("create", &home))?;
        let configuration = home.join("server.properties");
        fs::write(&configuration, properties::render(properties))
            .map_err(ServiceError::io("write", &configuration))?;
        let log = home.join("log");
        File::create(&log).map_err(ServiceError::io("create", log))?;
        let command = java::command(
            jars,
            cluster,
            options,
            &["kafka.Kafka", &configuration.to_string_lossy()],
        );
        Ok(Self {
            number,
            ports,
            cluster: cluster.to_owned(),
            home,
            command,
            process: None,
            run: 0,
        })
    }

    /// Starts what formats the node's storage; [`Self::wait_until_formatted`] is the other half.
    pub(super) fn format(&mut self, command: &[String]) -> Result<(), ServiceError> {
        self.process = Some(Supervised::start(&self.cluster, &self.home, command)?);
        Ok(())
    }

    pub(super) fn wait_until_formatted(&mut self) -> Result<(), ServiceError> {
        let formats = |process: &Supervised| process.ends_within(READY) && process.has_succeeded();
        if self.process.as_ref().is_some_and(formats) {
            return Ok(());
        }
        let what = "could not format its storage";
        Err(ServiceError::NotReady {
            node: self.number,
            what,
            log: self.log_tail()?,
        })
    }

    /// Starts the process; [`Self::wait_until_ready`] is the other half, so that several nodes start together.
    pub(super) fn launch(&mut self) -> Result<(), ServiceError> {
        self.run = fs::metadata(self.log_path()).map_or(0, |log| log.len());
        let launched = Supervised::start(&self.cluster, &self.home, &self.command)?;
        // Not before: at any time somebody has to be there who removes the folder when this process dies.
        self.forget()?;
        self.process = Some(launched);
        Ok(())
    }

    pub(super) fn wait_until_ready(&self) -> Result<(), ServiceError> {
        let start = Instant::now();
        loop {
            // The broker says so when the controller has let it in; by then its ports are open, unless all goes wrong.
            if self.log()?.contains("Kafka Server started")
                && TcpStream::connect(self.address()).is_ok()
            {
                return Ok(());
            }
            let what = match &self.process {
                Some(process) if !process.has_ended() && start.elapsed() < READY => {
                    thread::sleep(POLL);
                    continue;
                }
                Some(process) if !process.has_ended() => "was not ready in 90 s",
                _ => "ended while it started",
            };
            return Err(ServiceError::NotReady {
                node: self.number,
                what,
                log: self.log_tail()?,
            });
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.process
            .as_ref()
            .is_some_and(|process| !process.has_ended())
    }

    /// Lets go of a process that ended.
    pub(super) fn forget(&mut self) -> Result<(), ServiceError> {
        self.process.take().map_or(Ok(()), Supervised::leave)
    }

    pub(super) fn signal(&mut self, name: &str) -> Result<(), ServiceError> {
        self.process
            .as_mut()
            .map_or(Ok(()), |process| process.signal(name))
    }

    /// Ends the process at once.
    pub(super) fn kill(&mut self) -> Result<(), ServiceError> {
        self.signal("KILL")?;
        self.ends_within(KILL)
    }

    /// Asks the process to end, and waits.
    pub(super) fn stop(&mut self) -> Result<(), ServiceError> {
        self.signal("TERM")?;
        let stopped = self.ends_within(STOP);
        if stopped.is_err() {
            self.kill()?;
        }
        stopped
    }

    fn ends_within(&self, limit: Duration) -> Result<(), ServiceError> {
        if self
            .process
            .as_ref()
            .is_none_or(|process| process.ends_within(limit))
        {
            return Ok(());
        }
        Err(ServiceError::NotStopped {
            node: self.number,
            seconds: limit.as_secs(),
            log: self.log_tail()?,
        })
    }

    /// Lets the supervisor kill and clean up, without waiting for it.
    pub(super) fn abandon(&mut self) {
        if let Some(process) = &mut self.process {
            process.abandon();
        }
    }

    pub(super) fn id(&self) -> Option<u32> {
        self.process
            .as_ref()
            .filter(|process| !process.has_ended())
            .map(Supervised::id)
    }

    pub(super) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.plaintext).into()
    }

    pub(super) fn log_tail(&self) -> Result<String, ServiceError> {
        self.log().map(|log| programs::tail(&log))
    }

    /// What the present run has written.
    fn log(&self) -> Result<String, ServiceError> {
        let path = self.log_path();
        let mut bytes = Vec::new();
        File::open(&path)
            .and_then(|mut log| {
                log.seek(SeekFrom::Start(self.run))?;
                log.read_to_end(&mut bytes)
            })
            .map_err(ServiceError::io("read", path))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn log_path(&self) -> PathBuf {
        self.home.join("log")
    }
}

/// The folder of a node.
pub(super) fn home(cluster: &Path, number: usize) -> PathBuf {
    cluster.join(format!("node-{number}"))
}
