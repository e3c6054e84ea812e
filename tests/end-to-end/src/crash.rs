//! Crashes at exact points, found by the spans that the library opens and closes.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};

use tracing::span::{Attributes, Id};
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// The n-th opening or closing of a span of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrashPoint {
    edge: Edge,
    span: String,
    number: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edge {
    Before,
    After,
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "before",
            Self::After => "after",
        })
    }
}

impl FromStr for CrashPoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || format!("{text:?} is not <before|after>:<span>:<n>");
        let fields: Vec<&str> = text.split(':').collect();
        let &[edge, span, number] = fields.as_slice() else {
            return Err(refuse());
        };
        let edge = match edge {
            "before" => Edge::Before,
            "after" => Edge::After,
            _ => return Err(refuse()),
        };
        let number = number.parse().map_err(|_| refuse())?;
        let span = span.to_owned();
        Ok(Self { edge, span, number })
    }
}

/// Watches spans: writes down when they open and close, and crashes at one of these points.
#[derive(Debug)]
pub struct SpanWatch {
    trace: Option<File>,
    crash: Option<CrashPoint>,
    reached: AtomicU32,
}

impl SpanWatch {
    /// Writes to `trace`, crashes at `crash`.
    ///
    /// # Errors
    /// If the file can't be opened.
    pub fn new(trace: Option<&Path>, crash: Option<CrashPoint>) -> io::Result<Self> {
        let open = |path: &Path| OpenOptions::new().append(true).create(true).open(path);
        Ok(Self {
            trace: trace.map(open).transpose()?,
            crash,
            reached: AtomicU32::new(0),
        })
    }

    fn reached(&self, edge: Edge, span: &Metadata<'_>) {
        if *span.level() > Level::INFO {
            return;
        }
        if let Some(mut trace) = self.trace.as_ref() {
            // One write, so that lines of several threads don't mix.
            let line = format!("{edge} {}\n", span.name());
            trace.write_all(line.as_bytes()).unwrap_or_else(|error| {
                eprintln!("error: the trace can't be written: {error}");
                std::process::abort();
            });
        }
        if let Some(crash) = &self.crash
            && crash.edge == edge
            && crash.span == span.name()
            && self.reached.fetch_add(1, Ordering::SeqCst) + 1 == crash.number
        {
            // As sudden as SIGKILL: no destructor runs, nothing is flushed.
            std::process::abort();
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SpanWatch {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        self.reached(Edge::Before, attributes.metadata());
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if let Some(span) = context.span(&id) {
            self.reached(Edge::After, span.metadata());
        }
    }
}
