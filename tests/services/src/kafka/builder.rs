use super::node::{self, Node, Ports};
use super::properties::{self, Properties};
use super::security::{self, Security};
use super::{Kafka, KafkaVersion, classes, jars, java};
use crate::{ServiceError, ports, random};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use tempfile::TempDir;

/// How often other ports are tried when one was taken before the broker had it.
const ATTEMPTS: usize = 3;

/// What cluster to start.
#[derive(Debug, Clone)]
pub struct KafkaBuilder {
    version: KafkaVersion,
    nodes: usize,
    port: Option<u16>,
    settings: Properties,
    features: Vec<String>,
    secure: bool,
    throughput: bool,
}

impl KafkaBuilder {
    pub(super) fn new() -> Self {
        Self {
            version: KafkaVersion::default(),
            nodes: 1,
            port: None,
            settings: Properties::new(),
            features: Vec::new(),
            secure: false,
            throughput: false,
        }
    }

    /// The release of Kafka.
    #[must_use]
    pub fn version(mut self, version: KafkaVersion) -> Self {
        self.version = version;
        self
    }

    /// How many nodes, each broker and controller: one, or three, of which one can be lost.
    #[must_use]
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes.max(1);
        self
    }

    /// The plaintext port of the first node; the others have those after it. Without this, any that are free.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// A line of `server.properties`, in place of the one that is there.
    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.insert(name.into(), value.into());
        self
    }

    /// The level of a feature, as in `feature("transaction.version", 1)`, when the release's own is not wanted.
    #[must_use]
    pub fn feature(mut self, name: &str, level: u16) -> Self {
        self.features.push(format!("{name}={level}"));
        self
    }

    /// Adds listeners that ask for a password or a certificate, and forbid what is not allowed: see [`Security`].
    #[must_use]
    pub fn secure(mut self) -> Self {
        self.secure = true;
        self
    }

    /// Compiles the broker's code fully and gives it more memory: slower to start, and for benchmarks.
    #[must_use]
    pub fn tuned_for_throughput(mut self) -> Self {
        self.throughput = true;
        self
    }

    /// Starts the cluster and waits until each node is ready.
    ///
    /// # Errors
    ///
    /// If Java or Maven is missing, the download fails, or a node is not ready within 90 s.
    pub fn start(&self) -> Result<Kafka, ServiceError> {
        java::check()?;
        let jars = jars::fetch(self.version)?;
        classes::archive(self.version, &jars)?;
        self.start_with(&jars, &[])
    }

    /// With options for Java beside those of the builder.
    pub(super) fn start_with(&self, jars: &Path, java: &[&str]) -> Result<Kafka, ServiceError> {
        let mut attempt = 1;
        loop {
            match self.start_on(&self.choose_ports()?, jars, java) {
                Err(ServiceError::NotReady { log, .. })
                    if attempt < ATTEMPTS && self.port.is_none() && is_taken(&log) =>
                {
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    fn choose_ports(&self) -> Result<Vec<Ports>, ServiceError> {
        let free = ports::free(self.nodes * 4)?;
        Ok(free
            .chunks_exact(4)
            .zip(0..)
            .map(|(free, index)| Ports {
                plaintext: self.port.map_or(free[0], |first| first + index),
                controller: free[1],
                sasl_ssl: free[2],
                mutual_tls: free[3],
            })
            .collect())
    }

    fn start_on(&self, ports: &[Ports], jars: &Path, java: &[&str]) -> Result<Kafka, ServiceError> {
        let folder = TempDir::with_prefix("cofferdam-kafka-")
            .map_err(ServiceError::io("create", std::env::temp_dir()))?;
        let path = folder.path();
        let logging = path.join("log4j2.properties");
        fs::write(&logging, include_str!("log4j2.properties"))
            .map_err(ServiceError::io("write", logging))?;
        let security = self
            .secure
            .then(|| Security::prepare(path, ports))
            .transpose()?;
        let prepared = (1..=self.nodes)
            .map(|number| self.prepare(number, ports, path, jars, java, security.as_ref()));
        let mut nodes = prepared.collect::<Result<Vec<_>, _>>()?;
        // Kafka wants 16 bytes in base 64, and its tool takes one that begins with a dash for an option: hexadecimal is neither.
        let cluster = format!("{:016x}{:06x}", random(), random() & 0xff_ffff);
        for (node, number) in nodes.iter_mut().zip(1..) {
            node.format(&self.format(number, &cluster, path, jars))?;
        }
        nodes.iter_mut().try_for_each(Node::wait_until_formatted)?;
        nodes.iter_mut().try_for_each(Node::launch)?;
        nodes.iter().try_for_each(Node::wait_until_ready)?;
        Ok(Kafka {
            nodes: nodes.into_iter().map(Mutex::new).collect(),
            version: self.version,
            security,
            folder,
        })
    }

    fn prepare(
        &self,
        number: usize,
        ports: &[Ports],
        folder: &Path,
        jars: &Path,
        java: &[&str],
        security: Option<&Security>,
    ) -> Result<Node, ServiceError> {
        let own = ports[number - 1];
        let mut properties =
            properties::of_node(number, ports, &node::home(folder, number).join("data"));
        if let Some(security) = security {
            security.extend(&mut properties, own);
        }
        properties.extend(self.settings.clone());
        let options: &[&str] = if self.throughput {
            &["-Xms1g", "-Xmx1g"]
        } else {
            &["-Xmx384m", "-XX:TieredStopAtLevel=1"]
        };
        Node::prepare(
            number,
            own,
            folder,
            &properties,
            jars,
            &[options, java].concat(),
        )
    }

    /// What formats the storage of a node, given the id of the cluster.
    fn format(&self, number: usize, cluster: &str, folder: &Path, jars: &Path) -> Vec<String> {
        let configuration = node::home(folder, number).join("server.properties");
        let configuration = configuration.to_string_lossy();
        let users: Vec<String> = if self.secure {
            security::scram_users().collect()
        } else {
            Vec::new()
        };
        let mut arguments = vec![
            "kafka.tools.StorageTool",
            "format",
            "-t",
            cluster,
            "-c",
            &configuration,
        ];
        arguments.extend(
            self.features
                .iter()
                .flat_map(|feature| ["--feature", feature]),
        );
        arguments.extend(users.iter().flat_map(|user| ["--add-scram", user]));
        java::command(jars, folder, &["-XX:TieredStopAtLevel=1"], &arguments)
    }
}

fn is_taken(log: &str) -> bool {
    log.contains("Address already in use")
}
