//! The way to a cluster, from the command line.

use std::error::Error;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use cofferdam_kafka::{KafkaConnection, Sasl, Tls};

/// The variable with the password, so that it is on no command line.
const PASSWORD: &str = "KAFKA_PASSWORD";

/// Encryption and signing in.
#[derive(Debug, Args)]
pub struct Security {
    /// Encrypt connections, trusting the authorities of the operating system.
    #[arg(long)]
    tls: bool,
    /// Encrypt connections, trusting the authorities in this file (PEM).
    #[arg(long)]
    ca_file: Option<PathBuf>,
    /// Sign in as --user.
    #[arg(long, requires = "user")]
    sasl_mechanism: Option<Mechanism>,
    /// Who to sign in as.
    #[arg(long, requires = "sasl_mechanism")]
    user: Option<String>,
    /// The file with the password; without it the variable `KAFKA_PASSWORD` has it.
    #[arg(long, requires = "sasl_mechanism")]
    password_file: Option<PathBuf>,
}

/// How to sign in.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Mechanism {
    Plain,
    #[value(name = "scram-sha-256")]
    ScramSha256,
    #[value(name = "scram-sha-512")]
    ScramSha512,
}

impl Security {
    /// The connection to a cluster.
    pub fn connection(&self, bootstrap: &str) -> Result<KafkaConnection, Box<dyn Error>> {
        let mut kafka = KafkaConnection::new(bootstrap);
        if let Some(ca_file) = &self.ca_file {
            kafka = kafka.tls(Tls::new().ca_file(ca_file));
        } else if self.tls {
            kafka = kafka.tls(Tls::new());
        }
        let (Some(mechanism), Some(user)) = (self.sasl_mechanism, &self.user) else {
            return Ok(kafka);
        };
        let password = self.password()?;
        Ok(kafka.sasl(match mechanism {
            Mechanism::Plain => Sasl::plain(user, password),
            Mechanism::ScramSha256 => Sasl::scram_sha_256(user, password),
            Mechanism::ScramSha512 => Sasl::scram_sha_512(user, password),
        }))
    }

    fn password(&self) -> Result<String, String> {
        let Some(file) = &self.password_file else {
            return std::env::var(PASSWORD)
                .map_err(|_| format!("no password: give --password-file, or set {PASSWORD}"));
        };
        let text = std::fs::read_to_string(file)
            .map_err(|error| format!("can't read {}: {error}", file.display()))?;
        Ok(text.trim_end_matches(['\r', '\n']).to_owned())
    }
}
