use super::node::{self, Node, Ports};
use super::properties::{self, Properties};
use super::{Kafka, KafkaVersion, jars, java};
use crate::{ServiceError, ports, random};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::thread;
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
        let mut attempt = 1;
        loop {
            match self.start_on(&self.choose_ports()?, &jars) {
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
        let free = ports::free(self.nodes * 2)?;
        let pairs = free.chunks_exact(2).enumerate();
        Ok(pairs
            .map(|(index, pair)| Ports {
                plaintext: self.port.map_or(pair[0], |first| {
                    first + u16::try_from(index).expect("few nodes")
                }),
                controller: pair[1],
            })
            .collect())
    }

    fn start_on(&self, ports: &[Ports], jars: &Path) -> Result<Kafka, ServiceError> {
        let folder = TempDir::with_prefix("cofferdam-kafka-")
            .map_err(ServiceError::io("create", std::env::temp_dir()))?;
        let logging = folder.path().join("log4j2.properties");
        fs::write(&logging, include_str!("log4j2.properties"))
            .map_err(ServiceError::io("write", logging))?;
        // Kafka wants 16 bytes in base 64, and its tool takes one that begins with a dash for an option: hexadecimal is neither.
        let cluster = format!("{:016x}{:06x}", random(), random() & 0xff_ffff);
        let nodes = (0..self.nodes)
            .map(|index| self.prepare(index, ports, folder.path(), jars))
            .collect::<Result<Vec<_>, _>>()?;
        thread::scope(|scope| {
            let formats: Vec<_> = (0..self.nodes)
                .map(|index| {
                    scope.spawn({
                        let (folder, cluster) = (folder.path(), &cluster);
                        move || self.format(index, folder, cluster, jars)
                    })
                })
                .collect();
            formats
                .into_iter()
                .try_for_each(|format| format.join().expect("it does not panic"))
        })?;
        let mut kafka = Kafka {
            nodes: nodes.into_iter().map(Mutex::new).collect(),
            version: self.version,
            folder,
        };
        for node in &mut kafka.nodes {
            node.get_mut().expect("nobody has locked it").launch()?;
        }
        for node in &mut kafka.nodes {
            node.get_mut()
                .expect("nobody has locked it")
                .wait_until_ready()?;
        }
        Ok(kafka)
    }

    fn prepare(
        &self,
        index: usize,
        ports: &[Ports],
        folder: &Path,
        jars: &Path,
    ) -> Result<Node, ServiceError> {
        let mut properties =
            properties::of_node(index, ports, &node::home(folder, index + 1).join("data"));
        properties.extend(self.settings.clone());
        let options: &[&str] = if self.throughput {
            &["-Xms1g", "-Xmx1g"]
        } else {
            &["-Xmx384m", "-XX:TieredStopAtLevel=1"]
        };
        Node::prepare(index + 1, ports[index], folder, &properties, jars, options)
    }

    fn format(
        &self,
        index: usize,
        folder: &Path,
        cluster: &str,
        jars: &Path,
    ) -> Result<(), ServiceError> {
        let configuration = node::home(folder, index + 1).join("server.properties");
        let configuration = configuration.to_string_lossy();
        let mut arguments = vec![
            "kafka.tools.StorageTool",
            "format",
            "-t",
            cluster,
            "-c",
            &configuration,
        ];
        for feature in &self.features {
            arguments.extend(["--feature", feature]);
        }
        java::run(
            &java::command(jars, folder, &["-XX:TieredStopAtLevel=1"], &arguments),
            "the formatting of a node's storage",
        )
        .map(drop)
    }
}

fn is_taken(log: &str) -> bool {
    log.contains("Address already in use")
}
