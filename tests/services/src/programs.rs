//! Programs of the machine that run, do something, and end.

use crate::ServiceError;
use std::io;
use std::process::{Command, Stdio};

/// Runs a program to its end and gives what it wrote on standard output.
pub(crate) fn run(
    command: &mut Command,
    doing: &str,
    package: &'static str,
    program: &'static str,
) -> Result<String, ServiceError> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| not_started(&error, doing, package, program))?;
    let written = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(written);
    }
    let all = written + &String::from_utf8_lossy(&output.stderr);
    Err(ServiceError::Failed {
        doing: doing.to_owned(),
        output: tail(&all),
    })
}

pub(crate) fn not_started(
    error: &io::Error,
    doing: &str,
    package: &'static str,
    program: &'static str,
) -> ServiceError {
    match error.kind() {
        io::ErrorKind::NotFound => ServiceError::Missing { program, package },
        _ => ServiceError::Failed {
            doing: doing.to_owned(),
            output: error.to_string(),
        },
    }
}

/// The last lines of a log, enough to see why something failed.
pub(crate) fn tail(log: &str) -> String {
    const LINES: usize = 40;
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
