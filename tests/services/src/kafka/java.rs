use super::classes;
use crate::{ServiceError, programs};
use std::path::Path;
use std::process::Command;

const OLDEST: u32 = 17;

/// Fails if there is no Java that brokers run on.
pub(super) fn check() -> Result<(), ServiceError> {
    let output = Command::new("java")
        .arg("-version")
        .output()
        .map_err(|error| {
            programs::not_started(&error, "java -version", "default-jre-headless", "java")
        })?;
    let found = String::from_utf8_lossy(&output.stderr)
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned();
    // As in `openjdk version "17.0.15" 2025-04-15`; before Java 9 it was "1.8.0".
    let major = found
        .split('"')
        .nth(1)
        .and_then(|number| number.split(['.', '-', '+']).next()?.parse::<u32>().ok());
    if major.is_some_and(|major| major < OLDEST) {
        Err(ServiceError::OldJava { found })
    } else {
        Ok(())
    }
}

/// A command that runs a class of Kafka.
pub(super) fn command(
    jars: &Path,
    configuration: &Path,
    options: &[&str],
    arguments: &[&str],
) -> Vec<String> {
    let mut command = vec!["java".to_owned()];
    command.extend(options.iter().map(|&option| option.to_owned()));
    command.extend(classes::option(jars));
    command.extend([
        "-Xshare:auto".to_owned(),
        "-XX:+UseSerialGC".to_owned(),
        "-XX:-UsePerfData".to_owned(), // a killed process would leave its file
        "-Djava.awt.headless=true".to_owned(),
        format!(
            "-Dlog4j2.configurationFile={}",
            configuration.join("log4j2.properties").display()
        ),
        "-cp".to_owned(),
        format!("{}/*", jars.display()),
    ]);

    command.extend(arguments.iter().map(|&argument| argument.to_owned()));
    command
}

/// Runs a tool of Kafka to its end.
pub(super) fn run(command: &[String], doing: &str) -> Result<String, ServiceError> {
    programs::run(
        Command::new(&command[0]).args(&command[1..]),
        doing,
        "default-jre-headless",
        "java",
    )
}
