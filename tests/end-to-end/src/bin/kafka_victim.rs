//! The job over Kafka, until it ends or someone ends it.

use std::process::ExitCode;

use clap::Parser;
use cofferdam_end_to_end::{KafkaOptions, kafka_job, run};

#[tokio::main]
async fn main() -> ExitCode {
    let options = KafkaOptions::parse();
    run(&options.job, || kafka_job(&options)).await
}
