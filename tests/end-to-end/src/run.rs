//! From options to an exit code.

use std::error::Error;
use std::process::ExitCode;

use cofferdam::{Job, StoreError};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use crate::crash::SpanWatch;
use crate::options::JobOptions;

/// Runs a job, until it ends or someone ends it, and prints its report or its error.
pub async fn run(options: &JobOptions, job: impl FnOnce() -> Result<Job, StoreError>) -> ExitCode {
    match try_to_run(options, job).await {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {}", with_causes(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn try_to_run(
    options: &JobOptions,
    job: impl FnOnce() -> Result<Job, StoreError>,
) -> Result<String, Box<dyn Error>> {
    let watch = SpanWatch::new(options.trace.as_deref(), options.crash_at.clone())?;
    let warnings = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_filter(LevelFilter::WARN);
    tracing_subscriber::registry()
        .with(watch)
        .with(warnings)
        .try_init()?;
    let report = job()?.run().await?;
    let progress = report.progress;
    let summary = serde_json::json!({
        "end": format!("{:?}", report.end),
        "epoch": progress.epoch.0,
        "checkpoint": progress.checkpoint.map(|id| id.0),
        "restarts": progress.restarts,
        "counts": progress.counts,
    });
    Ok(summary.to_string())
}

fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        // Many errors print their cause themselves.
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}
