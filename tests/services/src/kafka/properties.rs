use super::node::Ports;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The settings of a broker, by name.
pub(super) type Properties = BTreeMap<String, String>;

/// What a node is told, so that a small cluster starts quickly and can lose a node.
pub(super) fn of_node(number: usize, ports: &[Ports], data: &Path) -> Properties {
    let own = &ports[number - 1];
    let voters: Vec<String> = ports
        .iter()
        .enumerate()
        .map(|(index, ports)| format!("{}@127.0.0.1:{}", index + 1, ports.controller))
        .collect();
    let replicas = ports.len().min(3).to_string();
    let in_sync = if ports.len() < 3 { "1" } else { "2" };
    [
        ("process.roles", "broker,controller"),
        ("node.id", &number.to_string()),
        ("controller.quorum.voters", &voters.join(",")),
        (
            "listeners",
            &format!(
                "PLAINTEXT://127.0.0.1:{},CONTROLLER://127.0.0.1:{}",
                own.plaintext, own.controller
            ),
        ),
        (
            "advertised.listeners",
            &format!("PLAINTEXT://127.0.0.1:{}", own.plaintext),
        ),
        (
            "listener.security.protocol.map",
            "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        ),
        ("controller.listener.names", "CONTROLLER"),
        ("inter.broker.listener.name", "PLAINTEXT"),
        ("log.dirs", &data.display().to_string()),
        ("num.network.threads", "2"),
        ("num.io.threads", "4"),
        ("num.partitions", "1"),
        ("default.replication.factor", &replicas),
        ("min.insync.replicas", in_sync),
        ("offsets.topic.replication.factor", &replicas),
        ("offsets.topic.num.partitions", "4"),
        ("transaction.state.log.replication.factor", &replicas),
        ("transaction.state.log.min.isr", in_sync),
        ("transaction.state.log.num.partitions", "4"),
        (
            "share.coordinator.state.topic.replication.factor",
            &replicas,
        ),
        ("share.coordinator.state.topic.min.isr", in_sync),
        ("group.initial.rebalance.delay.ms", "0"),
        ("transaction.max.timeout.ms", "3600000"),
        (
            "transaction.abort.timed.out.transaction.cleanup.interval.ms",
            "1000",
        ),
        // Records of tests carry event times of any year; by default they would be deleted as too old.
        ("log.retention.ms", "-1"),
        // A killed node may come back only when the controller has given up its former self.
        ("broker.session.timeout.ms", "3000"),
        ("broker.heartbeat.interval.ms", "500"),
        ("log.cleaner.dedupe.buffer.size", "8388608"),
        ("log.cleaner.threads", "1"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect()
}

/// In the format of Java, where a backslash would begin an escape.
pub(super) fn render(properties: &Properties) -> String {
    properties
        .iter()
        .fold(String::new(), |mut text, (name, value)| {
            writeln!(text, "{name}={}", value.replace('\\', "\\\\")).expect("a string takes all");
            text
        })
}
