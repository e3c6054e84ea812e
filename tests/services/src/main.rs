//! Services from the command line.

use clap::{Parser, Subcommand};
use cofferdam_services::{Kafka, KafkaVersion, ServiceError, fetch, security};
use std::process::ExitCode;
use std::thread;

/// Real services for tests and demonstrations, on 127.0.0.1.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Starts Kafka, prints its bootstrap servers, and runs until it is interrupted; then all data is removed.
    Kafka {
        /// How many nodes.
        #[arg(long, default_value_t = 1)]
        nodes: usize,
        /// The release: 4.4 or 3.9.
        #[arg(long, default_value_t)]
        version: KafkaVersion,
        /// The port of the first node; any that is free without this.
        #[arg(long)]
        port: Option<u16>,
        /// Adds listeners with TLS, passwords and access rules.
        #[arg(long)]
        secure: bool,
        /// Lines of server.properties, as name=value.
        #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
        settings: Vec<(String, String)>,
    },
    /// Downloads the jars of all releases, so that nothing that is timed has to.
    Fetch,
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<(), ServiceError> {
    match command {
        Command::Kafka {
            nodes,
            version,
            port,
            secure,
            settings,
        } => {
            let mut builder = Kafka::builder().version(version).nodes(nodes);
            if let Some(port) = port {
                builder = builder.port(port);
            }
            if secure {
                builder = builder.secure();
            }
            let kafka = settings
                .into_iter()
                .fold(builder, |builder, (name, value)| builder.set(name, value))
                .start()?;
            println!("{}", kafka.bootstrap());
            if let Some(security) = kafka.security() {
                println!("{security:#?}\n{:#?}", security::USERS);
            }
            // Whatever signal ends this process, the supervisors of the nodes see it and clean up.
            loop {
                thread::park();
            }
        }
        Command::Fetch => {
            for version in KafkaVersion::ALL {
                eprintln!("Kafka {version}: fetching what is not there");
                eprintln!("Kafka {version}: {}", fetch(version)?.display());
            }
            Ok(())
        }
    }
}

fn setting(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("it needs the form name=value")?;
    Ok((name.to_owned(), value.to_owned()))
}
