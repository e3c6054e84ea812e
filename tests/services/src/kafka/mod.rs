mod access;
mod builder;
mod classes;
mod jars;
mod java;
mod node;
mod properties;
pub mod security;
mod version;

pub use access::{Operation, Resource};
pub use builder::KafkaBuilder;
pub use jars::fetch;
pub use version::{KafkaVersion, UnknownVersion};

use crate::ServiceError;
use node::Node;
use security::Security;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use tempfile::TempDir;

/// A cluster that runs until this is dropped, or until the process ends in whatever way; then its data is removed.
///
/// Nodes are counted from 1.
#[derive(Debug)]
pub struct Kafka {
    nodes: Vec<Mutex<Node>>,
    version: KafkaVersion,
    security: Option<Security>,
    folder: TempDir, // after the nodes: it is removed when they are dead
}

impl Kafka {
    /// What to start: one node of the newest release, unless more is said.
    pub fn builder() -> KafkaBuilder {
        KafkaBuilder::new()
    }

    /// The one node that all tests of a process share, started when it is first wanted.
    ///
    /// # Errors
    ///
    /// As [`KafkaBuilder::start`]; a start that failed is not tried again.
    pub fn shared() -> Result<&'static Self, &'static ServiceError> {
        static SHARED: OnceLock<Result<Kafka, ServiceError>> = OnceLock::new();
        SHARED.get_or_init(|| Self::builder().start()).as_ref()
    }

    /// The release that runs.
    pub fn version(&self) -> KafkaVersion {
        self.version
    }

    /// How many nodes there are, running or not.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The plaintext listeners of all nodes, as clients want them: `127.0.0.1:p1,127.0.0.1:p2`.
    pub fn bootstrap(&self) -> String {
        let addresses: Vec<String> = (1..=self.nodes())
            .map(|node| self.address(node).to_string())
            .collect();
        addresses.join(",")
    }

    /// The plaintext listener of a node.
    ///
    /// # Panics
    ///
    /// Like everything here that takes a node: if there is none of this number.
    pub fn address(&self, node: usize) -> SocketAddr {
        self.node(node).address()
    }

    /// The guarded listeners, and what clients need there; if the cluster was built with [`KafkaBuilder::secure`].
    pub fn security(&self) -> Option<&Security> {
        self.security.as_ref()
    }

    /// The node's data, configuration and log.
    pub fn node_folder(&self, node: usize) -> PathBuf {
        node::home(self.folder.path(), node)
    }

    /// The number of the node's process, while it runs.
    pub fn process_id(&self, node: usize) -> Option<u32> {
        self.node(node).id()
    }

    /// Ends a node at once, as a crash does, and waits until it is gone. Its data stays.
    ///
    /// # Errors
    ///
    /// If it does not end.
    pub fn kill(&self, node: usize) -> Result<(), ServiceError> {
        self.node(node).kill()
    }

    /// Shuts a node down in order, and waits until it is gone. Its data stays.
    ///
    /// # Errors
    ///
    /// If it takes longer than 30 s; it is then killed.
    pub fn stop(&self, node: usize) -> Result<(), ServiceError> {
        self.node(node).stop()
    }

    /// Starts a node again on its old data, ports and settings, and waits until it is ready. Does nothing if it runs.
    ///
    /// # Errors
    ///
    /// If it is not ready within 90 s.
    pub fn start_node(&self, node: usize) -> Result<(), ServiceError> {
        let mut node = self.node(node);
        if !node.is_running() {
            node.forget()?;
            node.launch()?;
        }
        node.wait_until_ready()
    }

    /// Holds a node still: it keeps its connections, and answers nothing.
    ///
    /// # Errors
    ///
    /// If its supervisor is gone.
    pub fn pause(&self, node: usize) -> Result<(), ServiceError> {
        self.node(node).signal("STOP")
    }

    /// Lets a paused node go on.
    ///
    /// # Errors
    ///
    /// If its supervisor is gone.
    pub fn resume(&self, node: usize) -> Result<(), ServiceError> {
        self.node(node).signal("CONT")
    }

    /// The last lines that a node wrote since it was last started.
    ///
    /// # Errors
    ///
    /// If its log cannot be read.
    pub fn log_tail(&self, node: usize) -> Result<String, ServiceError> {
        self.node(node).log_tail()
    }

    fn node(&self, node: usize) -> MutexGuard<'_, Node> {
        let all = self.nodes.len();
        let Some(node) = node.checked_sub(1).and_then(|index| self.nodes.get(index)) else {
            panic!("there is no node {node}, only 1 to {all}")
        };
        // A test that failed while it held a node must not take the others' cluster away.
        node.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        // All at once: each node's own drop waits until it is gone.
        for node in &mut self.nodes {
            node.get_mut()
                .unwrap_or_else(PoisonError::into_inner)
                .abandon();
        }
    }
}
