//! The job over files, until it ends or someone ends it.

use std::process::ExitCode;

use clap::Parser;
use cofferdam_end_to_end::{FileOptions, files_job, run};

#[tokio::main]
async fn main() -> ExitCode {
    let options = FileOptions::parse();
    run(&options.job, || files_job(&options)).await
}
